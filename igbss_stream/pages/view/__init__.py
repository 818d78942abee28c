"""Serve the live page: sources of a stream, its channels, and details of one source (extra `view`).

::

    serve        serve the page on this machine
    web_server   check names and limits before Bokeh sees a request
    port         find a free port
    feed         threads that read the stream and the metrics of the daemon
    state        what the page shows of the stream
    traces       the last seconds, reduced to the columns of the screen
    page         one open page; page.html, page.css and *.js are its parts
    display      filter and re-reference traces for display
    choosing     what an open page asks of the daemon, and what is taken out
    control_access
                 pass the requests of pages on to the daemon
    side_plots   plots of the selected source
    status       sentences and figures on the stream
"""
