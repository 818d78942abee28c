"""Load the library of the lab streaming layer (LSL); needs the extra ``lsl``."""

import time
from typing import Any

from igbss_stream.errors import FeedError

try:
    import pylsl
except (ImportError, RuntimeError, OSError) as error:  # pylsl raises RuntimeError without liblsl
    raise FeedError(
        f"LSL needs pylsl and liblsl; install them with pip install 'igbss-stream[lsl]' ({error})"
    ) from error

__all__ = ["ERRORS", "measure_unix_offset", "pylsl"]

ERRORS = (RuntimeError, ValueError, OSError)  # raised by pylsl


def measure_unix_offset() -> float:
    """Return the difference of Unix time and the LSL clock, in seconds."""
    before = pylsl.local_clock()
    now = time.time()
    offset: Any = now - (before + pylsl.local_clock()) / 2
    return float(offset)
