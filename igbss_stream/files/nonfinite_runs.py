"""Runs of samples that are NaN or infinite, channel by channel, in samples that come block by block."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

RUN = np.dtype([("start", "i8"), ("n_samples", "i8"), ("channel", "i8")])


class Runs:
    """Where samples are NaN or infinite.

    Memory does not grow with the number of runs: of more than `most` the longest are kept.

    Parameters
    ----------
    n_channels : int
    most : int

    Attributes
    ----------
    n_runs : int
        Number of runs that have ended, all of them once `finish` was called.
    """

    def __init__(self, n_channels: int, most: int = 10_000) -> None:
        self.n_runs = 0
        self._most, self._n_seen = most, 0
        self._begun = np.full(n_channels, -1, np.int64)  # where a run that goes on began
        self._kept: list[NDArray[np.void]] = []
        self._n_kept = 0

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels)."""
        bad = ~np.isfinite(x)
        if bad.any() or (self._begun >= 0).any():
            self._add(bad)
        self._n_seen += len(x)

    def finish(self) -> NDArray[np.void]:
        """End the runs that go on, and return those that are kept, by start and channel."""
        self._add(np.zeros((1, len(self._begun)), np.bool_))
        self._trim()
        found = np.concatenate([*self._kept, np.empty(0, RUN)])
        return found[np.lexsort((found["channel"], found["start"]))]

    def _add(self, bad: NDArray[np.bool_]) -> None:
        before = self._begun >= 0
        change = np.diff(np.concatenate([before[None], bad]).astype(np.int8), axis=0)
        channel, row = np.nonzero(change.T == 1)
        going = np.flatnonzero(before)
        channel, start = np.append(going, channel), np.append(self._begun[going], row + self._n_seen)
        order = np.lexsort((start, channel))
        channel, start = channel[order], start[order]
        last = bad[-1][channel] & (np.append(channel[1:], -1) != channel)  # of those that go on
        self._begun[:] = -1
        self._begun[channel[last]] = start[last]
        _, stop = np.nonzero(change.T == -1)
        runs = np.empty(len(stop), RUN)
        runs["start"], runs["channel"] = start[~last], channel[~last]
        runs["n_samples"] = stop + self._n_seen - runs["start"]
        self.n_runs += len(runs)
        self._n_kept += len(runs)
        self._kept.append(runs)
        if self._n_kept > 2 * self._most:
            self._trim()

    def _trim(self) -> None:
        kept = np.concatenate([*self._kept, np.empty(0, RUN)])
        longest = np.argsort(-kept["n_samples"], kind="stable")[: self._most]
        self._kept, self._n_kept = [kept[np.sort(longest)]], len(longest)
