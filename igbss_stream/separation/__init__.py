"""Arrays of samples in, sources out.

::

    api            `separate`, the function for a whole array
    settings       the parameters of the model, checked
    statistics     scan samples: faults, scale, covariance, excerpt
    transform      convert samples into probabilities and back
    engine         `Separator`: windows of samples in, results out
    e_projection   fit a window by e-projection
    structure_fit  learn a structure and separate by it
    linear         the linear map from samples to sources and back
    polynomial     the polynomial map, for sources that interact
    result         `Separation`: sources and the model that they come from
    cleaning       channels without selected sources
    pca_form       an unmixing as PCA followed by a square unmixing, as MNE stores it
    metrics        compare estimated with true sources
"""
