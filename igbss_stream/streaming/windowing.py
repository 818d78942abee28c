"""Cuts a stream into windows that overlap."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk
from igbss_stream.errors import ParameterError


class WindowSplitter:
    """Samples in, windows out: ``length`` samples, ``hop`` samples from one to the next.

    Parameters
    ----------
    length, hop : int
        In samples, 1 <= hop <= length. The last window of a stretch ends with it, and may so lie closer to
        the one before; a stretch shorter than `length` is one window.

    Raises
    ------
    ParameterError
        If samples would lie in no window.
    """

    def __init__(self, length: int, hop: int) -> None:
        if not 1 <= hop <= length:
            raise ParameterError(
                f"hop must be between 1 and the window's length, {length} samples, or samples would be "
                f"lost. Got {hop} instead."
            )
        self.length, self.hop = length, hop
        self._kept: list[NDArray[Any]] = []
        self._start = 0  # of the next window
        self._stop = 0  # of what is kept
        self._covered = 0  # by windows so far

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Take in a chunk that follows on the last one; return the windows it completes."""
        if not self._kept:
            self._start = self._stop = self._covered = chunk.start
        self._kept.append(chunk.data)
        self._stop = chunk.stop
        windows = []
        while self._start + self.length <= self._stop:
            windows.append(self._cut(self._start, self._start + self.length))
            self._start += self.hop
        self._forget()
        return windows

    def flush(self) -> list[Chunk]:
        """End the stretch: return the window that covers its last samples, if any are left."""
        if not self._kept:
            return []
        start = self._first_kept
        last = (
            []
            if self._covered == self._stop
            else [self._cut(max(start, self._stop - self.length), self._stop)]
        )
        self._kept = []
        return last

    @property
    def _first_kept(self) -> int:
        return self._stop - sum(map(len, self._kept))

    def _cut(self, start: int, stop: int) -> Chunk:
        kept = np.concatenate(self._kept)
        self._kept = [kept]
        first = self._stop - len(kept)
        self._covered = stop
        return Chunk(np.ascontiguousarray(kept[start - first : stop - first]), start)

    def _forget(self) -> None:
        """Keep what the next window needs, and the last `length` samples for the last one."""
        needed = min(self._start, self._stop - self.length)
        while len(self._kept) > 1 and self._first_kept + len(self._kept[0]) <= needed:
            del self._kept[0]
