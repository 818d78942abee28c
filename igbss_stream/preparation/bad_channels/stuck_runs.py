"""Find channels that repeat a value, or have no usable one, for longer than they usually do."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from igbss_stream.model.kernels import channels
from igbss_stream.preparation.bad_channels.leaps import Screen

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
    dtype : dtype
        Of the samples.

    Attributes
    ----------
    fewest : int
        Least length of an unusual run.
    limit : ndarray of shape (channels,)
        Length of a run from which on a channel is stuck.
    usual : ndarray of shape (channels,)
        Length of the longest run of a good channel so far.
    n_cells : ndarray of shape (channels,)
        Number of cells that this was learned from.
    """

    def __init__(self, n_channels: int, n_samples: int, cell: int, dtype: DTypeLike) -> None:
        self.fewest = max(n_samples, _FEWEST)
        self._least_at_first = max(self.fewest, (_CELLS_TO_LEARN - 3) * cell)
        self._length_of_cell = cell
        self._last = np.full(n_channels, np.nan, dtype)
        self._runs = np.zeros((4, n_channels), np.int64)
        self.limit = self._runs[0]
        self._length = self._runs[1]  # of the run at the last sample
        self._longest = self._runs[2]  # in this cell
        self._longest_ended = self._runs[3]  # of the runs that ended in this cell
        self._is_cell_new = True
        self.set_usual(np.zeros(n_channels, np.int64), np.zeros(n_channels, np.int64))

    def set_usual(self, usual: Counts, n_cells: Counts) -> None:
        """Set what is usual, as an earlier run of the stream learned it.

        Parameters
        ----------
        usual, n_cells : ndarray of shape (channels,)
            See the attributes.
        """
        self.usual, self.n_cells = usual.copy(), n_cells.copy()
        self.finish_cell(np.zeros(len(usual), bool))  # sets the limits

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
        is_new, self._is_cell_new = self._is_cell_new, False  # the limit may have changed
        reached = np.empty(((len(x) // self.fewest + 2) * x.shape[1], 3), np.int64)
        n_reached = channels.track_runs(
            x, usable, is_new, self.limit, self._last, self._length, self._longest, self._longest_ended,
            reached,
        )  # fmt: skip
        return [(row, channel, bool(repeats)) for row, channel, repeats in reached[:n_reached].tolist()]

    def screen(self, x: NDArray[Any], largest: float, screen: Screen) -> bool:
        """Do what `update` does if nothing is unusual; return whether it is so.

        A sample is unusual if it is not usable, is far from its prediction, or makes a run reach its limit.
        Nothing has changed then.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Not empty.
        largest : float
            Magnitude beyond which a value is not usable.
        screen : Screen
        """
        is_usual: bool = channels.screen(
            x, largest, screen.center, screen.weights, screen.bounds, screen.found, self._is_cell_new,
            self._runs, self._last,
        )  # fmt: skip
        if is_usual:
            self._is_cell_new = False
            screen.n_samples += len(x)
        return is_usual

    def finish_cell(self, good: Mask) -> None:
        """End a cell, and learn what is usual from the channels that were good in it."""
        channels.finish_runs(
            self._runs, good, self.usual, self.n_cells, self._length_of_cell,
            self.fewest, _TIMES_USUAL, self._least_at_first, _CELLS_TO_LEARN,
        )  # fmt: skip
        self._is_cell_new = True
