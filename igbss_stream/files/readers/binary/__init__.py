"""Readers of EEG formats whose numbers are mapped from the file, so that memory does not grow with it.

::

    gdf         GDF 1 and 2: header and samples
    gdf_events  the table of events of a GDF file
    neuroscan   CNT files of Neuroscan
    egi         simple binary files of EGI (.raw)
    persyst     Persyst (.lay and .dat)
    start_time  the date and time of a recording
"""
