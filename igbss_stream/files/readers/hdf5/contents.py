"""List the datasets of an HDF5 file, and check which of them can be separated."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.errors import IgbssError
from igbss_stream.files.messages import ask_for_axis
from igbss_stream.files.positions_dataset import read_positions_dataset
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    SwappedAxesError,
    check_dataset,
    decode_text,
    find_special_type,
    list_foreign_filters,
    name_dataset,
    open_file,
    read_attribute,
    read_channel_names,
    read_rate,
    read_unit,
    report_damage,
)

MATLAB_CLASS = "MATLAB_class"
"""Attribute of all datasets that MATLAB writes."""
_WEIGHTS = ("/mixing", "/unmixing")  # of our outputs


@dataclass(frozen=True)
class DatasetDescription:
    """Description of a dataset, without its samples.

    Attributes
    ----------
    name : str
        Full name, e.g. ``"/data"``.
    shape : tuple of int or None
        Shape as stored; None for a dataset without data.
    dtype : str
        Name of the dtype.
    chunks : tuple of int or None
        Shape of a chunk; None for a contiguous dataset.
    compression : str or None
        Name of the compression.
    rate : float or None
        Attribute ``rate`` in Hz, if it is a usable number.
    unit : str or None
        Unit of the numbers as stored.
    channels : tuple of str
        Attribute ``channels``; empty if there is none.
    usable : bool
        Whether the dataset can be separated as plain numbers without further options.
    note : str
        Why it cannot, and what to do.
    axes_swapped : bool
        Whether it can if the axes are swapped.
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
    axes_swapped: bool = False


@dataclass(frozen=True)
class FileDescription:
    """Description of an HDF5 file.

    Attributes
    ----------
    path : Path
        The file.
    size_bytes : int
        Size of the file.
    datasets : tuple of DatasetDescription
        Its datasets, sorted by name.
    """

    path: Path
    size_bytes: int
    datasets: tuple[DatasetDescription, ...]


def describe_file(path: str | os.PathLike[str]) -> FileDescription:
    """Describe the datasets of an HDF5 file, and check which of them can be separated as plain numbers.

    Datasets behind soft and external links are listed; groups behind such links are not.

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
    with open_file(path) as file, report_damage(path):
        return FileDescription(path, os.path.getsize(path), tuple(describe_datasets(file, path)))


def describe_datasets(group: Any, path: Path) -> list[DatasetDescription]:
    """Describe all datasets of a group, sorted by name."""
    return [_describe_dataset(handle, name, path) for name, handle in list_datasets(group)]


def list_datasets(group: Any) -> list[tuple[str, Any]]:
    """Return full name and handle of the datasets of a group and its subgroups, sorted by name."""
    return sorted(_walk(group), key=lambda found: found[0])


def _walk(group: Any) -> Iterator[tuple[str, Any]]:
    """Yield full name and handle of the datasets of a group and its subgroups."""
    waiting = [(group.name.rstrip("/"), group)]
    entered = set()
    while waiting:
        prefix, parent = waiting.pop()
        # Hard links can form cycles, so identify a group by its address in the file.
        place = h5py.h5o.get_info(parent.id)
        if (place.fileno, place.addr) in entered:
            continue
        entered.add((place.fileno, place.addr))
        for key in parent:
            child, is_hard = _get_child(parent, key)
            if isinstance(child, h5py.Dataset):
                yield f"{prefix}/{key}", child
            elif isinstance(child, h5py.Group) and is_hard:
                waiting.append((f"{prefix}/{key}", child))


def _get_child(parent: Any, key: str) -> tuple[Any, bool]:
    """Return the target of a link (None if it is broken), and whether it is a hard link."""
    try:
        return parent[key], isinstance(parent.get(key, getlink=True), h5py.HardLink)
    except LIBRARY_ERRORS:
        return None, False


def is_matlab_matrix(handle: Any) -> bool:
    """Return whether a dataset of a MATLAB file is a matrix of numbers."""
    return (
        handle.shape is not None
        and len(handle.shape) == 2
        and min(handle.shape) > 1
        and find_special_type(handle) is None
        and handle.dtype.kind in "iuf"
        and decode_text(read_attribute(handle, MATLAB_CLASS)) not in ("char", "logical", "cell")
    )


def _describe_dataset(handle: Any, name: str, path: Path) -> DatasetDescription:
    """Describe a dataset."""
    what = name_dataset(name, path)
    rate, note, swapped, special = None, "", False, find_special_type(handle)
    try:
        rate = read_rate(handle, what)
        check_dataset(handle, None, what)
    except IgbssError as error:
        swapped = isinstance(error, SwappedAxesError)
        # a table, e.g. of gaps, is not an error in the file, so do not advise the user to change it
        is_table = special is not None and special.startswith("compound")
        note = "a table" if is_table else str(error).removeprefix(what + " ")
    other = "" if special else _explain_other_content(handle, name)
    if other:
        note, swapped = other, False
    return DatasetDescription(
        name=name,
        shape=handle.shape,
        dtype=special or str(handle.dtype),
        chunks=handle.chunks,
        compression=", ".join(list_foreign_filters(handle)) or handle.compression,
        rate=rate,
        unit=read_unit(handle),
        channels=read_channel_names(handle),
        usable=not note,
        note=note,
        axes_swapped=swapped,
    )


def _explain_other_content(handle: Any, name: str) -> str:
    """Return why a dataset of numbers is not read as the samples that it seems to be; empty if it is."""
    if read_attribute(handle, MATLAB_CLASS) is not None and is_matlab_matrix(handle):
        return ask_for_axis("", *handle.shape[::-1]).lstrip()
    if read_positions_dataset(handle) is not None:
        return "electrode positions, not samples"
    if name in _WEIGHTS and all(each in handle.file for each in _WEIGHTS) and read_channel_names(handle):
        return "weights of sources, not samples"
    return ""
