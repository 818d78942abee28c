"""Recognise FIF files that continue another one, because a file may not exceed 2 GB."""

import os
import re
import struct
from pathlib import Path

_HEAD = struct.Struct(">iIii")  # kind, type, size, next
_ROLE, _NAME, _DATA = 115, 118, 300  # kinds of tags
_PREVIOUS = 1  # role of a reference
_MOST_TAGS = 10_000
_LONGEST_NAME = 4096  # bytes
_SPLIT = re.compile(r"(_split-)(\d+)")


def find_previous_part(path: Path) -> Path | None:
    """Return the file that a FIF file continues; None if it is a first part, or that file is missing.

    Parameters
    ----------
    path : Path
    """
    try:
        name = _read_previous(path)
    except OSError:
        return None
    if not name:
        return None
    names = [os.path.basename(name.replace("\\", "/"))]
    if (number := _SPLIT.search(path.name)) is not None:  # the reference may precede the final name
        before = f"{number[1]}{int(number[2]) - 1:0{len(number[2])}d}"
        names.append(path.name[: number.start()] + before + path.name[number.end() :])
    candidates = (path.parent / each for each in names)
    return next((each for each in candidates if each.is_file() and each != path), None)


def _read_previous(path: Path) -> str:
    """Return the name of the previous part; empty without one. It precedes the samples."""
    role = 0
    with open(path, "rb") as file:
        for _ in range(_MOST_TAGS):
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return ""
            kind, _, size, after = _HEAD.unpack(head)
            if kind == _DATA or size < 0:
                return ""
            if kind == _ROLE and size == 4:
                role = int.from_bytes(file.read(4), "big")
            elif kind == _NAME and role == _PREVIOUS and size <= _LONGEST_NAME:
                return file.read(size).decode("utf-8", "replace")
            else:
                file.seek(size, os.SEEK_CUR)
            if after > 0:
                file.seek(after)
            elif after < 0:
                return ""
    return ""
