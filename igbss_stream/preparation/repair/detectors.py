"""What is watched in each channel of a live stream: samples that stand out, and channels that rest.

Both watches work on cells of a grid of the sample index, and change what they know at the ends of cells
alone: what they say of a sample does not depend on how the stream is cut into chunks.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
State = dict[str, NDArray[Any]]
Change = tuple[int, int, bool]

_MEDIAN_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, for a Gaussian
_ROUNDING = 4.0  # what moves by no more than this many rounding errors rests, as in a survey
_CELLS = 4  # that a channel must rest in to be flat
_ROWS = 256  # that medians are taken over: they are then within a few percent
_GOLDEN = 0.6180339887498949


class _Detector:
    """What both watches have in common: the arrays that must be known to go on."""

    _prefix: ClassVar[str]
    _learned: ClassVar[tuple[str, ...]]

    @property
    def state(self) -> State:
        """All that was learned, as arrays that are not shared."""
        return {f"{self._prefix}_{name}": getattr(self, f"_{name}").copy() for name in self._learned}

    def restore(self, state: State, start: int) -> None:
        """Go on from a state, at the index `start`."""
        for name in self._learned:
            setattr(self, f"_{name}", state[f"{self._prefix}_{name}"].copy())
        self._look_on(start)

    def _look_on(self, start: int) -> None:
        """Find one's place in the grid."""


