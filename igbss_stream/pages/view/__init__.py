"""The live page: sources of a stream, its channels, and details of one source (extra `view`).

::

    serve        serve the page on this machine
    port         find a free port
    feed         the thread that reads the stream
    state        what the page shows of the stream
    traces       the last seconds, reduced to the pixels of the screen
    page         one open page
    bokeh_model  the properties that server and script exchange
    side_plots   plots of the selected source
    status       text and figures on the stream
"""
