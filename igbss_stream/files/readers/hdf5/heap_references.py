"""Check what the headers of objects refer to in global heaps, before HDF5 follows it.

HDF5 2.0 verifies the checksum of the mapping of a virtual dataset only after decoding it, and crashes on
some that are damaged. Of a text that is longer than its heap, it first allocates and clears the stated
length, up to 4 GiB.
"""

import mmap
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.heaps import get_heap_size, read_heap_object
from igbss_stream.files.readers.hdf5.lookup3 import compute_lookup3
from igbss_stream.files.readers.hdf5.object_headers import list_messages

_DATATYPE, _LAYOUT, _ATTRIBUTE = 3, 8, 12  # kinds of messages
_CONTIGUOUS, _VIRTUAL = 1, 3  # classes of a layout
_VARIABLE_LENGTH = 9  # class of a datatype
_OLDEST_VIRTUAL = 4  # version of a layout
_MAPPING = struct.Struct("<BBQI")  # version, class, address of a heap, number of the mapping in it
_PLACE = struct.Struct("<BBQQ")  # version, class, address and size of the samples
_CHECKSUM = 4  # bytes at the end of a mapping
_SIZES = struct.Struct("<BxHHH")  # version of an attribute, sizes of its name, datatype and dataspace
_ELEMENT = np.dtype([("length", "<u4"), ("address", "<u8"), ("number", "<u4")])
_REMEDY = "copy or record it again"


def check_heap_references(file: Any, addresses: Iterable[int]) -> None:
    """Refuse a file in which the mapping of a virtual dataset, or a text, is damaged.

    Texts in attributes and in contiguous datasets are checked, and so are other values of variable length.

    Parameters
    ----------
    file : h5py.File
    addresses : iterable of int
        Addresses of the objects of the file.

    Raises
    ------
    RecordingError
        If a mapping differs from its checksum, or a text is longer than its heap.
    """
    path, base = Path(file.filename), int(file.userblock_size)
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for address in addresses:
            item_size, layouts = 0, list[bytes]()
            for kind, message in list_messages(content, base + address, base):
                if kind == _DATATYPE:
                    item_size = _get_item_size(message)
                elif kind == _LAYOUT:
                    layouts.append(message)
                elif kind == _ATTRIBUTE:
                    _check_attribute(content, message, base, path)
            for layout in layouts:
                _check_mapping(content, layout, base, path)
                if item_size:
                    _check_elements(content, _read_contiguous(content, layout, base), item_size, base, path)


def _check_mapping(content: mmap.mmap, layout: bytes, base: int, path: Path) -> None:
    if len(layout) < _MAPPING.size:
        return
    version, kind, address, number = _MAPPING.unpack_from(layout)
    if version < _OLDEST_VIRTUAL or kind != _VIRTUAL:
        return
    mapping = read_heap_object(content, base + address, number, path)
    if mapping is None:
        return  # HDF5 reports it
    stated = int.from_bytes(mapping[-_CHECKSUM:], "little")
    if compute_lookup3(mapping[:-_CHECKSUM]) != stated:
        raise RecordingError(
            f"{str(path)!r} is damaged: the mapping of a virtual dataset, at byte {base + address}, "
            f"differs from its checksum; {_REMEDY}"
        )


def _check_attribute(content: mmap.mmap, message: bytes, base: int, path: Path) -> None:
    if len(message) < _SIZES.size:
        return
    version, name_size, type_size, space_size = _SIZES.unpack_from(message)
    unit = 8 if version == 1 else 1  # bytes to which its parts are padded
    at = _SIZES.size + (version >= 3) + _pad(name_size, unit)
    item_size = _get_item_size(message[at : at + type_size])
    at += _pad(type_size, unit) + _pad(space_size, unit)
    _check_elements(content, message[at:], item_size, base, path)


def _pad(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _get_item_size(datatype: bytes) -> int:
    """Return the bytes of an item of a type of variable length; 0 for other types."""
    if len(datatype) < 16 or datatype[0] & 0x0F != _VARIABLE_LENGTH:
        return 0
    return int.from_bytes(datatype[12:16], "little")


def _read_contiguous(content: mmap.mmap, layout: bytes, base: int) -> bytes:
    """Return the stored bytes of a contiguous dataset; none for other layouts."""
    if len(layout) < _PLACE.size:
        return b""
    _, kind, address, size = _PLACE.unpack_from(layout)
    return content[base + address : base + address + size] if kind == _CONTIGUOUS else b""


def _check_elements(content: mmap.mmap, stored: bytes, item_size: int, base: int, path: Path) -> None:
    """Refuse elements of variable length that are longer than the heaps that contain them."""
    if not item_size:
        return
    elements = np.frombuffer(stored, _ELEMENT, len(stored) // _ELEMENT.itemsize)
    elements = elements[elements["address"] != 0]  # others are empty
    needs = elements["length"].astype(np.uint64) * np.uint64(item_size)
    for address in np.unique(elements["address"]).tolist():
        longest = int(needs[elements["address"] == address].max())
        if longest > get_heap_size(content, base + address):
            raise RecordingError(
                f"{str(path)!r} is damaged: a text of {longest} bytes is longer than the heap at byte "
                f"{base + address} that should contain it; {_REMEDY}"
            )
