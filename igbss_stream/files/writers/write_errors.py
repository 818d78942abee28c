"""Refuse impossible outputs, and explain failed writes."""

import errno
import os
from pathlib import Path

from igbss_stream.errors import RecordingError

_NO_ROOM = {
    errno.ENOSPC: "the disk is full; free some space or choose an output on another disk",
    errno.EDQUOT: "the disk quota is used up; free some space or choose an output on another disk",
    errno.EFBIG: "the file has reached the limit on file sizes; raise it (ulimit -f) or choose an "
    "output on another disk",
}


def check_output_path(path: Path) -> None:
    """Check that a file can be written at a path."""
    folder = path.parent
    if os.path.isdir(path):
        raise RecordingError(f"'{path}' is a directory; add a file name")
    if os.path.exists(path) and not os.path.isfile(path):
        raise RecordingError(f"'{path}' is not a regular file; choose another output")
    if not os.path.isdir(folder):
        raise RecordingError(
            f"'{path}' cannot be written: there is no directory '{folder}'; create it first"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise RecordingError(
            f"'{path}' cannot be written: no permission to write to '{folder}'; choose an "
            "output in another directory"
        )


def check_new_output(path: Path, *, overwrite: bool, source: str | os.PathLike[str] | None = None) -> None:
    """Check that an output may be written at a path.

    Parameters
    ----------
    path : Path
    overwrite : bool
        Whether an existing file may be replaced.
    source : path, optional
        The input, which is never overwritten.
    """
    check_output_path(path)
    if source is not None and is_same_file(path, source):
        raise RecordingError(
            f"'{path}' is the input itself, which is never overwritten; choose another output"
        )
    if os.path.lexists(path) and not overwrite:
        raise RecordingError(
            f"'{path}' already exists; pass --overwrite to replace it or choose another output"
        )


def is_same_file(path: Path, other: str | os.PathLike[str]) -> bool:
    """Return whether two paths refer to the same file, also through links."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):
        return False


def explain_write_error(error: BaseException) -> str:
    """Return why a file cannot be written, and what to do."""
    reason = " ".join(str(error).split()) + "; choose another output"
    return _NO_ROOM.get(_find_error_number(error), reason)


def _find_error_number(error: BaseException | None) -> int:
    """Return the first system error number in a chain of exceptions; 0 if there is none."""
    while error is not None:
        if isinstance(error, OSError) and error.errno:
            return error.errno
        error = error.__cause__ or error.__context__
    return 0
