"""MATLAB 7.3 files, which are HDF5. A matrix of 4 x 60 has the reversed shape (60, 4).

MATLAB does not state which axis of a matrix the samples are on, so the user must pass it, as MATLAB counts.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.messages import ask_for_axis
from igbss_stream.files.readers.hdf5.contents import MATLAB_CLASS, is_matlab_matrix, list_datasets
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, as_positive, name_dataset
from igbss_stream.files.readers.hdf5.layouts.values import read_number, read_text_attribute
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal

LAYOUT = "MATLAB 7.3"
_RATES = ("srate", "fs", "Fs", "fsample", "sampling_rate", "SamplingRate", "sfreq", "rate", "samplerate")
_MOST_CELLS = 4096


def is_matlab(file: Any) -> bool:
    """Return whether MATLAB wrote a file."""
    if any(read_text_attribute(file[key], MATLAB_CLASS) for key in file if _exists(file, key)):
        return True
    with open(file.filename, "rb") as head:
        return file.userblock_size >= 128 and head.read(10) == b"MATLAB 7.3"


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe every matrix of numbers, if MATLAB wrote the file."""
    if not is_matlab(file):
        return None
    rate = _find_rate(file)
    visible = [(name, handle) for name, handle in list_datasets(file) if not name.startswith("/#")]
    matrices = [(name, handle) for name, handle in visible if is_matlab_matrix(handle)]
    # Cells and struct arrays contain references to matrices in /#refs#.
    for _, handle in visible:
        matrices += [(found.name, found) for found in _get_referenced(file, handle)]
    signals = tuple(_describe_signal(name, handle, rate, path) for name, handle in dict(matrices).items())
    return LayoutMatch(
        LAYOUT, "it was written by MATLAB", signals, f"{str(path)!r} has no matrix of numbers"
    )


def _exists(file: Any, key: str) -> bool:
    try:
        return isinstance(file[key], h5py.Group | h5py.Dataset)
    except LIBRARY_ERRORS:
        return False


def _get_referenced(file: Any, handle: Any) -> list[Any]:
    if handle.shape is None or handle.size > _MOST_CELLS or h5py.check_ref_dtype(handle.dtype) is None:
        return []
    found = []
    for reference in np.asarray(handle[()]).reshape(-1):
        try:
            target = file[reference]
        except LIBRARY_ERRORS:
            continue
        if isinstance(target, h5py.Dataset) and is_matlab_matrix(target):
            found.append(target)
    return found


def _describe_signal(name: str, handle: Any, rate: float | None, path: Path) -> Signal:
    columns, rows = handle.shape
    return Signal(
        dataset=name,
        shape=(rows, columns),
        axis=None,
        is_reversed=True,
        rate=rate,
        problem=ask_for_axis(name_dataset(name, path), rows, columns),
    )


def _find_rate(file: Any) -> float | None:
    """Return the rate of variables with a common name, if they agree."""
    stated = {as_positive(read_number(file, key)) for key in _RATES} - {None}
    return stated.pop() if len(stated) == 1 else None
