"""Check the global heaps of an HDF5 file, where it keeps texts, references and virtual mappings.

A heap has no checksum, and HDF5 2.0 does not return from one whose objects do not follow each other. Heaps
are found by their signature, near the start and the end of a file.
"""

import mmap
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path

from igbss_stream.errors import RecordingError

# with the version and what is reserved: samples hardly contain it by chance
_SIGNATURE = re.compile(b"GCOL\x01\0\0\0")
_HEAD = struct.Struct("<4sB3xQ")  # signature, version, size of the heap
_OBJECT = struct.Struct("<HH4xQ")  # number, references, size
_EXTENT = 1 << 24  # bytes at each end of a file that are searched


def check_heaps(path: Path) -> None:
    """Refuse a file with a damaged global heap.

    Parameters
    ----------
    path : Path

    Raises
    ------
    RecordingError
        If the objects of a heap do not fill it.
    """
    if not os.path.getsize(path):
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for at in _find_heaps(content):
            _check_heap(content, at, path)


def read_heap_object(content: mmap.mmap, start: int, number: int, path: Path) -> bytes | None:
    """Return an object of a heap; None if there is no such heap or object.

    Parameters
    ----------
    content : mmap
        The file.
    start : int
        Place of the heap in the file.
    number : int
        Number of the object, from 1.
    path : Path

    Raises
    ------
    RecordingError
        If the objects of the heap do not fill it.
    """
    if _SIGNATURE.match(content, start) is None:
        return None
    _check_heap(content, start, path)
    for found, at, size in _list_objects(content, start):
        if found == number:
            return content[at : at + size]
    return None


def get_heap_size(content: mmap.mmap, start: int) -> int:
    """Return the size of a heap; 0 if there is none at that place."""
    if _SIGNATURE.match(content, start) is None or start + _HEAD.size > len(content):
        return 0
    return int(_HEAD.unpack_from(content, start)[2])


def _check_heap(content: mmap.mmap, start: int, path: Path) -> None:
    if not _is_whole(content, start):
        raise RecordingError(
            f"{str(path)!r} is truncated or damaged: its heap at byte {start} is not whole; copy or "
            "record it again"
        )


def _find_heaps(content: mmap.mmap) -> list[int]:
    """Return the places of heaps. A regular expression finds them twice as fast as `mmap.find`."""
    ends = (0, _EXTENT), (max(_EXTENT, len(content) - _EXTENT), len(content))
    return [found.start() for start, stop in ends for found in _SIGNATURE.finditer(content, start, stop)]


def _is_whole(content: mmap.mmap, start: int) -> bool:
    """Return whether the objects of a heap follow each other up to its end."""
    first = start + _HEAD.size
    if first > len(content):
        return False
    stop = start + int(_HEAD.unpack_from(content, start)[2])
    if not first <= stop <= len(content):
        return False
    end = first
    for number, at, size in _list_objects(content, start):
        if number == 0 and size < 0:
            return False
        end = at + _pad(size)
    return end <= stop


def _list_objects(content: mmap.mmap, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, place and size of the objects of a heap."""
    at, stop = start + _HEAD.size, start + int(_HEAD.unpack_from(content, start)[2])
    while at + _OBJECT.size <= stop:
        number, _, size = _OBJECT.unpack_from(content, at)
        at += _OBJECT.size
        # object 0 is the free space at the end, whose size includes its head; others are padded to 8 bytes
        size -= _OBJECT.size * (number == 0)
        yield number, at, size
        at += _pad(size)


def _pad(size: int) -> int:
    return -(-size // 8) * 8
