"""Check the global heaps of an HDF5 file, where it keeps texts and references of variable length.

A heap has no checksum, and HDF5 2.0 does not return from one whose objects do not follow each other. Heaps
are found by their signature, near the start and the end of a file.
"""

import mmap
import os
import re
import struct
from pathlib import Path

from igbss_stream.errors import RecordingError

_SIGNATURE = re.compile(
    b"GCOL\x01\0\0\0"
)  # with the version and what is reserved: samples hardly contain it by chance
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
            if not _is_whole(content, at):
                raise RecordingError(
                    f"{str(path)!r} is truncated or damaged: its heap at byte {at} is not whole; copy or "
                    "record it again"
                )


def _find_heaps(content: mmap.mmap) -> list[int]:
    """Return the places of heaps. A regular expression finds them twice as fast as `mmap.find`."""
    ends = (0, _EXTENT), (max(_EXTENT, len(content) - _EXTENT), len(content))
    return [found.start() for start, stop in ends for found in _SIGNATURE.finditer(content, start, stop)]


def _is_whole(content: mmap.mmap, start: int) -> bool:
    """Return whether the objects of a heap follow each other up to its end."""
    if start + _HEAD.size > len(content):
        return False
    stop = start + int(_HEAD.unpack_from(content, start)[2])
    at: int = start + _HEAD.size
    if not at <= stop <= len(content):
        return False
    while at + _OBJECT.size <= stop:
        number, _, size = _OBJECT.unpack_from(content, at)
        # object 0 is the free space at the end, with its head; others are padded to 8 bytes
        at += size if number == 0 else _OBJECT.size + -(-size // 8) * 8
        if number == 0 and size < _OBJECT.size:
            return False
    return at <= stop
