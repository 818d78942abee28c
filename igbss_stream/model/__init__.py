"""The IGBSS model: a log-linear model on a poset of mixing, source and received states.

The modules are pure mathematics: they do not depend on files, streams or units.

::

    poset          the sample space and its partial order
    loglinear      densities, expectations, divergence, Fisher information
    solve          fit theta by e-projection
    closed_form    the optimum of structures with a closed form
    structure      learn the incidence of sources on channels
    learning       how a structure was learned: view, evidence, reliability
    drift          removal of slow drift before learning
    selection      choice of the view that a structure is learned from
    views          descent on a view: sources through filters that whiten in part
    densities      learned densities of sources
    likelihood     descent on innovations: maximum likelihood of autoregressive sources
    newton         relative Newton steps, priors and sampling errors of descents
    spectra        covariances in frequency bands
    starts         starting points from textbook ICA methods
    interactions/  learn mixtures with products of sources
    kernels/       compiled functions
"""
