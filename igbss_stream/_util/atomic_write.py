"""Write a small file as a whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO


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
        If the file cannot be written. An existing file is then unchanged, and the temporary file is
        removed.
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
