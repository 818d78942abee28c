"""Make faulty samples of a stream usable, or declare a gap.

::

    stage        the stage between a feed and its preparation
    detectors    find faulty samples: NaN, saturation, outliers, flat channels
    gap_filler   fill short gaps, or declare their rows a gap
"""
