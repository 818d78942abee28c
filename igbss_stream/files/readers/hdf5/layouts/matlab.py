"""MATLAB 7.3: HDF5 with a head of its own. A matrix of 4 x 60 is stored in reverse, as (60, 4).

What a matrix holds, samples by channels or the other way round, MATLAB does not tell; so it is asked for.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.readers.hdf5.contents import datasets
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, naming, positive
from igbss_stream.files.readers.hdf5.layouts.values import kind_of, number, numeric
from igbss_stream.files.readers.hdf5.signal import Contents, Signal

LAYOUT = "MATLAB 7.3"
_RATES = ("srate", "fs", "Fs", "fsample", "sampling_rate", "SamplingRate", "sfreq", "rate", "samplerate")
_MOST_CELLS = 4096


def is_matlab(file: Any) -> bool:
    """Return whether MATLAB wrote a file."""
    if any(kind_of(file[key], "MATLAB_class") for key in file if _there(file, key)):
        return True
    with open(file.filename, "rb") as head:
        return file.userblock_size >= 128 and head.read(10) == b"MATLAB 7.3"


def find(file: Any, path: Path) -> Contents | None:
    """Describe every matrix of numbers, if MATLAB wrote the file."""
    if not is_matlab(file):
        return None
    rate = _rate(file)
    shown = [(name, handle) for name, handle in datasets(file) if not name.startswith("/#")]
    matrices = [(name, handle) for name, handle in shown if _is_matrix(handle)]
    # Cells and arrays of structs hold references to their matrices, which lie in /#refs#.
    for _, handle in shown:
        matrices += [(found.name, found) for found in _referred(file, handle)]
    signals = tuple(_signal(name, handle, rate, path) for name, handle in dict(matrices).items())
    return Contents(LAYOUT, "MATLAB wrote it", signals, f"{str(path)!r} has no matrix of numbers")


def _there(file: Any, key: str) -> bool:
    try:
        return isinstance(file[key], h5py.Group | h5py.Dataset)
    except LIBRARY_ERRORS:
        return False


def _is_matrix(handle: Any) -> bool:
    return (
        handle.shape is not None
        and len(handle.shape) == 2
        and min(handle.shape) > 1
        and numeric(handle)
        and kind_of(handle, "MATLAB_class") not in ("char", "logical", "cell")
    )


def _referred(file: Any, handle: Any) -> list[Any]:
    if handle.shape is None or handle.size > _MOST_CELLS or h5py.check_ref_dtype(handle.dtype) is None:
        return []
    found = []
    for reference in np.asarray(handle[()]).reshape(-1):
        try:
            target = file[reference]
        except LIBRARY_ERRORS:
            continue
        if isinstance(target, h5py.Dataset) and _is_matrix(target):
            found.append(target)
    return found


def _signal(name: str, handle: Any, rate: float | None, path: Path) -> Signal:
    columns, rows = handle.shape
    return Signal(
        dataset=name,
        shape=handle.shape,
        axis=None,
        rate=rate,
        trouble=f"{naming(name, path)} is a matrix of {rows} x {columns} in MATLAB, which does not tell "
        "what its rows are; pass --axis 1 if they are samples, --axis 0 if they are channels",
    )


def _rate(file: Any) -> float | None:
    """Return the rate that a variable of a usual name states, if one alone does."""
    stated = {positive(number(file, key)) for key in _RATES} - {None}
    return stated.pop() if len(stated) == 1 else None
