"""How much memory there is, for work that has to hold everything at once."""

import os

from igbss_stream.errors import InputError


def available_memory() -> int | None:
    """Return the bytes that can be had without swapping, or None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            told = dict(line.split(":", 1) for line in file if ":" in line)
        return int(told["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse work that memory does not suffice for, before any is taken.

    Parameters
    ----------
    needed : int
        Bytes that will be held at once.
    what : str
        The work, for the message.
    remedy : str
        What to do instead.

    Raises
    ------
    InputError
        If less is available.
    """
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"{what} takes {needed / 2**20:.0f} MiB of memory at once, and {available / 2**20:.0f} MiB are "
            f"available. {remedy}"
        )
