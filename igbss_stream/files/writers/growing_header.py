"""Create the header of an HDF5 file whose datasets grow without HDF5.

HDF5 can extend only chunked datasets, and the file is not readable while it does so: if the process is
killed between two writes, no reader can open the file. A contiguous dataset needs no index. When rows are
added to its end, only its length, its size in bytes and the end of the file change: a few numbers in the
header.

This module lets HDF5 write the header once, into memory, for datasets of unique lengths, and then searches
the header for these numbers. It assumes nothing about the structure of the header except that the numbers
are in its first page, which is checked. It uses the oldest format, which has no checksums, so numbers can
be changed in place.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.files.writers.hdf5_datasets import create_file, set_attributes

PAGE = 4096  # bytes that the system writes atomically
LAYOUT = "layout"  # attribute of the file with the fields
_FIELD = 5  # numbers per field
_NOWHERE = -1  # address that HDF5 writes for a dataset without rows
_FIELDS_PER_TABLE = 4  # length, largest length, address, size
_UNIQUE = (1 << 40) + 0x2B3C4D5E  # length of the first dataset while the header is created
_SIGN = 0x5A3C_69F1_27D4_8E0B  # placeholder for the fields
_KEPT = 1 << 30  # bytes; the header is before this address, most first rows of datasets after it
_UNKNOWN = (
    "this version of HDF5 writes a header that cannot be changed in place; install another version of h5py"
)

Fields = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Table:
    """A dataset that grows.

    Parameters
    ----------
    name : str
    dtype : dtype
    width : tuple of int
        Shape of a row.
    capacity : int or None
        Largest number of rows; None for the last dataset, which grows without limit.
    attrs : mapping
        Attributes; those that are None are skipped.
    """

    name: str
    dtype: np.dtype[Any]
    width: tuple[int, ...] = ()
    capacity: int | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row_bytes(self) -> int:
        """Size of a row in bytes."""
        return self.dtype.itemsize * math.prod(self.width)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a file, and how it changes when rows are added.

    Parameters
    ----------
    image : bytes
        Content of the file before the first dataset; a whole number of pages.
    addresses : tuple of int
        Address of each dataset in the file.
    fields : array of shape (fields, 5)
        For each number that changes: its position, the dataset whose length it depends on, its value at
        length 0, and a and b of its value a + b * length at other lengths.
    """

    image: bytes
    addresses: tuple[int, ...]
    fields: Fields


def make_header(tables: Sequence[Table], attrs: Mapping[str, Any]) -> Header:
    """Create the header of a file with empty datasets.

    Parameters
    ----------
    tables : sequence of Table
    attrs : mapping
        Attributes of the file.

    Returns
    -------
    Header

    Raises
    ------
    ParameterError
        If an attribute is too large.
    """
    lengths = [_UNIQUE + k for k in range(len(tables))]
    image, placed, end = _write_with_hdf5(tables, lengths, attrs)
    addresses = _place_datasets(tables, _round_to_pages(len(image)))
    fields = []
    for k, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        address = struct.pack("<QQ", placed[k], length * table.row_bytes)
        place = _find_unique(image, address)
        image[place : place + len(address)] = bytes(
            len(address)
        )  # its bytes may contain those of the length
        fields += [(dims, k, 0, 0, 1) for dims in _find_pair(image, length)]
        fields.append((place, k, _NOWHERE, addresses[k], 0))
        fields.append((place + 8, k, 0, 0, table.row_bytes))
    end_place = _find_unique(image, struct.pack("<Q", end))
    fields.append((end_place, k, addresses[-1], addresses[-1], tables[-1].row_bytes))
    found = np.array(fields, "<i8")
    _store_fields(image, found)
    image += bytes(_round_to_pages(len(image)) - len(image))
    image[:PAGE] = make_first_page(image[:PAGE], found, [0] * len(tables))
    return Header(bytes(image), addresses, found)


def has_valid_fields(found: NDArray[Any], n_tables: int) -> bool:
    """Return whether an array has the shape and values of the fields of `n_tables` datasets."""
    return (
        found.shape == _get_fields_shape(n_tables)
        and bool(np.all((found[:, 0] >= 0) & (found[:, 0] <= PAGE - 8)))
        and bool(np.all((found[:, 1] >= 0) & (found[:, 1] < n_tables)))
    )


def _get_fields_shape(n_tables: int) -> tuple[int, int]:
    return 1 + _FIELDS_PER_TABLE * n_tables, _FIELD


def make_first_page(page: bytes | bytearray, fields: Fields, lengths: Sequence[int]) -> bytes:
    """Return the first page of a file for given lengths of its datasets."""
    changed = bytearray(page)
    for place, k, at_zero, a, b in fields.tolist():
        struct.pack_into("<q", changed, place, a + b * lengths[k] if lengths[k] else at_zero)
    return bytes(changed)


