"""Small things that layouts read from HDF5: a number, a text, the groups below a group.

Each is bounded: what claims to be a text of a gigabyte is not read.
"""

from collections.abc import Iterator
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS, attribute, special_type, text

_LONGEST_TEXT = 1 << 22  # bytes
_LONGEST_LIST = 1 << 16  # entries, such as names of channels


def member(group: Any, name: str) -> Any:
    """Return what a group has under a name; None if it has nothing there, or a broken link."""
    try:
        return group[name]
    except LIBRARY_ERRORS:
        return None


def dataset(group: Any, name: str) -> Any:
    """Return a dataset of a group; None if there is none."""
    found = member(group, name)
    return found if isinstance(found, h5py.Dataset) and found.shape is not None else None


def number(group: Any, name: str) -> float | None:
    """Return a dataset of one number; None if there is none."""
    found = dataset(group, name)
    if found is None or found.size != 1 or special_type(found) or found.dtype.kind not in "iuf":
        return None
    return float(np.asarray(found[()]).item())


def words(group: Any, name: str) -> tuple[str, ...]:
    """Return a dataset of texts, empty ones included, or of one text; nothing if there is none."""
    found = dataset(group, name)
    if found is None or h5py.check_string_dtype(found.dtype) is None:
        return ()
    if not 0 < found.size <= _LONGEST_LIST or found.size * found.dtype.itemsize > _LONGEST_TEXT:
        return ()
    return tuple(text(value) or "" for value in np.asarray(found[()], dtype=object).reshape(-1).tolist())


def word(group: Any, name: str) -> str | None:
    """Return a dataset of one text; None if there is none."""
    found = words(group, name)
    return (found[0] or None) if len(found) == 1 else None


def numbers(group: Any, name: str) -> NDArray[Any] | None:
    """Return a dataset of a bounded list of numbers; None if there is none."""
    found = dataset(group, name)
    if found is None or found.ndim != 1 or found.size > _LONGEST_LIST:
        return None
    if special_type(found) or found.dtype.kind not in "iuf":
        return None
    return np.asarray(found[()])


def kind_of(handle: Any, name: str) -> str | None:
    """Return an attribute that is a text; None if it is not."""
    return text(attribute(handle, name))


def groups(parent: Any) -> Iterator[Any]:
    """Yield a group and all groups below it, each once, in order of their names."""
    waiting, entered = [parent], set()
    while waiting:
        group = waiting.pop()
        # Hard links can form a circle, so the place of a group in the file tells it apart.
        place = h5py.h5o.get_info(group.id)
        if (place.fileno, place.addr) in entered:
            continue
        entered.add((place.fileno, place.addr))
        yield group
        below = [member(group, key) for key in group if not _is_link(group, key)]
        waiting += [child for child in reversed(below) if isinstance(child, h5py.Group)]


def _is_link(group: Any, key: str) -> bool:
    return not isinstance(group.get(key, getlink=True), h5py.HardLink)


def numeric(handle: Any) -> bool:
    """Return whether a dataset holds plain real numbers."""
    return special_type(handle) is None and handle.dtype.kind in "iuf" and handle.dtype.itemsize <= 8


def if_one_each(names: tuple[str, ...], n: int) -> tuple[str, ...]:
    """Return names if there is one for each of n channels; else none."""
    return names if len(names) == n else ()
