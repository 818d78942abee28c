"""Prepare samples before they are separated: repair, re-reference, filter, resample.

`docs/preparing.md` defines every step.

::

    settings      what to do
    referencing   subtract the mean of channels
    filters       design filters
    zero_phase    filter forward and backward in bounded memory
    resampling    change the sampling rate by a rational ratio
    rows          buffer rows between steps
    online        prepare a stream, causally
    offline       prepare a recording, with zero phase
    repair/       faulty samples of a stream
"""
