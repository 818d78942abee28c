"""Write sources of an output as EDF, BDF or BrainVision (extra `export`).

::

    content       what is exported: samples, rate, names, gaps
    records       cut samples into the records of EDF
    edf           write EDF and BDF
    brainvision   write BrainVision
    several_files move the files of an export into their places

`igbss_stream.mne.fif` writes FIF.
"""
