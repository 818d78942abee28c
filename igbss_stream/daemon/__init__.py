"""The daemon `igbss-stream run`.

::

    daemon          start the streams of a configuration, run until stopped
    process_tuning  switch interval, garbage collection and memory of the process while it runs
    stream_runner   one stream: source, repair, preparation, pipeline, sinks
    announcer       describe the stream, its models and the removed sources to the sinks
    choice          which sources were chosen to be removed, and requests to change that
    source_chooser  apply choices of sources between two chunks
    stream_settings how a stream is prepared, separated and cleaned
    calibration     a model from a file, and the channels of a stream in its order
    bad_channels    leave bad channels out, log and count them
    sink_guard      what a sink is; its failures, which do not stop the stream
    connectors      open sources and sinks, wait for input
    sources         what a source provides; messages from sockets
    counter_watch   warn of channels that count samples
    file_source     recordings in files
    lsl_source      streams of the Lab Streaming Layer
    state           store models between runs
    health          /metrics and /health
    control         /choice, for clients with a token
    control_token   make, keep and read the token
    metrics         metrics for Prometheus
    http_server     answer HTTP requests within fixed limits
    logs            log lines for people, JSON for programs
    viewer          run the live page as a separate process
    viewer_keys     the keys of the live page at an encrypted sink
    config/         the configuration
"""
