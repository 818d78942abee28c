"""The daemon `igbss-stream run`.

::

    daemon          start the streams of a configuration, run until stopped
    stream_runner   one stream: source, repair, preparation, pipeline, sinks
    connectors      open sources and sinks
    sources         sources as the daemon reads them; file_source, lsl_source
    state           checkpoint models between runs
    health          /metrics and /health over HTTP
    logs            log lines for people, JSON for programs
    viewer          run the live page as a separate process
    viewer_keys     the keys of the live page at an encrypted sink
    config/         the configuration
"""
