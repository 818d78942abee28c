"""Say what an HDF5 file holds, and which of it can be separated."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.errors import IgbssError
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    checked,
    damage_reported,
    foreign_filters,
    naming,
    open_file,
    special_type,
    stated_channels,
    stated_rate,
    stated_unit,
)


@dataclass(frozen=True)
class DatasetDescription:
    """What is known of a dataset without reading its samples.

    Attributes
    ----------
    name : str
        Full name, e.g. ``"/data"``.
    shape : tuple of int or None
        Shape as stored; None for a dataset without data.
    dtype : str
        Name of the type.
    chunks : tuple of int or None
        Shape of a chunk; None if the dataset is stored in one piece.
    compression : str or None
        Name of the compression.
    rate : float or None
        Attribute ``rate`` in Hz, if it is a usable number.
    unit : str or None
        Unit of the numbers as stored.
    channels : tuple of str
        Attribute ``channels``; empty if there is none.
    usable : bool
        Whether the dataset can be separated as plain numbers, given nothing but its name.
    note : str
        Why it does not, and what to do.
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: str
    chunks: tuple[int, ...] | None
    compression: str | None
    rate: float | None
    unit: str | None
    channels: tuple[str, ...]
    usable: bool
    note: str


@dataclass(frozen=True)
class FileDescription:
    """What an HDF5 file holds.

    Attributes
    ----------
    path : Path
        The file.
    size_bytes : int
        Its size.
    datasets : tuple of DatasetDescription
        Its datasets, by name.
    """

    path: Path
    size_bytes: int
    datasets: tuple[DatasetDescription, ...]


def describe(path: str | os.PathLike[str]) -> FileDescription:
    """Say which datasets an HDF5 file holds, and which of them can be separated as plain numbers.

    Datasets behind soft and external links are listed too, groups behind such links are not entered.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    FileDescription
        The datasets, by name.

    Raises
    ------
    RecordingError
        If the file cannot be opened.
    """
    path = Path(path)
    with open_file(path) as file, damage_reported(path):
        return FileDescription(path, os.path.getsize(path), tuple(descriptions(file, path)))


def descriptions(group: Any, path: Path) -> list[DatasetDescription]:
    """Describe all datasets of a group, by name."""
    return [_description(handle, name, path) for name, handle in datasets(group)]


def datasets(group: Any) -> list[tuple[str, Any]]:
    """Return the datasets of a group and of the groups in it, with their full names, by name."""
    return sorted(_walk(group), key=lambda found: found[0])


def _walk(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a group and of the groups in it, with their full names."""
    waiting = [(group.name.rstrip("/"), group)]
    entered = set()
    while waiting:
        prefix, parent = waiting.pop()
        # Hard links can form a circle, so the place of a group in the file tells it apart.
        place = h5py.h5o.get_info(parent.id)
        if (place.fileno, place.addr) in entered:
            continue
        entered.add((place.fileno, place.addr))
        for key in parent:
            child, is_hard = _child(parent, key)
            if isinstance(child, h5py.Dataset):
                yield f"{prefix}/{key}", child
            elif isinstance(child, h5py.Group) and is_hard:
                waiting.append((f"{prefix}/{key}", child))


def _child(parent: Any, key: str) -> tuple[Any, bool]:
    """Return what a link leads to, None if it is broken, and whether it is a hard link."""
    try:
        return parent[key], isinstance(parent.get(key, getlink=True), h5py.HardLink)
    except LIBRARY_ERRORS:
        return None, False


def _description(handle: Any, name: str, path: Path) -> DatasetDescription:
    """Describe a dataset."""
    what = naming(name, path)
    rate, note, special = None, "", special_type(handle)
    try:
        rate = stated_rate(handle, what)
        checked(handle, 0, what)
    except IgbssError as error:
        # a table, as of gaps, is no mistake of whoever wrote the file: what to do about it would mislead
        is_table = special is not None and special.startswith("compound")
        note = "a table" if is_table else str(error).removeprefix(what + " ")
    return DatasetDescription(
        name=name,
        shape=handle.shape,
        dtype=special or str(handle.dtype),
        chunks=handle.chunks,
        compression=", ".join(foreign_filters(handle)) or handle.compression,
        rate=rate,
        unit=stated_unit(handle),
        channels=stated_channels(handle),
        usable=not note,
        note=note,
    )