def get_end(page: bytes, fields: Fields) -> int:
    """Return the end of the file that its first page states."""
    (end,) = struct.unpack_from("<q", page, fields[-1, 0])
    return int(end)


def state_end(page: bytes, fields: Fields, end: int) -> bytes:
    """Return the first page of a file with another end of the file."""
    changed = bytearray(page)
    struct.pack_into("<q", changed, fields[-1, 0], end)
    return bytes(changed)


def _write_with_hdf5(
    tables: Sequence[Table], lengths: Sequence[int], attrs: Mapping[str, Any]
) -> tuple[bytearray, list[int], int]:
    """Return the header that HDF5 writes, the addresses of the datasets, and the size of the file."""
    memory = _MemoryFile()
    with create_file(memory, h5py.h5f.LIBVER_EARLIEST) as file:
        datasets = [_create_dataset(file, table, n) for table, n in zip(tables, lengths, strict=True)]
        for dataset, table in zip(datasets, tables, strict=True):
            _set_attributes(dataset, table.attrs)
        unknown = np.full(_get_fields_shape(len(tables)), _SIGN, "<i8")
        _set_attributes(file, {**attrs, LAYOUT: unknown})
        for dataset in datasets:  # HDF5 sets the address when a first row is written
            dataset[:1] = np.zeros((1, *dataset.shape[1:]), dataset.dtype)
        placed = [dataset.id.get_offset() for dataset in datasets]
        file.flush()
        end = file.id.get_filesize()
    return memory.content[: placed[0]], placed, end


def _create_dataset(file: Any, table: Table, length: int) -> Any:
    """Create a contiguous dataset without an address."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plist.set_obj_track_times(False)
    kind = h5py.h5t.py_create(table.dtype, logical=True)
    space = h5py.h5s.create_simple((length, *table.width))
    return h5py.Dataset(h5py.h5d.create(file.id, table.name.encode(), kind, space, plist))


def _set_attributes(target: Any, attrs: Mapping[str, Any]) -> None:
    """Set attributes; the oldest format limits their size."""
    try:
        set_attributes(target, dict(attrs))
    except (OSError, RuntimeError) as error:
        raise ParameterError(
            "the description of the stream does not fit into a recording: an attribute is limited to "
            "64 KiB, "
            "about 4000 channel names; record fewer channels. "
            f"HDF5 reports: {' '.join(str(error).split())}."
        ) from error


def _place_datasets(tables: Sequence[Table], start: int) -> tuple[int, ...]:
    """Return consecutive addresses for the datasets, with room for the capacity of each."""
    addresses = []
    for table in tables:
        addresses.append(start)
        start = _round_to_pages(start + (table.capacity or 0) * table.row_bytes)
    return tuple(addresses)


def _round_to_pages(n_bytes: int) -> int:
    return -(-n_bytes // PAGE) * PAGE


def _find_pair(image: bytearray, length: int) -> list[int]:
    """Return the positions of the length and the largest length of a dataset."""
    pattern = struct.pack("<Q", length)
    first = image.find(pattern)
    second = image.find(pattern, first + 1)
    if image.count(pattern) != 2 or second > PAGE - len(pattern):
        raise RuntimeError(_UNKNOWN)
    return [first, second]


def _find_unique(image: bytearray, pattern: bytes) -> int:
    place = image.find(pattern)
    if image.count(pattern) != 1 or place > PAGE - len(pattern):
        raise RuntimeError(_UNKNOWN)
    return place


def _store_fields(image: bytearray, fields: Fields) -> None:
    """Replace the placeholder in the image by the fields."""
    placeholder = struct.pack("<q", _SIGN) * fields.size
    place = image.index(placeholder)
    image[place : place + len(placeholder)] = fields.tobytes()


class _MemoryFile:
    """File object in memory through which HDF5 writes a header; discards data at high addresses."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._place = self._end = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._place = offset + (self._end if whence else 0)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: memoryview) -> int:
        part = self.content[self._place : self._place + len(buffer)]
        buffer[:] = part.ljust(len(buffer), b"\0")
        self._place += len(buffer)
        return len(buffer)

    def write(self, data: memoryview) -> int:
        stop = self._place + len(data)
        if stop <= _KEPT:
            self.content += bytes(max(0, stop - len(self.content)))
            self.content[self._place : stop] = data
        self._place = stop
        self._end = max(self._end, stop)
        return len(data)

    def truncate(self, size: int) -> int:
        self._end = size
        return size

    def flush(self) -> None:
        """Do nothing."""
