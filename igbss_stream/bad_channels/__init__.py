"""Find bad channels by their samples: flat, railed, noisy, with hum, unlike the others, or bridged.

::

    measures   amplitude, noise, hum and likeness of the channels of a window
    rails      count samples that stay at the extremes of their channel
    survey     measure the windows of a recording in one pass
    findings   judge the measures: channel, kind, number and limit
    splines    interpolate channels on the head
    memory     what a stream has learned of its channels, for its next run
"""
