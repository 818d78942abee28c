"""Layouts of recordings in HDF5, one module each.

Each module has ``find(file, path)``, which describes the signals of an open file, or returns None for
another layout. The first match is used; `plain` matches every file and is the last. `values` has helpers to
read numbers, texts and groups, `pickled_names` reads pickled column names,
and `snirf_probe` the positions of optodes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from igbss_stream.files.readers.hdf5.layouts import (
    eeglab,
    fieldtrip,
    grecorder,
    gwosc,
    matlab,
    mcs,
    nwb,
    plain,
    snirf,
    tables,
)
from igbss_stream.files.readers.hdf5.signal import LayoutMatch

_LAYOUTS: tuple[Callable[[Any, Path], LayoutMatch | None], ...] = (
    nwb.find,
    snirf.find,
    mcs.find,
    grecorder.find,
    gwosc.find,
    eeglab.find,
    fieldtrip.find,
    matlab.find,
    tables.find,
)


def match_layout(file: Any, path: Path) -> LayoutMatch:
    """Return the signals of an open HDF5 file, found by the first layout that matches.

    Parameters
    ----------
    file : h5py.File
    path : Path
        Path of the file, for messages.

    Returns
    -------
    LayoutMatch
    """
    for find in _LAYOUTS:
        found = find(file, path)
        if found is not None:
            return found
    return plain.find(file, path)
