"""Prepare samples for separation: replace bad channels, repair, re-reference, filter, resample.

`docs/preparing.md` defines every step.

::

    settings      settings of the preparation
    referencing   subtract the mean of channels
    filters       design filters; determine how long they ring
    zero_phase    filter forward and backward in bounded memory
    resampling    change the sampling rate by a rational ratio
    row_buffer    buffer rows between steps
    online        prepare a stream, causally
    offline       prepare a recording, with zero phase
    bad_channels/ leave bad channels out of a stream
    repair/       repair faulty samples of a stream
"""
