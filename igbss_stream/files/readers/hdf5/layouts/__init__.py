"""The layouts that HDF5 files of recordings have; a module each, which tells its own by its marks.

Each has ``find(file, path)``: what there is in an open file, or None if it is none of its own. The first
one that knows a file describes it; `plain` knows every file, and so is the last.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from igbss_stream.files.readers.hdf5.layouts import (
    eeglab,
    grecorder,
    gwosc,
    matlab,
    mcs,
    nwb,
    plain,
    snirf,
    tables,
)
from igbss_stream.files.readers.hdf5.signal import Contents

_LAYOUTS: tuple[Callable[[Any, Path], Contents | None], ...] = (
    nwb.find,
    snirf.find,
    mcs.find,
    grecorder.find,
    gwosc.find,
    eeglab.find,
    matlab.find,
    tables.find,
)


def contents(file: Any, path: Path) -> Contents:
    """Return what an open HDF5 file holds, by the first layout that knows it.

    Parameters
    ----------
    file : h5py.File
    path : Path
        Its path, for messages.

    Returns
    -------
    Contents
    """
    for find in _LAYOUTS:
        found = find(file, path)
        if found is not None:
            return found
    return plain.find(file, path)
