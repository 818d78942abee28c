"""Detect outliers and flat channels in a stream.

Both detectors divide the sample index into cells of fixed length, and update what they have learned only at
the ends of cells. Their output for a sample therefore does not depend on the chunks.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
State = dict[str, NDArray[Any]]
Change = tuple[int, int, bool]

_MEDIAN_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, for a Gaussian
_ROUNDING = 4.0  # rounding errors within which a channel is constant, as in a survey
_CELLS = 4  # number of constant cells after which a channel is flat
_HEAD = 8  # samples of a call that are compared before the rest
_ROWS = 256  # used for medians, which are then accurate to a few percent
_GOLDEN = 0.6180339887498949


class _Detector:
    """Base class: saves and restores the arrays that a detector needs to continue."""

    _prefix: ClassVar[str]
    _state_names: ClassVar[tuple[str, ...]]

    @property
    def state(self) -> State:
        """Copies of all arrays that the detector needs to continue."""
        return {f"{self._prefix}_{name}": getattr(self, f"_{name}").copy() for name in self._state_names}

    def restore(self, state: State, start: int) -> None:
        """Continue from a state, at the index `start`."""
        for name in self._state_names:
            setattr(self, f"_{name}", state[f"{self._prefix}_{name}"].copy())
        self._resume_at(start)

    def _resume_at(self, start: int) -> None:
        """Find the cell of an index."""


class FlatDetector(_Detector):
    """Detect channels that are constant within the rounding of their dtype.

    A channel is constant in a cell if none of its samples differs from an anchor, the first good sample
    after the cell of its last movement. It becomes flat at the end of the fourth constant cell, until it
    moves.

    Parameters
    ----------
    n_samples : int
        Time that a channel must be constant; a cell is a quarter of it.
    n_channels : int
    eps : float
        Relative rounding error of the dtype.
    """

    _prefix = "flat"
    _state_names = ("flat", "anchor", "moved", "heard", "rested")

    def __init__(self, n_samples: int, n_channels: int, eps: float) -> None:
        self._flat = np.zeros(n_channels, bool)
        self._tolerance = _ROUNDING * eps
        self._cell = -(-n_samples // _CELLS)
        self._anchor = np.full(n_channels, np.nan)  # value that a channel is compared with
        self._moved = np.ones(n_channels, bool)  # in this cell
        self._heard = np.zeros(n_channels, bool)  # has good samples in this cell
        self._rested = np.zeros(n_channels, np.int64)  # number of constant cells
        self._still = np.flatnonzero(~self._moved)
        self._end = 0

    @property
    def flat(self) -> Mask:
        """Which channels are flat."""
        return self._flat.copy()

    def begin(self, start: int) -> None:
        """Reset all but the flat channels; a cell that has already begun does not count."""
        self._anchor[:] = np.nan
        self._moved[:] = start % self._cell != 0
        self._heard[:] = False
        self._rested[:] = 0
        self._resume_at(start)

    def update(self, x: NDArray[Any], start: int, bad: Mask | None) -> list[Change]:
        """Process the next samples, and return where channels became flat or moved.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        start : int
        bad : ndarray of shape (samples, channels), optional
            Samples to ignore.

        Returns
        -------
        list of (index, channel, is_flat)
        """
        stop = start + len(x)
        changes: list[Change] = []
        if stop < self._end and not self._still.size:
            return changes
        for first, last in _split_cells(start, stop, self._cell):
            # nearly all channels move within a few samples, so that the others need no comparison
            for begin, end in ((first, min(first + _HEAD, last)), (first + _HEAD, last)):
                if self._still.size and begin < end:
                    part = slice(begin - start, end - start)
                    changes += self._compare(x[part], begin, None if bad is None else bad[part])
            if last == self._end:
                changes += self._finish_cell(last)
        return changes

    def skip(self, start: int, n_samples: int) -> list[Change]:
        """Skip missing samples; return the same as `update`."""
        stop = start + n_samples
        changes = self._finish_cell(self._end) if stop >= self._end else []
        self._resume_at(stop)
        return changes

    def _compare(self, x: NDArray[Any], start: int, bad: Mask | None) -> list[Change]:
        """Compare the channels that have not moved in this cell with their anchors."""
        at = self._still
        values = x[:, at].astype(np.float64)
        if bad is not None:
            values[bad[:, at]] = np.nan
        good = ~np.isnan(values)
        new = np.flatnonzero(np.isnan(self._anchor[at]))
        self._anchor[at[new]] = values[good[:, new].argmax(axis=0), new]
        self._heard[at] |= good.any(axis=0)
        anchor = self._anchor[at]
        size = np.maximum(np.abs(values), np.abs(anchor))
        with np.errstate(over="ignore"):
            moves = np.abs(values - anchor) > self._tolerance * size
        moved = moves.any(axis=0)
        self._moved[at[moved]] = True
        self._still = at[~moved]
        was_flat = np.flatnonzero(moved & self._flat[at])
        self._flat[at[was_flat]] = False
        return [(start + int(moves[:, i].argmax()), int(at[i]), False) for i in was_flat]

    def _finish_cell(self, stop: int) -> list[Change]:
        self._rested = np.where(self._moved, 0, self._rested + self._heard)
        new = np.flatnonzero((self._rested >= _CELLS) & ~self._flat)
        self._flat[new] = True
        self._anchor[self._moved] = np.nan
        self._moved[:] = self._heard[:] = False
        self._resume_at(stop)
        return [(stop - 1, int(channel), True) for channel in new]

    def _resume_at(self, start: int) -> None:
        self._end = (start // self._cell + 1) * self._cell
        self._still = np.flatnonzero(~self._moved)


class OutlierDetector(_Detector):
    """Detect samples far from the median of their channel.

    The median and the median absolute deviation of a cell apply to the next cell. They include outliers,
    which may be up to half of a cell without effect. A channel is not checked if less than half of a cell
    was good, or if it was constant for half of it, like a trigger.

    Parameters
    ----------
    threshold : float
        In robust standard deviations, 1.4826 times the median absolute deviation.
    n_samples : int
        Length of a cell.
    patience : int
        A channel that exceeds the threshold for more samples has a step, e.g. from a moved electrode. It is
        not checked for the rest of the cell, and its median is learned again.
    n_channels : int
    eps : float
        Relative rounding error of the dtype.
    """

    _prefix = "outlier"
    _state_names = ("kept", "center", "limit", "out")

    def __init__(
        self, threshold: float, n_samples: int, patience: int, n_channels: int, eps: float
    ) -> None:
        self._threshold = threshold * _MEDIAN_TO_DEVIATION
        self._cell = n_samples
        self._patience = patience
        self._eps = eps
        self._rows = _choose_rows(n_samples)
        self._kept = np.full((len(self._rows), n_channels), np.nan)
        self._center = np.zeros(n_channels)
        self._limit = np.full(n_channels, np.inf)
        self._out = np.zeros(n_channels, np.int64)  # number of consecutive outliers

    def begin(self) -> None:
        """Reset all that was learned."""
        self._kept[:] = np.nan
        self._limit[:] = np.inf
        self._out[:] = 0

    def update(
        self, x: NDArray[Any], start: int, bad: Mask | None
    ) -> tuple[Mask | None, list[tuple[int, int]]]:
        """Process the next samples, and detect outliers.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        start : int
        bad : ndarray of shape (samples, channels), optional
            Samples to ignore; at least those that are not finite.

        Returns
        -------
        outliers : ndarray of shape (samples, channels), or None if there are none
        steps : list of (index, channel)
            Where the step of a channel was accepted.
        """
        outliers = np.zeros(x.shape, bool)
        steps: list[tuple[int, int]] = []
        for first, last in _split_cells(start, start + len(x), self._cell):
            part = slice(first - start, last - start)
            values = x[part].astype(np.float64)
            if bad is not None:
                values[bad[part]] = np.nan
            self._record(values, first)
            steps += self._mark_outliers(values, first, outliers[part])
            if last % self._cell == 0:
                self._finish_cell()
        return (outliers if outliers.any() else None), steps

    def skip(self, start: int, n_samples: int) -> None:
        """Skip missing samples."""
        ends = (start + n_samples) // self._cell - start // self._cell
        for _ in range(min(ends, 2)):  # further empty cells have no effect
            self._finish_cell()

    def _record(self, values: NDArray[np.float64], start: int) -> None:
        at = start % self._cell
        first, last = np.searchsorted(self._rows, (at, at + len(values)))
        self._kept[first:last] = values[self._rows[first:last] - at]

    def _mark_outliers(
        self, values: NDArray[np.float64], start: int, outliers: Mask
    ) -> list[tuple[int, int]]:
        """Mark outliers; return where steps of channels were accepted."""
        with np.errstate(over="ignore"):
            np.greater(np.abs(values - self._center), self._limit, out=outliers)
        at = np.flatnonzero(outliers.any(axis=0) | (self._out > 0))
        if not at.size:
            return []
        out = outliers[:, at]
        length = count_streaks(out, ~(out | np.isnan(values[:, at])), self._out[at])
        self._out[at] = length[-1]
        within = length <= self._patience
        moved = np.flatnonzero(~within.all(axis=0))
        return [self._accept_step(int(at[i]), start, int(within[:, i].argmin()), outliers) for i in moved]

    def _accept_step(self, channel: int, start: int, row: int, outliers: Mask) -> tuple[int, int]:
        """Accept all samples of a channel from a row on."""
        outliers[row:, channel] = False
        self._kept[: np.searchsorted(self._rows, start % self._cell + row), channel] = np.nan
        self._limit[channel] = np.inf
        self._out[channel] = 0
        return start + row, channel

    def _finish_cell(self) -> None:
        """Compute median and deviation of the finished cell, and begin the next one."""
        self._center, n_good = _compute_medians(self._kept)
        with np.errstate(over="ignore"):
            deviation, _ = _compute_medians(np.abs(self._kept - self._center))
            self._limit = self._threshold * deviation
        is_constant = ~(
            deviation > _ROUNDING * self._eps * np.abs(self._center)
        )  # NaN if no sample was good
        self._limit[is_constant | (2 * n_good < len(self._kept))] = np.inf
        self._kept[:] = np.nan


def count_streaks(counted: Mask, ending: Mask, before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of rows counted since the last one that ends a streak, for each column.

    Parameters
    ----------
    counted, ending : ndarray of shape (rows, columns)
        A row that is neither is ignored.
    before : ndarray of shape (columns,)
        Length of the streak that ends before the first row.

    Returns
    -------
    ndarray of shape (rows, columns)
    """
    total = before + np.cumsum(counted, axis=0)
    ended: NDArray[np.int64] = np.maximum.accumulate(np.where(ending, total, 0), axis=0)
    return total - ended


def _split_cells(start: int, stop: int, cell: int) -> Iterator[tuple[int, int]]:
    """Split a range of indices at the ends of cells."""
    while start < stop:
        end = min(stop, (start // cell + 1) * cell)
        yield start, end
        start = end


def _choose_rows(n_samples: int) -> NDArray[np.int64]:
    """Return irregularly spaced rows of a cell; with regular spacing, hum may look constant."""
    n_rows = min(n_samples, _ROWS)
    stride = n_samples // n_rows
    jitter = np.arange(n_rows) * _GOLDEN % 1.0
    return np.arange(n_rows) * stride + (jitter * stride).astype(np.int64)


def _compute_medians(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the lower median of each column, ignoring NaN, and the number of its values."""
    n_good = len(values) - np.isnan(values).sum(axis=0)
    middle = np.maximum(n_good - 1, 0) // 2
    return np.take_along_axis(np.sort(values, axis=0), middle[None], axis=0)[0], n_good
