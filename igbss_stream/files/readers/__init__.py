"""Readers of recordings, one module or folder per format.

::

    hdf5/             HDF5 in any of its layouts
    binary/           GDF, Neuroscan, EGI simple binary, Persyst
    mne               formats that MNE reads (extra `mne`; some need the extra `eeg`)
    mne_formats       which formats these are, and how they are recognized
    brainvision       BrainVision headers whose files were renamed
    fif_parts         FIF files that continue another one
    fif_tags          the tags of a FIF file
    matlab5           the structure of MATLAB files before version 7.3
    mne_events        events and trigger channels of these formats
    mne_positions     positions in these formats, and montages of MNE
    edf               headers of EDF and BDF
    xdf               XDF (extra `xdf`)
    text/             columns of numbers
    arrays            .npy, WAV, and MATLAB files before version 7.3
    seismic           miniSEED and SAC (extra `seismic`)
    waveforms         WFDB and TDMS (an extra each)
    wfdb_annotations  annotations beside a WFDB record
    in_memory         recordings whose samples are an array
    mapped_samples    samples that are mapped from a file
    electrodes_table  tables of electrodes, and coordsystem.json of BIDS
"""
