"""Read contiguous HDF5 datasets faster than h5py, with the same result.

They are read directly from the file: one copy less, and other threads run meanwhile. `chunked_read` does
the same for datasets in chunks.
"""

import os
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.recording import Fill


def make_contiguous_fill(handle: Any) -> Fill | None:
    """Return a function that reads rows of a contiguous dataset; None for other datasets.

    Parameters
    ----------
    handle : h5py.Dataset
        Of shape (samples, channels).
    """
    plist = handle.id.get_create_plist()
    at = handle.id.get_offset()  # None before the first write
    if plist.get_layout() != h5py.h5d.CONTIGUOUS or plist.get_external_count() or at is None:
        return None
    if handle.file.driver != "sec2" or not is_plain(handle):
        return None
    file, dtype = handle.file.id.get_vfd_handle(), handle.dtype
    row_bytes = handle.shape[1] * dtype.itemsize

    def fill(start: int, out: NDArray[Any]) -> None:
        stored = out if out.dtype == dtype else np.empty(out.shape, dtype)
        read_fully(file, stored, at + start * row_bytes)
        if stored is not out:
            out[:] = stored

    return fill


def read_fully(file: int, out: NDArray[Any], at: int) -> None:
    """Fill an array with the bytes of an open file, starting at an offset."""
    left = out.reshape(-1).view(np.uint8).data
    while left:
        n_read = os.preadv(file, [left], at)
        if n_read == 0:
            raise OSError("the file became shorter")
        left, at = left[n_read:], at + n_read


def is_plain(handle: Any) -> bool:
    """Return whether numbers are stored in a format of NumPy, without unused bits."""
    dtype = handle.dtype
    return dtype.kind in "iuf" and handle.id.get_type() == h5py.h5t.py_create(dtype)
