"""Check that an allocation fits into the available memory, or into the part that a cache may take."""

import os
from contextlib import suppress
from pathlib import Path

from igbss_stream.errors import RecordingError

_MEMINFO = Path("/proc/meminfo")
_OWN_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_SHARE_OF_CACHE = 5  # a cache may take a fifth of the memory


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


def may_cache(n_bytes: int) -> bool:
    """Return whether a cache takes at most a fifth of the available memory.

    The limits of the control groups of the process count as well, as in a container.

    Parameters
    ----------
    n_bytes : int
    """
    available = get_available_memory()
    if available is None:
        return False
    return n_bytes * _SHARE_OF_CACHE <= min([available, *_list_group_limits()])


def _list_group_limits() -> list[int]:
    """Return the limits in bytes of the control groups that the process belongs to.

    A container may not show the group itself, but only the one that encloses it.
    """
    try:
        groups = [line.split(":", 2)[1:] for line in _OWN_GROUP.read_text().splitlines()]
    except OSError:
        return []
    limits = []
    for controllers, path in groups:
        if "memory" in controllers.split(","):  # version 1
            group, file = _GROUPS / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        else:
            group, file = _GROUPS / path.lstrip("/"), "memory.max"
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # no limit here: no file, or "max"
                limits.append(int((folder / file).read_text()))
    return limits


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
