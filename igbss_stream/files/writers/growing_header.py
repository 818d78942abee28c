"""The beginning of an HDF5 file whose datasets grow without HDF5.

HDF5 can extend only what it stores in chunks, and while it does so the file is not readable: killed between
two writes it leaves what no reader opens. A dataset in one piece needs no index, so all that changes when
rows are added to its end is its length, its size in bytes and the end of the file: a few numbers in the
header. This module has HDF5 write that header, once, into memory, for datasets of lengths that occur
nowhere else, and finds the places of those numbers in it. How HDF5 lays its header out is not assumed,
only that these numbers are in its first page, which is checked.

The oldest format is used: it has no checksums, so that a number can be changed in its place.
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

PAGE = 4096  # bytes that the system writes whole or not at all
LAYOUT = "layout"  # attribute of the file that holds the fields
_FIELD = 5  # numbers that a field has
_NOWHERE = -1  # what HDF5 writes as the address of a dataset without rows
_FIELDS_PER_TABLE = 4  # length, largest length, address, size
_STRANGE = (1 << 40) + 0x2B3C4D5E  # the length of the first dataset while the header is made
_SIGN = 0x5A3C_69F1_27D4_8E0B  # marks the place of the fields themselves
_KEPT = 1 << 30  # bytes: HDF5 writes the header before this, the first rows of the datasets mostly behind
_UNKNOWN = "this version of HDF5 writes a header that cannot be changed in place"

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
        Rows that there is room for; None for the last dataset, which may grow as long as the disk has room.
    attrs : mapping
        Attributes; one that is None is left out.
    """

    name: str
    dtype: np.dtype[Any]
    width: tuple[int, ...] = ()
    capacity: int | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def row_bytes(self) -> int:
        """Size of a row."""
        return self.dtype.itemsize * math.prod(self.width)


@dataclass(frozen=True, slots=True)
class Header:
    """The beginning of a file, and how it changes when rows are added.

    Parameters
    ----------
    image : bytes
        What precedes the rows of the first dataset; a whole number of pages.
    addresses : tuple of int
        Where the rows of each dataset begin in the file.
    fields : array of shape (fields, 5)
        Where a number lies, the dataset whose length it follows, the number at length 0, and a and b of
        a + b * length, the number at other lengths.
    """

    image: bytes
    addresses: tuple[int, ...]
    fields: Fields


