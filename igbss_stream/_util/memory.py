"""Check that an allocation fits into the available memory."""

import os
from pathlib import Path

from igbss_stream.errors import RecordingError

_MEMINFO = Path("/proc/meminfo")


def get_available_memory() -> int | None:
    """Return the available memory in bytes, or None if the system does not report it."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(n_bytes: int, what: str, instead: str) -> None:
    """Check that enough memory is available.

    Parameters
    ----------
    n_bytes : int
        Upper bound of the memory needed.
    what : str
        What needs the memory, for the error message.
    instead : str
        What the user can do instead, for the error message.

    Raises
    ------
    RecordingError
        If the system reports less available memory.
    """
    free = get_available_memory()
    if free is not None and n_bytes > free:
        raise RecordingError(
            f"{what} takes {n_bytes / 1e9:.2g} GB of memory at once where {free / 1e9:.2g} GB are free; "
            f"{instead}"
        )
