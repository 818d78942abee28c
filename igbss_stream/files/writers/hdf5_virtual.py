"""A dataset that is made up of datasets in other HDF5 files, by HDF5's own virtual layout."""

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt


def create_virtual(
    group: Any, name: str, shape: tuple[int, int], dtype: npt.DTypeLike, pieces: Sequence[tuple[str, int]]
) -> Any:
    """Create a dataset whose rows are those of others, one after the other.

    Parameters
    ----------
    group : h5py.Group
    name : str
        Of the dataset here and in the other files.
    shape : (int, int)
    dtype : dtype
        Of real numbers. Rows whose file is not there are read as NaN.
    pieces : sequence of (str, int)
        The other files, relative to the folder of this one, and how many rows each has.

    Returns
    -------
    h5py.Dataset
    """
    there = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    there.set_obj_track_times(False)
    there.set_fill_value(np.full(1, np.nan, dtype))
    space, row = h5py.h5s.create_simple(shape), 0
    for file, n_rows in pieces:
        space.select_hyperslab((row, 0), (n_rows, shape[1]))
        whole = h5py.h5s.create_simple((n_rows, shape[1]))
        there.set_virtual(space, file.encode("utf-8", "surrogateescape"), name.encode(), whole)
        row += n_rows
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    space.select_all()
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, there))
