"""Separate a stream, chunk by chunk. No sockets and no clock.

::

    pipeline        chunks of channels in, chunks of sources out
    separators      separate sample by sample, or by overlapping windows
    model_updates   schedule, learn and activate models
    windowing       cut a stream into windows and overlap-add the results
"""
