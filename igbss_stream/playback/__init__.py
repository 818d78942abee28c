"""Simulate, replay and monitor streams.

::

    simulate        an EEG with known sources
    waveforms       the time courses of simulated sources
    forward_model   their mixing at the electrodes
    replay          a recording as a stream
    pacing          release chunks when their samples are due
    publishing      publish a paced stream
    monitoring      rate, gaps, latency and amplitude of a stream
    listen          monitor and record a stream
    render          print what was monitored
"""
