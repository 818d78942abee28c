"""Read numbers, texts and groups from HDF5.

Sizes are limited, so a damaged or malicious file cannot fill the memory.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    decode_text,
    find_special_type,
    read_attribute,
)
from igbss_stream.files.readers.hdf5.links import check_parts

_LONGEST_TEXT = 1 << 22  # bytes
_LONGEST_LIST = 1 << 16  # entries, such as names of channels


def get_member(group: Any, name: str) -> Any:
    """Return a member of a group; None if it is missing or a broken link."""
    try:
        return group[name]
    except LIBRARY_ERRORS:
        return None


def get_dataset(group: Any, name: str) -> Any:
    """Return a dataset of a group; None if there is none, or it has no data."""
    found = get_member(group, name)
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        return None
    check_parts(found, f"dataset {found.name!r} of {group.file.filename!r}")
    return found


def parse_time(text: str | None) -> float | None:
    """Return the Unix time of a date and time in ISO 8601, UTC without a zone; None for other texts."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def read_number(group: Any, name: str) -> float | None:
    """Read a dataset of one number; None if there is none."""
    found = get_dataset(group, name)
    if found is None or found.size != 1 or find_special_type(found) or found.dtype.kind not in "iuf":
        return None
    return float(np.asarray(found[()]).item())


def read_texts(group: Any, name: str) -> tuple[str, ...]:
    """Read a dataset of one or several texts, including empty ones; empty if there is none."""
    found = get_dataset(group, name)
    if found is None or h5py.check_string_dtype(found.dtype) is None:
        return ()
    if not 0 < found.size <= _LONGEST_LIST or found.size * found.dtype.itemsize > _LONGEST_TEXT:
        return ()
    return tuple(
        decode_text(value) or "" for value in np.asarray(found[()], dtype=object).reshape(-1).tolist()
    )


def read_text(group: Any, name: str) -> str | None:
    """Read a dataset of one text; None if there is none."""
    found = read_texts(group, name)
    return (found[0] or None) if len(found) == 1 else None


def read_numbers(group: Any, name: str) -> NDArray[Any] | None:
    """Read a one-dimensional dataset of numbers; None if there is none, or it is too long."""
    found = get_dataset(group, name)
    if found is None or found.ndim != 1 or found.size > _LONGEST_LIST:
        return None
    if find_special_type(found) or found.dtype.kind not in "iuf":
        return None
    return np.asarray(found[()])


def read_text_attribute(handle: Any, name: str) -> str | None:
    """Read an attribute that is a text; None if there is none."""
    return decode_text(read_attribute(handle, name))


def walk_groups(parent: Any) -> Iterator[Any]:
    """Yield a group and all its subgroups once, in order of their names."""
    waiting, entered = [parent], set()
    while waiting:
        group = waiting.pop()
        # Hard links can form cycles, so identify a group by its address in the file.
        place = h5py.h5o.get_info(group.id)
        if (place.fileno, place.addr) in entered:
            continue
        entered.add((place.fileno, place.addr))
        yield group
        below = [get_member(group, key) for key in group if not _is_link(group, key)]
        waiting += [child for child in reversed(below) if isinstance(child, h5py.Group)]


def _is_link(group: Any, key: str) -> bool:
    return not isinstance(group.get(key, getlink=True), h5py.HardLink)


def is_numeric(handle: Any) -> bool:
    """Return whether a dataset contains plain real numbers."""
    return find_special_type(handle) is None and handle.dtype.kind in "iuf" and handle.dtype.itemsize <= 8


def keep_if_complete(names: tuple[str, ...], n: int) -> tuple[str, ...]:
    """Return the names if there are n of them; otherwise none."""
    return names if len(names) == n else ()
