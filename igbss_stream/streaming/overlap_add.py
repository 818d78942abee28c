"""Joins windows that overlap into one stream of samples."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk


class OverlapAdd:
    """Windows in, samples out: each sample is the weighted mean of what the windows say of it.

    The weights of a window are a squared sine, nowhere zero, and their sum over all windows of a sample
    divides what they add up to, so that windows of one signal give back that signal for every length and
    hop, at the ends as well.
    """

    def __init__(self) -> None:
        self._sum: NDArray[np.float64] | None = None
        self._weight = np.empty(0)
        self._start = 0
        self._last: Chunk | None = None

    def push(self, window: Chunk, complete: int) -> list[Chunk]:
        """Add a window; return the samples before index `complete`, which no later window will touch.

        Parameters
        ----------
        window : Chunk
            What it says of samples that were returned already is left out.
        complete : int
            At most the end of the window.

        Returns
        -------
        list of Chunk
            One, or none.
        """
        n_samples = len(window.data)
        if self._sum is None:
            self._start = window.start
            self._sum = np.zeros((0, window.data.shape[1]))
            self._weight = np.zeros(0)
        missing = window.stop - self._start - len(self._sum)
        if missing > 0:
            self._sum = np.concatenate([self._sum, np.zeros((missing, self._sum.shape[1]))])
            self._weight = np.concatenate([self._weight, np.zeros(missing)])
        weight = np.sin(np.pi * (np.arange(n_samples) + 0.5) / n_samples) ** 2
        returned = max(0, self._start - window.start)
        at = slice(window.start + returned - self._start, window.stop - self._start)
        self._sum[at] += weight[returned:, None] * window.data[returned:]
        self._weight[at] += weight[returned:]
        self._last = window
        return self._take(complete - self._start, window)

    def flush(self) -> list[Chunk]:
        """Return what is left of the stretch; the next window begins another."""
        left = [] if self._last is None else self._take(len(self._weight), self._last)
        self._sum = self._last = None
        return left

    def _take(self, count: int, window: Chunk) -> list[Chunk]:
        if count <= 0 or self._sum is None:
            return []
        mean = self._sum[:count] / self._weight[:count, None]
        done = Chunk(mean.astype(window.data.dtype), self._start, window.model_version)
        self._sum, self._weight = self._sum[count:], self._weight[count:]
        self._start += count
        return [done]
