"""Gives memory back that nothing needs while a daemon runs."""

import ctypes
import sys
from pathlib import Path

_PAGEOUT = 21  # MADV_PAGEOUT: take pages out of memory; what is touched again is read again
_MAPS = Path("/proc/self/maps")


def give_back_library(name: str) -> int:
    """Take the code of a shared library out of memory.

    Nothing is lost: its pages are those of a file, and come back where they are touched. A compiler is
    large, and done with once the kernels are loaded.

    Parameters
    ----------
    name : str
        Part of the name of its file, such as ``"llvmlite"``.

    Returns
    -------
    int
        Bytes that the system agreed to take out, at most; 0 where it knows no such call.
    """
    if not (sys.platform == "linux" and _MAPS.exists()):
        return 0
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    taken = 0
    for line in _MAPS.read_text().splitlines():
        span, access, _, _, _, *path = line.split(maxsplit=5)
        if path and name in Path(path[0]).name and "w" not in access:
            start, stop = (int(end, 16) for end in span.split("-"))
            taken += stop - start if libc.madvise(start, stop - start, _PAGEOUT) == 0 else 0
    return taken
