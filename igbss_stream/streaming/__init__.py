"""Separate a stream chunk by chunk. No sockets and no clock.

::

    pipeline        turn chunks of channels into chunks of sources
    separators      separate sample by sample, or by overlapping windows
    stream_model    a separator and its position in a stream
    model_updates   schedule, learn and activate models
    restore         restore the separator of a stored model
    windowing       cut a stream into windows and overlap-add the results
"""
