"""Write an HTML report on an output of `batch` or on a recorded stream.

::

    write                entry point: write the report to a file
    page                 assemble the page from its sections
    data                 open the output
    blocks               read samples in blocks without gaps
    statistics, moments  compute all statistics in one pass
    reconstruct          compute channels from sources
    reference_channels   read channels that were not separated
    ranking              rank the sources
    traces               excerpts and time axes
    plots                draw traces, spectra, weights, scalp maps
    input_section        section on the input
    method_section       section on settings and models
    convergence          its part on fits and structure learning
    source_sections      sections on the sources
    exclusion_command    the command that takes marked sources out
    source_labels        their labels
    cleaning_section     section on cleaning
"""
