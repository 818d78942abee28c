"""Recognise FIF files that continue another one, because a file may not exceed 2 GB."""

import itertools
import os
import re
from pathlib import Path

from igbss_stream.files.readers.fif_tags import read_tags

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
    except (OSError, ValueError):
        return None
    if not name:
        return None
    names = [os.path.basename(name.replace("\\", "/"))]
    if (number := _SPLIT.search(path.name)) is not None:  # the reference may precede the final name
        before = f"{number[1]}{int(number[2]) - 1:0{len(number[2])}d}"
        names.append(path.name[: number.start()] + before + path.name[number.end() :])
    candidates = (path.parent / each for each in names)
    return next((each for each in candidates if os.path.isfile(each) and each != path), None)


def _read_previous(path: Path) -> str:
    """Return the name of the previous part; empty without one. It precedes the samples."""
    role = 0
    with open(path, "rb") as file:
        for kind, size in itertools.islice(read_tags(file), _MOST_TAGS):
            if kind == _DATA:
                return ""
            if kind == _ROLE and size == 4:
                role = int.from_bytes(file.read(4), "big")
            elif kind == _NAME and role == _PREVIOUS and size <= _LONGEST_NAME:
                return file.read(size).decode("utf-8", "replace")
    return ""
