"""Write a small file as a whole or not at all."""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import IO

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a temporary file in the same directory, sync it to disk and rename it.

    Parameters
    ----------
    path : Path
        The file to write. An existing file is replaced.
    write : callable
        Called with the open temporary file, to write the content.

    Raises
    ------
    OSError
        If the file cannot be written, or the name of the temporary file is taken by a link or anything else
        that is no regular file. An existing file is then unchanged, and the temporary file is removed.
    """
    partial = Path(f"{path}.partial")
    _remove_leftover(partial)
    # Others may write to the folder: a link that they leave under this name must not be followed.
    descriptor = os.open(partial, _NEW_FILE, 0o666)
    try:
        with open(descriptor, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _remove_leftover(partial: Path) -> None:
    """Remove the temporary file of a killed run; refuse anything else."""
    try:
        mode = os.lstat(partial).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise OSError(
            errno.EEXIST, f"the temporary file '{partial}' is a link or no regular file; remove it"
        )
    partial.unlink(missing_ok=True)
