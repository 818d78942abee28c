"""Learn mixtures that contain products of sources.

::

    learn       search on an excerpt, then refine on all samples
    search      rounds of descents from many starting points
    starts      starting points: polynomials of the channels
    descent     optimise sources and weights jointly
    whitening   whiten the channels
"""
