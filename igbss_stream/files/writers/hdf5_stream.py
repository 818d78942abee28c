"""The file object that HDF5 writes through, which can be told that the result is lost."""

import io
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class Stream:
    """The file object that HDF5 sees.

    Its methods are functions written in C, so that no signal handler can run, and raise, in the
    middle of a write of HDF5.

    Parameters
    ----------
    file : file
    """

    def __init__(self, file: io.BufferedRandom) -> None:
        self.file = file
        self.seek: Callable[..., object] = file.seek
        self.tell: Callable[[], int] = file.tell
        self.read: Callable[..., bytes | None] = file.read
        self.readinto: Callable[..., int | None] = file.readinto
        self.write: Callable[[Any], int] = file.write
        self.truncate: Callable[[int], int] = file.truncate
        self.flush: Callable[[], object] = file.flush

    def accept_everything(self) -> None:
        """Drop what is written from now on, so that a file that cannot be saved can be closed."""
        raw = self.file.raw
        self.seek, self.tell, self.read, self.readinto = raw.seek, raw.tell, raw.read, raw.readinto
        self.write, self.truncate, self.flush = len, int, bool

    def close(self) -> None:
        """Close the file; HDF5 may still hold on to it if a signal interrupted its own closing."""
        self.accept_everything()
        self.seek, self.tell = "".format, int
        # What the buffer holds by now is worthless if it cannot be written.
        with suppress(OSError):
            self.file.close()
