"""Small files that appear under their name only when they are complete."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside its place, bring it to the disk, and give it its name.

    Parameters
    ----------
    path : Path
        An older file of that name is replaced.
    write : callable
        Takes the open file and writes to it.

    Raises
    ------
    OSError
        If it cannot be written; what was there stays, and nothing is left beside it.
    """
    partial = Path(f"{path}.partial")
    try:
        with partial.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