class FlatDetector(_Detector):
    """Finds channels that do not move beyond the rounding of their type.

    A channel rests in a cell if none of its samples moves away from the sample it was first compared with;
    it is flat after four cells, and until it moves.

    Parameters
    ----------
    n_samples : int
        How long a channel must rest; it is then flat at the end of the cell, a quarter of this.
    n_channels : int
    eps : float
        Rounding of the type of the samples, relative to their size.
    """

    _prefix = "flat"
    _learned = ("flat", "anchor", "moved", "heard", "rested")

    def __init__(self, n_samples: int, n_channels: int, eps: float) -> None:
        self._flat = np.zeros(n_channels, bool)
        self._tolerance = _ROUNDING * eps
        self._cell = -(-n_samples // _CELLS)
        self._anchor = np.full(n_channels, np.nan)  # what a channel is compared with
        self._moved = np.ones(n_channels, bool)  # in this cell
        self._heard = np.zeros(n_channels, bool)  # in this cell
        self._rested = np.zeros(n_channels, np.int64)  # number of cells
        self._still = np.flatnonzero(~self._moved)
        self._end = 0

    @property
    def flat(self) -> Mask:
        """Which channels are flat."""
        return self._flat.copy()

    def begin(self, start: int) -> None:
        """Forget all but which channels are flat; a cell that has begun does not count."""
        self._anchor[:] = np.nan
        self._moved[:] = start % self._cell != 0
        self._heard[:] = False
        self._rested[:] = 0
        self._look_on(start)

    def update(self, x: NDArray[Any], start: int, bad: Mask | None) -> list[Change]:
        """Take in samples that follow on the last ones, and return where channels became flat or moved.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        start : int
        bad : ndarray of shape (samples, channels), optional
            Samples that do not count.

        Returns
        -------
        list of (index, channel, is_flat)
        """
        stop = start + len(x)
        changes: list[Change] = []
        if stop < self._end and not self._still.size:
            return changes
        for first, last in _split_cells(start, stop, self._cell):
            part = slice(first - start, last - start)
            if self._still.size:
                changes += self._compare(x[part], first, None if bad is None else bad[part])
            if last == self._end:
                changes += self._close(last)
        return changes

    def skip(self, start: int, n_samples: int) -> list[Change]:
        """Go on after samples that are missing; return what `update` does."""
        stop = start + n_samples
        changes = self._close(self._end) if stop >= self._end else []
        self._look_on(stop)
        return changes

    def _compare(self, x: NDArray[Any], start: int, bad: Mask | None) -> list[Change]:
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
        woken = np.flatnonzero(moved & self._flat[at])
        self._flat[at[woken]] = False
        return [(start + int(moves[:, i].argmax()), int(at[i]), False) for i in woken]

    def _close(self, stop: int) -> list[Change]:
        self._rested = np.where(self._moved, 0, self._rested + self._heard)
        new = np.flatnonzero((self._rested >= _CELLS) & ~self._flat)
        self._flat[new] = True
        self._anchor[self._moved] = np.nan
        self._moved[:] = self._heard[:] = False
        self._look_on(stop)
        return [(stop - 1, int(channel), True) for channel in new]

    def _look_on(self, start: int) -> None:
        self._end = (start // self._cell + 1) * self._cell
        self._still = np.flatnonzero(~self._moved)


class OutlierDetector(_Detector):
    """Finds samples that lie further from the median of their channel than others do.

    Median and median absolute deviation of a cell hold in the next one. Outliers count in them like any
    sample: up to half of a cell does no harm. A channel is not judged where less than half of a cell was
    good, or where it rests for half of it, as a trigger does.

    Parameters
    ----------
    threshold : float
        In robust standard deviations, 1.4826 times the median absolute deviation.
    n_samples : int
        Length of a cell.
    patience : int
        A channel that stays out for more samples has moved, e.g. with its electrode: it is not judged for
        the rest of the cell, and learned anew.
    n_channels : int
    eps : float
        Rounding of the type of the samples, relative to their size.
    """

    _prefix = "outlier"
    _learned = ("kept", "center", "limit", "out")

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
        self._out = np.zeros(n_channels, np.int64)  # number of outliers since the last sample that is none

    def begin(self) -> None:
        """Forget all."""
        self._kept[:] = np.nan
        self._limit[:] = np.inf
        self._out[:] = 0

    def update(
        self, x: NDArray[Any], start: int, bad: Mask | None
    ) -> tuple[Mask | None, list[tuple[int, int]]]:
        """Take in samples that follow on the last ones, and judge them.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        start : int
        bad : ndarray of shape (samples, channels), optional
            Samples that do not count: those that are not finite, at least.

        Returns
        -------
        outliers : ndarray of shape (samples, channels), or None if there are none
        steps : list of (index, channel)
            Where a channel that had moved was accepted.
        """
        outliers = np.zeros(x.shape, bool)
        steps: list[tuple[int, int]] = []
        for first, last in _split_cells(start, start + len(x), self._cell):
            part = slice(first - start, last - start)
            values = x[part].astype(np.float64)
            if bad is not None:
                values[bad[part]] = np.nan
            self._keep(values, first)
            steps += self._judge(values, first, outliers[part])
            if last % self._cell == 0:
                self._learn()
        return (outliers if outliers.any() else None), steps

    def skip(self, start: int, n_samples: int) -> None:
        """Go on after samples that are missing."""
        ends = (start + n_samples) // self._cell - start // self._cell
        for _ in range(min(ends, 2)):  # more cells without a sample have nothing to say
            self._learn()

    def _keep(self, values: NDArray[np.float64], start: int) -> None:
        at = start % self._cell
        first, last = np.searchsorted(self._rows, (at, at + len(values)))
        self._kept[first:last] = values[self._rows[first:last] - at]

    def _judge(self, values: NDArray[np.float64], start: int, outliers: Mask) -> list[tuple[int, int]]:
        """Mark outliers; return where channels were accepted."""
        with np.errstate(over="ignore"):
            np.greater(np.abs(values - self._center), self._limit, out=outliers)
        at = np.flatnonzero(outliers.any(axis=0) | (self._out > 0))
        if not at.size:
            return []
        out = outliers[:, at]
        length = count_streaks(out, ~(out | np.isnan(values[:, at])), self._out[at])
        self._out[at] = length[-1]
        patient = length <= self._patience
        moved = np.flatnonzero(~patient.all(axis=0))
        return [self._accept(int(at[i]), start, int(patient[:, i].argmin()), outliers) for i in moved]

    def _accept(self, channel: int, start: int, row: int, outliers: Mask) -> tuple[int, int]:
        """Take a channel as it is from a row on."""
        outliers[row:, channel] = False
        self._kept[: np.searchsorted(self._rows, start % self._cell + row), channel] = np.nan
        self._limit[channel] = np.inf
        self._out[channel] = 0
        return start + row, channel

    def _learn(self) -> None:
        """Take median and deviation from the cell that ends, and begin another."""
        self._center, n_good = _compute_medians(self._kept)
        with np.errstate(over="ignore"):
            deviation, _ = _compute_medians(np.abs(self._kept - self._center))
            self._limit = self._threshold * deviation
        rests = ~(deviation > _ROUNDING * self._eps * np.abs(self._center))  # NaN: nothing was good
        self._limit[rests | (2 * n_good < len(self._kept))] = np.inf
        self._kept[:] = np.nan


def count_streaks(counted: Mask, ending: Mask, before: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rows were counted since the last one that ends a streak, column by column.

    Parameters
    ----------
    counted, ending : ndarray of shape (rows, columns)
        A row may be neither: it is passed over.
    before : ndarray of shape (columns,)
        Length of the streak before the first row.

    Returns
    -------
    ndarray of shape (rows, columns)
    """
    total = before + np.cumsum(counted, axis=0)
    ended: NDArray[np.int64] = np.maximum.accumulate(np.where(ending, total, 0), axis=0)
    return total - ended


def _split_cells(start: int, stop: int, cell: int) -> Iterator[tuple[int, int]]:
    """Cut a range of indices at the ends of cells."""
    while start < stop:
        end = min(stop, (start // cell + 1) * cell)
        yield start, end
        start = end


def _choose_rows(n_samples: int) -> NDArray[np.int64]:
    """Return rows all over a cell, at distances in step with no period: hum would look constant."""
    n_rows = min(n_samples, _ROWS)
    stride = n_samples // n_rows
    jitter = np.arange(n_rows) * _GOLDEN % 1.0
    return np.arange(n_rows) * stride + (jitter * stride).astype(np.int64)


def _compute_medians(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the lower median of each column, NaN left out, and of how many values it is."""
    n_good = len(values) - np.isnan(values).sum(axis=0)
    middle = np.maximum(n_good - 1, 0) // 2
    return np.take_along_axis(np.sort(values, axis=0), middle[None], axis=0)[0], n_good
