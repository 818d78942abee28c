"""Find runs of NaN and infinite samples in each channel, block by block."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs

RUN = np.dtype([("start", "i8"), ("n_samples", "i8"), ("channel", "i8")])


class NonfiniteRuns:
    """Runs of NaN and infinite samples, by channel.

    Memory is bounded: if there are more than `most` runs, only the longest are kept.

    Parameters
    ----------
    n_channels : int
    most : int

    Attributes
    ----------
    n_runs : int
        Number of runs that have ended; of all runs after `finish`.
    """

    def __init__(self, n_channels: int, most: int = 10_000) -> None:
        self.n_runs = 0
        self._most, self._n_seen = most, 0
        self._open_since = np.full(n_channels, -1, np.int64)  # start of a run that has not ended, or -1
        self._kept: list[NDArray[np.void]] = []
        self._n_kept = 0

    def update(self, x: NDArray[Any]) -> None:
        """Process the next block, of shape (samples, channels)."""
        bad = ~np.isfinite(x)
        if bad.any() or (self._open_since >= 0).any():
            self._add(bad)
        self._n_seen += len(x)

    def finish(self) -> NDArray[np.void]:
        """End the open runs, and return the runs that were kept, sorted by start and channel."""
        self._add(np.zeros((1, len(self._open_since)), np.bool_))
        self._trim()
        found = np.concatenate([*self._kept, np.empty(0, RUN)])
        return found[np.lexsort((found["channel"], found["start"]))]

    def _add(self, bad: NDArray[np.bool_]) -> None:
        """Store the runs that end in a block, and remember those that are still open."""
        height = len(bad) + 2  # flags of a channel: the sample before, the block, and a separator
        flags = np.concatenate([self._open_since[None] >= 0, bad, np.zeros((1, bad.shape[1]), np.bool_)])
        edges = split_runs(flags.T.ravel(), True)
        channel = edges[:, 0] // height
        start, stop = (edges - channel[:, None] * height).T + self._n_seen - 1
        start = np.where(start < self._n_seen, self._open_since[channel], start)
        is_open = stop == self._n_seen + len(bad)
        self._open_since[:] = -1
        self._open_since[channel[is_open]] = start[is_open]
        runs = np.empty(int(np.sum(~is_open)), RUN)
        runs["start"], runs["channel"] = start[~is_open], channel[~is_open]
        runs["n_samples"] = (stop - start)[~is_open]
        self.n_runs += len(runs)
        self._n_kept += len(runs)
        self._kept.append(runs)
        if self._n_kept > 2 * self._most:
            self._trim()

    def _trim(self) -> None:
        kept = np.concatenate([*self._kept, np.empty(0, RUN)])
        longest = np.argsort(-kept["n_samples"], kind="stable")[: self._most]
        self._kept, self._n_kept = [kept[np.sort(longest)]], len(longest)
