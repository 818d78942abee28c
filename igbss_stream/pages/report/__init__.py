"""One HTML page on an output of `batch`: the input, the separation, and each source.

::

    write                write the report of an output
    page                 the whole page: head, contents, sections
    contents             open the output
    statistics           the one pass over all samples
    blocks               read samples between gaps
    excerpt, overview    traces of a few seconds, and of the whole recording
    moments              moments of samples that arrive in blocks
    reconstruct          channels from sources
    reference_channels   channels of the input that were not separated
    ranking              order the sources and give the reasons
    origin               sections on the input and on the separation
    source_sections      sections on the sources
    before_after         the section on cleaning
    stream_section       the section on a recorded stream
    versions             models that changed on the way
    convergence          the section on fits and learning
    plots, descents      draw
    markup               safe HTML
"""
