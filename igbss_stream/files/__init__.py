"""Recordings: open, read, write and export.

::

    open               detect the format and open the file
    recording          `Recording`: the interface of every reader
    read_options       what the caller states about a recording: dataset, axis, rate, channels, unit
    channel_selection  select channels by name, position or range
    signal_choice      list the signals of a file that has several
    timing             sampling rate and gaps from timestamps
    jittered_times     rate and gaps from timestamps that jitter
    counters           recognise channels that count, and what their jumps lose
    first_look         leave out counters, note values that mean missing
    standing_out       find a value that stands out from all others
    gaps               convert gaps between rows of a file and indices of a stream
    sample_marks       annotations of gaps and padding in exports
    bad_rows           rows that annotations mark as bad
    montage            positions of a recording from a montage, or a table of BIDS beside it
    coordinates        convert units and axes of positions
    positions_dataset  the dataset /positions of our files
    chunks             read a recording as chunks and gaps
    nonfinite_runs     find runs of NaN and infinite samples
    inspection         describe a file and its samples, for `inspect`
    matrix_file        read a matrix of numbers
    messages           names and error messages that readers share
    readers/           one module or folder a format
    results/           read our own output files
    writers/           write HDF5
    export/            write EDF, BDF and BrainVision
"""
