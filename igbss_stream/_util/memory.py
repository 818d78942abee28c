"""Whether there is memory for what has to be held as a whole."""

import os
from pathlib import Path

from igbss_stream.errors import RecordingError

_MEMINFO = Path("/proc/meminfo")


def available_memory() -> int | None:
    """Return the bytes of memory that can be taken, if the system tells."""
    try:
        lines = _MEMINFO.read_text().splitlines()
        told = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(told.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def check_memory(n_bytes: int, what: str, instead: str) -> None:
    """Refuse to take more memory than there is.

    Parameters
    ----------
    n_bytes : int
        How much is needed at most.
    what : str
        What takes it, for the message.
    instead : str
        What to do instead.

    Raises
    ------
    RecordingError
        If the system says that there is less.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise RecordingError(
            f"{what} takes {n_bytes / 1e9:.2g} GB of memory at once where {free / 1e9:.2g} GB are free; "
            f"{instead}"
        )
