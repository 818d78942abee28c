"""Separate recordings: one, many, in segments, on Dask.

One recording, from top to bottom::

    job                 a recording to separate, as data, and its outcome
    settings            how to separate
    separate            read, separate and write block by block
    channels            the channels to read, prepared
    interpolation       bad channels among the cleaned ones
    faulty_channels     the channels that are left out as bad by their samples
    prepare_separator   the separator, before the first sample
    windows             windows without gaps, where samples are not independent
    models              use a model that exists
    output_writer       write the output
    fits                write how each window was fitted

Many::

    inputs              find recordings
    outputs             where each output goes
    resume              skip what an earlier run completed
    shared_models       one model for several recordings
    reports             write a report beside each output
    summary             outcomes as a table

In parallel::

    dask_runner         run jobs on Dask
    dask_cluster        local processes, or a scheduler elsewhere
    dask_task           what runs in a worker
    segments            split one large recording
    segment_context     what all segments share
"""
