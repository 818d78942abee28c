"""Learn sources from mixtures that contain products of them.

::

    learn       the search on an excerpt, then the refinement on all samples
    search      rounds of descents from many starts
    starts      starting points: polynomials of the channels that explain the channels
    descent     improve sources and weights together
    whitening   the uncorrelated directions in which products are learned
"""
