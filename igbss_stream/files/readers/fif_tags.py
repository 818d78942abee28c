"""Walk through the tags of a FIF file: a head of 16 bytes each, and content."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from igbss_stream.errors import RecordingError

_HEAD = struct.Struct(">iIii")  # kind, type, size, next


def read_tags(file: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield kind and size of the tags of a file, in their order, with the file at their content.

    Parameters
    ----------
    file : file

    Raises
    ------
    ValueError
        If a tag does not follow the one before it in the file.
    """
    at: int | None = 0
    while at is not None:
        file.seek(at)
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return
        kind, _, size, after = _HEAD.unpack(head)
        if size < 0 or 0 < after <= at:
            raise ValueError(f"the tag at byte {at} does not lead to a later one")
        yield kind, size
        at = after if after > 0 else at + _HEAD.size + size if after == 0 else None


def check_tags(path: Path) -> None:
    """Refuse a FIF file whose tags lead back, for which MNE would read them without end.

    Parameters
    ----------
    path : Path

    Raises
    ------
    RecordingError
        If there is such a tag.
    """
    try:
        with open(path, "rb") as file:
            for _ in read_tags(file):
                pass
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RecordingError(f"{str(path)!r} is damaged: {error}; copy or record it again") from error
