"""The IGBSS model: a log-linear model on a poset of mixing, source and received states.

Nothing in here knows of files, streams or units.

::

    poset          which state is below which
    loglinear      densities, expectations, divergence, Fisher information
    solve          fit theta by e-projection
    structure      learn which sources reach which channels
    selection      choose among candidate unmixings
    likelihood     maximum likelihood of autoregressive sources
    spectra        Gaussian sources in noise, from their spectra
    starts         starting points from textbook methods
    interactions/  products of sources
    kernels/       compiled functions
"""
