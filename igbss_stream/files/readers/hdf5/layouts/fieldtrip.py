"""FieldTrip structures in MATLAB 7.3 files: ``fsample``, ``label`` and ``trial``, a matrix a trial."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, as_positive
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, get_member, is_numeric, read_number
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal

LAYOUT = "FieldTrip"
_MOST = 1 << 16  # references
_LONGEST = 256  # characters of a name


def find(file: Any, path: Path) -> LayoutMatch | None:
    """Describe every trial of the first structure of this kind."""
    for key in file:
        group = get_member(file, key)
        if isinstance(group, h5py.Group) and all(name in group for name in ("fsample", "label", "trial")):
            signals = _describe_trials(group)
            if signals:
                why = f"{group.name} has fsample, label and trial"
                return LayoutMatch(LAYOUT, why, signals)
    return None


def _describe_trials(group: Any) -> tuple[Signal, ...]:
    rate = as_positive(read_number(group, "fsample"))
    names = tuple(_read_name(each) for each in _follow(group, "label"))
    return tuple(
        Signal(dataset=trial.name, shape=trial.shape, is_reversed=True, rate=rate, channels=names)
        for trial in _follow(group, "trial")
        if len(trial.shape or ()) == 2 and is_numeric(trial) and trial.shape[1] == len(names)
    )


def _follow(group: Any, name: str) -> list[Any]:
    """Return the datasets that the cells of a cell array refer to."""
    cells = get_dataset(group, name)
    if cells is None or cells.size > _MOST or h5py.check_ref_dtype(cells.dtype) is None:
        return []
    found = []
    for reference in np.asarray(cells[()]).reshape(-1):
        try:
            target = group.file[reference]
        except LIBRARY_ERRORS:
            continue
        if isinstance(target, h5py.Dataset):
            found.append(target)
    return found


def _read_name(handle: Any) -> str:
    """Return a text of MATLAB, stored as codes of characters."""
    if handle.dtype.kind != "u" or handle.size > _LONGEST:
        return ""
    return "".join(map(chr, np.asarray(handle[()]).reshape(-1).tolist())).replace("\0", "").strip()
