"""Where samples come from, as blocks or chunks of (samples, channels).

Recordings::

    files         which reader a file is for; opens it
    wanted        what the caller asks for; choosing, picking, offered: which signal and which channels
    hdf5          HDF5, by its layout (layouts/, one file a layout); hdf5_contents is all that is in a file,
                  hdf5_file what every reader of HDF5 needs, hdf5_direct what is read past HDF5
    mne_file      EDF (edf_head), BDF, BrainVision, FIF, EEGLAB sets; xdf_file, xdf_streams: XDF
    text_file     columns of numbers
    signal        what is known of a signal before it is opened; recording: the signal, open
    timing        rate and gaps, from times
    items         a recording as chunks and gaps
    output_file   what `batch` wrote, read back with its model

Feeds::

    zmq           messages, checked; openephys: those of another program, turned into ours
    sequence      messages in any order become an account of every sample, in the order of its index
    lsl           samples with the times of a clock (lsl_units)
    timestamps    these become an account of every index
"""
