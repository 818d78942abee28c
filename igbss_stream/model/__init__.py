"""The IGBSS model: a log-linear model on a poset of mixing, source and received states.

The modules are pure mathematics: they do not depend on files, streams or units.

::

    poset          the sample space and its partial order
    loglinear      densities, expectations, divergence, Fisher information
    solve          fit theta by e-projection
    closed_form    the optimum of structures with a closed form
    structure      learn the incidence of sources on channels
    selection      select among candidate unmixing matrices
    likelihood     maximum likelihood of autoregressive sources
    spectra        maximum likelihood of Gaussian sources in noise, from spectra
    starts         starting points from textbook ICA methods
    interactions/  learn mixtures with products of sources
    kernels/       compiled functions
"""
