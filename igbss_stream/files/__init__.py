"""Recordings: open, read, write and export.

::

    open               detect the format and open the file
    recording          `Recording`: the interface of every reader
    read_options       what the caller states about a recording: dataset, axis, rate, channels, unit
    channel_selection  select channels by name, position or range
    signal_choice      list what a file offers where it does not say which signal is meant
    timing             sampling rate and gaps from timestamps
    nonfinite_runs     find runs of NaN and infinite samples
    chunks             a recording as chunks and gaps
    inspection         describe a file and its samples, for `inspect`
    matrix_file        read a matrix of numbers
    readers/           one module or folder a format
    results/           read our own output files
    writers/           write HDF5
    export/            write EDF, BDF and BrainVision
"""
