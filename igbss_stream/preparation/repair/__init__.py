"""Repair faulty samples of a stream, or declare them a gap.

::

    stage        repair stage between a feed and the preparation
    detectors    find faulty samples: NaN, saturation, outliers, flat channels
    gap_filler   fill short runs of missing samples, or declare a gap
"""
