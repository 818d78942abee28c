"""Write HDF5 files.

::

    locking            lock outputs, and write them under temporary names
    write_errors       refuse impossible outputs, and explain failed writes
    hdf5_output        write an output of `batch` completely or not at all
    hdf5_datasets      create HDF5 files, datasets and attributes
    model_file         write the model of an output or of a state of the daemon
    stream_recording   record a stream while it runs
    recording_layout   the tables of such a recording, and its files that exist
    learning_table     its table of how models were learned
    recorded_events    its table of events
    continuation       open one that exists
    rotation           when it continues in a new file, named by time
    growing_hdf5       an HDF5 file that grows and is readable at every moment
    growing_header     the header of such a file
"""
