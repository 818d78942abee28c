"""Readers of recordings, one module or folder per format.

::

    hdf5/        HDF5 in any of its layouts
    mne          EDF, BDF, BrainVision, FIF, EEGLAB sets (extra `mne`)
    mne_events   events and trigger channels of these formats
    edf          headers of EDF and BDF
    xdf          XDF (extra `xdf`)
    text         columns of numbers
"""
