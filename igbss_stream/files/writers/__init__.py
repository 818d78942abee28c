"""Write HDF5 files.

::

    locking            lock outputs, place them under their names, explain failed writes
    hdf5               write an output of `batch`, complete or not at all
    stream_recording   record a stream while it runs
    growing_hdf5       an HDF5 file that grows and is readable at every moment
    growing_header     the header of such a file
"""
