"""Separate arrays of samples into sources.

::

    api            `separate`, the function for a whole array
    parameters     declaration of the model parameters, for the function, the command and the YAML section
    settings       checks of the parameters
    plan           `SeparationPlan`: settings and channels, prepared for the samples
    engine         `Separator`: separates samples and windows
    result         `Separation`: sources and their model
    stages         linear and polynomial maps from samples to sources and back
    transform      conversion of samples into probabilities and back
    e_projection   fit of a window by e-projection
    structure_fit  learned structures
    statistics     `Survey`: statistics of the samples in one pass, composed of
    scan               extremes, means, bad samples and flat channels
    scale              robust centre and scale
    covariance         covariance and rank
    excerpt            samples to learn a structure from
    learning_rows      rows to learn from, without those that are marked as bad
    cleaning       removal of sources from the channels
    source_choice  the sources to remove: by channels and labels
    source_labels  labels of sources from the samples of a survey
    pca_form       an unmixing as PCA followed by a square unmixing, the form of MNE's ICA
    metrics        comparison of estimated with true sources
"""
