"""Read recordings from HDF5.

::

    reader      open the recording in an HDF5 file
    file        open a file, read attributes, report damage
    contents    list the datasets of a file
    selection   choose the dataset that contains the signal
    signal      what a layout states about a signal
    columns     one dataset a channel
    written_rows  which rows of a dataset were written
    heaps       check the heaps of texts, which HDF5 trusts
    heap_references  check what refers to heaps: texts, and virtual datasets by their checksums
    object_headers, lookup3  what that needs: messages in headers, and the checksum
    layouts/    one module per layout: NWB, SNIRF, MATLAB, EEGLAB, ...
    fast_read   read contiguous datasets faster than h5py
    chunked_read  the same for datasets in chunks
    chunk_index   where the chunks are in the file
    listing     print the datasets of a file
"""
