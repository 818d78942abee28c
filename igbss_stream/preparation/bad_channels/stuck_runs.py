"""Find channels that repeat a value, or have no usable one, for longer than they usually do."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]

_TIMES_USUAL = 4
_CELLS_TO_LEARN = 8  # before which no run is unusual, unless it lasts as long as all of them
_FEWEST = 8  # samples of an unusual run


class StuckRuns:
    """Length of the runs of each channel.

    Parameters
    ----------
    n_channels : int
    n_samples : int
        Length from which on a run can be unusual.
    cell : int
        Number of samples in a cell.

    Attributes
    ----------
    fewest : int
        Least length of an unusual run.
    """

    def __init__(self, n_channels: int, n_samples: int, cell: int) -> None:
        self.fewest = max(n_samples, _FEWEST)
        self._least_at_first = max(self.fewest, (_CELLS_TO_LEARN - 3) * cell)
        self._length_of_cell = cell
        self._last = np.full(n_channels, np.nan)
        self._length = np.zeros(n_channels, np.int64)  # of the run at the last sample
        self._longest = np.zeros(n_channels, np.int64)  # in this cell
        self._longest_ended = np.zeros(n_channels, np.int64)  # of the runs that ended in this cell
        self._is_cell_new = True
        self._usual = np.zeros(n_channels, np.int64)
        self._n_cells = np.zeros(n_channels, np.int64)

    @property
    def limit(self) -> Counts:
        """Length of a run from which on a channel is stuck, (channels,)."""
        learned = np.maximum(self.fewest, _TIMES_USUAL * self._usual)
        return np.where(self._n_cells < _CELLS_TO_LEARN, np.maximum(learned, self._least_at_first), learned)

    @property
    def was_stuck(self) -> Mask:
        """Which channels were stuck in this cell."""
        return np.asarray(self._longest >= self.limit)

    def skip(self) -> None:
        """Note that samples are missing: runs begin anew."""
        self._last[:], self._length[:], self._longest[:], self._longest_ended[:] = np.nan, 0, 0, 0
        self._is_cell_new = True

    def update(self, x: NDArray[Any], usable: Mask) -> list[tuple[int, int, bool]]:
        """Process the next samples of a cell.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Not empty.
        usable : ndarray of shape (samples, channels)
            Samples that are not usable continue a run.

        Returns
        -------
        list of (row, channel, repeats)
            Where runs reach the limit, or exceed it at the start of a cell, sorted, and whether the channel
            repeats a value there; none if half of the channels are stuck.
        """
        before = np.concatenate((self._last[None], x[:-1].astype(np.float64, copy=False)))
        is_equal = x == before
        repeats = is_equal | ~usable
        self._last = x[-1].astype(np.float64)
        is_cell_new, self._is_cell_new = self._is_cell_new, False
        at = np.flatnonzero(repeats.any(axis=0) | (self._length > 0))
        if not at.size:
            return []
        rows, repeats = np.arange(len(x))[:, None], repeats[:, at]
        ended = np.maximum.accumulate(np.where(repeats, -1, rows), axis=0)
        length = np.where(ended >= 0, rows - ended, rows + 1 + self._length[at])
        earlier = np.concatenate((self._length[None, at], length[:-1]))
        self._length[at] = length[-1]
        self._longest[at] = np.maximum(self._longest[at], length.max(axis=0))
        lengths_ended = np.where(repeats, 0, earlier).max(axis=0)
        self._longest_ended[at] = np.maximum(self._longest_ended[at], lengths_ended)
        if is_cell_new:
            earlier[0] = 0  # the limit may have changed
        is_stuck, was_stuck = length >= self.limit[at], earlier >= self.limit[at]
        is_common = 2 * is_stuck.sum(axis=1) >= x.shape[1]
        reached = np.argwhere(is_stuck & ~was_stuck & ~is_common[:, None])
        return [(int(row), int(at[i]), bool(is_equal[row, at[i]])) for row, i in reached]

    def finish_cell(self, good: Mask) -> None:
        """End a cell, and learn what is usual from the channels that were good in it."""
        usual = good & ~self.was_stuck
        self._usual[usual] = np.maximum(self._usual[usual], self._longest_ended[usual])
        self._n_cells += usual & (self._longest < self._length_of_cell)
        self._longest[:], self._longest_ended[:], self._is_cell_new = 0, 0, True
