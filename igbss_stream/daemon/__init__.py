"""The daemon `igbss-stream run`.

::

    daemon          start the streams of a configuration, run until stopped
    process_tuning  switch interval, garbage collection and memory of the process while it runs
    stream_runner   one stream: source, repair, preparation, pipeline, sinks
    connectors      open sources and sinks, wait for input
    sources         what a source provides; messages from sockets
    file_source     recordings in files
    lsl_source      streams of the Lab Streaming Layer
    state           store models between runs
    health          /metrics and /health over HTTP
    logs            log lines for people, JSON for programs
    viewer          run the live page as a separate process
    viewer_keys     the keys of the live page at an encrypted sink
    config/         the configuration
"""
