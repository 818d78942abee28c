"""Read several datasets of one axis as the channels of a signal: ``--dataset a,b,c``."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, name_dataset, read_rate, read_unit
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, is_numeric
from igbss_stream.files.readers.hdf5.signal import Signal


def describe_columns(file: Any, selection: str, path: Path) -> Signal | None:
    """Return datasets that are separated by commas as one signal; None if this is the name of one dataset.

    Raises
    ------
    RecordingError
        If a dataset is missing, has several columns, or differs from the others in length, rate or type.
    """
    names = tuple("/" + name.strip().strip("/") for name in selection.split(",") if name.strip())
    if len(names) < 2 or "/" + selection.strip("/") in file:
        return None
    handles = [_find(file, name, path) for name in names]
    lengths = {int(handle.size) for handle in handles}
    rates = {read_rate(handle, name_dataset(n, path)) for handle, n in zip(handles, names, strict=True)}
    if len(lengths) > 1 or len(rates) > 1:
        listed = ", ".join(f"{name} {handle.size}" for name, handle in zip(names, handles, strict=True))
        raise RecordingError(
            f"the datasets of {str(path)!r} differ in the number of samples or in the rate ({listed}); "
            "select those that are equal"
        )
    units = {read_unit(handle) for handle in handles}
    short = tuple(name.rsplit("/", 1)[-1] for name in names)
    return Signal(
        dataset=names[0],
        columns=names,
        shape=(lengths.pop(), len(names)),
        rate=rates.pop(),
        unit=units.pop() if len(units) == 1 else None,
        channels=short if len(set(short)) == len(names) else names,
        notes=() if len(units) < 2 else ("the datasets have several units, so the unit is unknown",),
    )


def list_columns(file: Any, names: list[tuple[str, Any]]) -> list[str]:
    """Return the names of most datasets of one axis that are equally long; none if there is only one."""
    found: dict[int, list[str]] = {}
    for name, handle in names:
        if handle.shape is not None and _is_column(handle):
            found.setdefault(int(handle.size), []).append(name)
    most = max(found.values(), key=len, default=[])
    return most if len(most) > 1 else []


def fill_from_columns(file: Any, names: tuple[str, ...], start: int, out: NDArray[Any]) -> None:
    """Write rows of datasets of one axis to the columns of an array."""
    for i, name in enumerate(names):
        handle = file[name]
        rows = slice(start, start + len(out))
        along = int(np.argmax(handle.shape)) if handle.ndim > 1 else 0
        index = tuple(rows if k == along else 0 for k in range(handle.ndim))
        out[:, i] = handle[index]


def _find(file: Any, name: str, path: Path) -> Any:
    try:
        handle = get_dataset(file, name)
    except LIBRARY_ERRORS:
        handle = None
    if not isinstance(handle, h5py.Dataset) or not _is_column(handle):
        what = "no dataset" if handle is None else f"shape {handle.shape} and type {handle.dtype} in"
        raise RecordingError(
            f"{str(path)!r} has {what} {name!r}; datasets that --dataset separates by commas must be "
            "columns of numbers, one a channel"
        )
    return handle


def _is_column(handle: Any) -> bool:
    """Return whether a dataset has numbers along one axis."""
    return is_numeric(handle) and handle.size > 1 and sum(n > 1 for n in handle.shape) == 1
