"""General helpers that know nothing of source separation; the lowest layer of the package.

::

    atomic_write   write a small file as a whole or not at all
    closeable      base class of everything that is closed by a ``with`` block
    compression    HDF5 compression filters by name
    compute_pool   process blocks in threads and return the results in order
    dtypes         the sample dtypes of the package, float32 and float64
    electrodes     positions of the electrodes of the 10-20 and 10-10 systems
    medians        medians of many series
    memory         check that an allocation, or a cache, fits into memory
    optional       import libraries that belong to an extra
    progress       report the progress of a long computation
    scheduling     thread priorities
    signals        stop a command on SIGINT or SIGTERM at a safe point
    version        the version of the package
    web_hosts      names by which a web server may be addressed
"""
