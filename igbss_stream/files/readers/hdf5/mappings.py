"""Verify the checksums of the mappings of virtual datasets before HDF5 decodes them.

HDF5 2.0 verifies them as well, but only after decoding, and crashes on some that are damaged.
"""

import mmap
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.heaps import read_heap_object
from igbss_stream.files.readers.hdf5.lookup3 import compute_lookup3
from igbss_stream.files.readers.hdf5.object_headers import LAYOUT, list_messages

_OLDEST, _VIRTUAL = 4, 3  # version and class of a layout that is virtual
_LAYOUT = struct.Struct("<BBQI")  # version, class, address of a heap, number of the mapping in it
_CHECKSUM = 4  # bytes at the end of a mapping


def check_mappings(file: Any, addresses: Iterable[int]) -> None:
    """Refuse a file in which the mapping of a virtual dataset is damaged.

    Parameters
    ----------
    file : h5py.File
    addresses : iterable of int
        Addresses of the objects of the file.

    Raises
    ------
    RecordingError
        If a mapping differs from its checksum.
    """
    path, base = Path(file.filename), int(file.userblock_size)
    with open(path, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for address in addresses:
            for layout in list_messages(content, base + address, base, LAYOUT):
                _check_mapping(content, layout, base, path)


def _check_mapping(content: mmap.mmap, layout: bytes, base: int, path: Path) -> None:
    if len(layout) < _LAYOUT.size:
        return
    version, kind, address, number = _LAYOUT.unpack_from(layout)
    if version < _OLDEST or kind != _VIRTUAL:
        return
    mapping = read_heap_object(content, base + address, number, path)
    if mapping is None:
        return  # HDF5 reports it
    stated = int.from_bytes(mapping[-_CHECKSUM:], "little")
    if compute_lookup3(mapping[:-_CHECKSUM]) != stated:
        raise RecordingError(
            f"{str(path)!r} is damaged: the mapping of a virtual dataset, at byte {base + address}, "
            "differs from its checksum; copy or record it again"
        )
