"""Read the HDF5 files that igbss_stream itself writes.

::

    output             an output of `batch`: attributes, model, sources
    checked_file       an HDF5 file whose sizes are checked before memory is taken
    stored_model       the model in an output
    stream_recording   a recording of a stream
    learned_models     how the models of such a file were learned
    label_tables       tables of labels and of removed sources
    series             read samples block by block
"""
