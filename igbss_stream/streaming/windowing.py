"""Cut a stream into overlapping windows, and overlap-add the results."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk
from igbss_stream.errors import ParameterError


class WindowSplitter:
    """Cut a stream into windows of ``length`` samples, ``hop`` samples apart.

    Parameters
    ----------
    length, hop : int
        In samples, 1 <= hop <= length. The last window of a run ends with it, and may therefore be closer
        to the previous one. A run shorter than `length` is a single window.

    Raises
    ------
    ParameterError
        If samples would be in no window.
    """

    def __init__(self, length: int, hop: int) -> None:
        if not 1 <= hop <= length:
            raise ParameterError(
                f"hop must be between 1 and the window's length, {length} samples, or samples would be "
                f"lost. Got {hop} instead.",
                parameter="hop",
            )
        self.length, self.hop = length, hop
        self._buffer: list[NDArray[Any]] = []
        self._start = 0  # of the next window
        self._stop = 0  # of the buffered samples
        self._covered = 0  # index after the last window

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Add a chunk that follows the last one; return the windows that it completes."""
        if not self._buffer:
            self._start = self._stop = self._covered = chunk.start
        self._buffer.append(chunk.data)
        self._stop = chunk.stop
        windows = []
        while self._start + self.length <= self._stop:
            windows.append(self._cut(self._start, self._start + self.length))
            self._start += self.hop
        self._drop_old()
        return windows

    def flush(self) -> list[Chunk]:
        """End the run; return the window of its last samples if they are in no window yet."""
        if not self._buffer:
            return []
        windows = []
        if self._covered != self._stop:
            windows = [self._cut(max(self._buffer_start, self._stop - self.length), self._stop)]
        self._buffer = []
        return windows

    @property
    def _buffer_start(self) -> int:
        return self._stop - sum(map(len, self._buffer))

    def _cut(self, start: int, stop: int) -> Chunk:
        data = np.concatenate(self._buffer)
        self._buffer = [data]
        first = self._stop - len(data)
        self._covered = stop
        return Chunk(np.ascontiguousarray(data[start - first : stop - first]), start)

    def _drop_old(self) -> None:
        """Drop samples that neither the next window nor a last one of `length` samples needs."""
        needed = min(self._start, self._stop - self.length)
        while len(self._buffer) > 1 and self._buffer_start + len(self._buffer[0]) <= needed:
            del self._buffer[0]


class OverlapAdd:
    """Combine overlapping windows into one stream: each sample is a weighted mean over its windows.

    The weights of a window are a squared sine that is nowhere zero. The weighted sum of each sample is
    divided by the sum of its weights. Windows cut from a signal therefore reconstruct it for every length
    and hop, including its ends.
    """

    def __init__(self) -> None:
        self._sum: NDArray[np.float64] | None = None
        self._weight = np.empty(0)
        self._start = 0
        self._last: Chunk | None = None

    def push(self, window: Chunk, complete: int) -> list[Chunk]:
        """Add a window; return the samples before index `complete`, which no later window overlaps.

        Parameters
        ----------
        window : Chunk
            Samples that were already returned are ignored.
        complete : int
            At most the end of the window.

        Returns
        -------
        list of Chunk
            At most one.
        """
        n_samples = len(window.data)
        if self._sum is None:
            self._start = window.start
            self._sum = np.zeros((0, window.data.shape[1]))
            self._weight = np.zeros(0)
        n_missing = window.stop - self._start - len(self._sum)
        if n_missing > 0:
            self._sum = np.concatenate([self._sum, np.zeros((n_missing, self._sum.shape[1]))])
            self._weight = np.concatenate([self._weight, np.zeros(n_missing)])
        weight = np.sin(np.pi * (np.arange(n_samples) + 0.5) / n_samples) ** 2
        n_returned = max(0, self._start - window.start)
        rows = slice(window.start + n_returned - self._start, window.stop - self._start)
        self._sum[rows] += weight[n_returned:, None] * window.data[n_returned:]
        self._weight[rows] += weight[n_returned:]
        self._last = window
        return self._pop(complete - self._start, window)

    def flush(self) -> list[Chunk]:
        """Return the remaining samples of the run; the next window begins another."""
        rest = [] if self._last is None else self._pop(len(self._weight), self._last)
        self._sum = self._last = None
        return rest

    def _pop(self, n_samples: int, window: Chunk) -> list[Chunk]:
        """Return the next samples, in the dtype of the window."""
        if n_samples <= 0 or self._sum is None:
            return []
        mean = self._sum[:n_samples] / self._weight[:n_samples, None]
        chunk = Chunk(mean.astype(window.data.dtype), self._start, window.model_version)
        self._sum, self._weight = self._sum[n_samples:], self._weight[n_samples:]
        self._start += n_samples
        return [chunk]
