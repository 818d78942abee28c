"""Readers of recordings, one module or folder per format.

::

    hdf5/             HDF5 in any of its layouts
    mne               EDF, BDF, BrainVision, FIF, EEGLAB sets (extra `mne`)
    brainvision       BrainVision headers whose files were renamed
    fif_parts         FIF files that continue another one
    mne_events        events and trigger channels of these formats
    mne_positions     positions in these formats, and montages of MNE
    edf               headers of EDF and BDF
    xdf               XDF (extra `xdf`)
    text/             columns of numbers
    electrodes_table  tables of electrodes, and coordsystem.json of BIDS
"""