def make_header(tables: Sequence[Table], attrs: Mapping[str, Any]) -> Header:
    """Make the header of a file with datasets of no rows.

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
    lengths = [_STRANGE + k for k in range(len(tables))]
    image, placed, end = _written_by_hdf5(tables, lengths, attrs)
    addresses = _addresses(tables, _page_up(len(image)))
    fields = []
    for k, (table, length) in enumerate(zip(tables, lengths, strict=True)):
        address = struct.pack("<QQ", placed[k], length * table.row_bytes)
        place = _only(image, address)
        image[place : place + len(address)] = bytes(len(address))  # its bytes may look like the length
        fields += [(dims, k, 0, 0, 1) for dims in _pair(image, length)]
        fields.append((place, k, _NOWHERE, addresses[k], 0))
        fields.append((place + 8, k, 0, 0, table.row_bytes))
    end_place = _only(image, struct.pack("<Q", end))
    fields.append((end_place, k, addresses[-1], addresses[-1], tables[-1].row_bytes))
    found = np.array(fields, "<i8")
    _store(image, found)
    image += bytes(_page_up(len(image)) - len(image))
    image[:PAGE] = first_page(image[:PAGE], found, [0] * len(tables))
    return Header(bytes(image), addresses, found)


def are_fields(found: NDArray[Any], n_tables: int) -> bool:
    """Return whether what a file holds as its fields can be such, for so many datasets."""
    return (
        found.shape == _shape(n_tables)
        and bool(np.all((found[:, 0] >= 0) & (found[:, 0] <= PAGE - 8)))
        and bool(np.all((found[:, 1] >= 0) & (found[:, 1] < n_tables)))
    )


def _shape(n_tables: int) -> tuple[int, int]:
    return 1 + _FIELDS_PER_TABLE * n_tables, _FIELD


def first_page(page: bytes | bytearray, fields: Fields, lengths: Sequence[int]) -> bytes:
    """Return the first page of a file as it is when its datasets have these lengths."""
    changed = bytearray(page)
    for place, k, at_zero, a, b in fields.tolist():
        struct.pack_into("<q", changed, place, a + b * lengths[k] if lengths[k] else at_zero)
    return bytes(changed)


def _written_by_hdf5(
    tables: Sequence[Table], lengths: Sequence[int], attrs: Mapping[str, Any]
) -> tuple[bytearray, list[int], int]:
    """Return the header as HDF5 writes it, where it put the datasets, and where the file ends."""
    sheet = _Sheet()
    with create_file(sheet, h5py.h5f.LIBVER_EARLIEST) as file:
        datasets = [_dataset(file, table, n) for table, n in zip(tables, lengths, strict=True)]
        for dataset, table in zip(datasets, tables, strict=True):
            _annotate(dataset, table.attrs)
        unknown = np.full(_shape(len(tables)), _SIGN, "<i8")
        _annotate(file, {**attrs, LAYOUT: unknown})
        for dataset in datasets:  # a first row makes HDF5 set the place of the dataset
            dataset[:1] = np.zeros((1, *dataset.shape[1:]), dataset.dtype)
        placed = [dataset.id.get_offset() for dataset in datasets]
        file.flush()
        end = file.id.get_filesize()
    return sheet.content[: placed[0]], placed, end


def _dataset(file: Any, table: Table, length: int) -> Any:
    """Create a dataset in one piece that has no place yet."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    plist.set_obj_track_times(False)
    kind = h5py.h5t.py_create(table.dtype, logical=True)
    space = h5py.h5s.create_simple((length, *table.width))
    return h5py.Dataset(h5py.h5d.create(file.id, table.name.encode(), kind, space, plist))


def _annotate(target: Any, attrs: Mapping[str, Any]) -> None:
    """Set attributes; the oldest format has a limit on their size."""
    try:
        set_attributes(target, dict(attrs))
    except (OSError, RuntimeError) as error:
        raise ParameterError(
            "what describes the stream does not fit into a recording: an attribute may have 64 KiB, which "
            f"the names of 4000 channels need. HDF5 says: {' '.join(str(error).split())}."
        ) from error


def _addresses(tables: Sequence[Table], start: int) -> tuple[int, ...]:
    """Place the datasets one behind the other, each with room for its capacity."""
    addresses = []
    for table in tables:
        addresses.append(start)
        start = _page_up(start + (table.capacity or 0) * table.row_bytes)
    return tuple(addresses)


def _page_up(n_bytes: int) -> int:
    return -(-n_bytes // PAGE) * PAGE


def _pair(image: bytearray, length: int) -> list[int]:
    """Return the places of a length and of the largest length."""
    pattern = struct.pack("<Q", length)
    first = image.find(pattern)
    second = image.find(pattern, first + 1)
    if image.count(pattern) != 2 or second > PAGE - len(pattern):
        raise RuntimeError(_UNKNOWN)
    return [first, second]


def _only(image: bytearray, pattern: bytes) -> int:
    place = image.find(pattern)
    if image.count(pattern) != 1 or place > PAGE - len(pattern):
        raise RuntimeError(_UNKNOWN)
    return place


def _store(image: bytearray, fields: Fields) -> None:
    """Write the fields into the attribute that waits for them."""
    waiting = struct.pack("<q", _SIGN) * fields.size
    place = image.index(waiting)
    image[place : place + len(waiting)] = fields.tobytes()


class _Sheet:
    """The file object that HDF5 writes a header through; what lies far behind is dropped."""

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
