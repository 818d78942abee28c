"""Find single samples that are far from what the other channels predict."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import channels
from igbss_stream.preparation.bad_channels.predictor import (
    MOST_UNEXPLAINED,
    Array,
    ChannelPredictor,
    DeviationTest,
    Mask,
)

_CELLS_TO_LEARN = 8  # before which no sample is a leap
_TIMES_USUAL = 3.0  # of the largest deviation so far
_LEAST = 15.0  # standard deviations
_TIMES_OTHERS = 10.0  # of the median of the channels: muscle makes all of them hard to predict
_MOST_AT_ONCE = 4  # of how many channels at most one can leap: more are an event of all


class LeapDetector:
    """Compare samples with the prediction by the other channels.

    Parameters
    ----------
    n_channels : int
    patience : int
        Number of samples after a leap in which a channel is not trusted: it may pass through what is usual.

    Attributes
    ----------
    usual : ndarray of shape (channels,)
        Largest deviation of a sample of a good channel so far.
    n_cells : int
        Number of cells that this was learned from.
    """

    def __init__(self, n_channels: int, patience: int) -> None:
        self._patience = patience
        self._n_since = np.full(n_channels, patience, np.int64)  # samples since the last leap
        self._is_trusted = True  # whether all channels are
        self._largest = np.zeros(n_channels)  # deviation of a sample in this cell
        self._largest_used = np.zeros(0)  # the same, of the channels of the latest test
        self._test: DeviationTest | None = None
        self.usual = np.zeros(n_channels)
        self.n_cells = 0

    def set_usual(self, usual: Array, n_cells: int) -> None:
        """Set what is usual, as an earlier run of the stream learned it.

        Parameters
        ----------
        usual : ndarray of shape (channels,)
        n_cells : int
        """
        self.usual, self.n_cells = usual, n_cells

    def find(self, predictor: ChannelPredictor, x: NDArray[Any], left_out: Mask) -> Mask | None:
        """Return which samples are leaps.

        Parameters
        ----------
        predictor : ChannelPredictor
        x : ndarray of shape (samples, channels)
            Samples of the channels that are not left out are finite.
        left_out : ndarray of shape (channels,)

        Returns
        -------
        ndarray of shape (samples, channels), or None
            None if there are none. There are none in rows where more than a quarter of the channels would
            be one.
        """
        if predictor.n_cells < 2:
            return None
        test = self._set_test(predictor.get_test(left_out))
        deviation = predictor.compute_deviations(x, test)
        if not channels.find_largest(deviation, self._limit, self._largest_used):  # nearly always
            return None
        leaps, distance = np.zeros(x.shape, bool), np.zeros(x.shape)
        distance[:, test.channels] = np.abs(deviation)
        most = int((~left_out).sum()) // _MOST_AT_ONCE
        clean = np.where(left_out, 0, x).astype(x.dtype)
        _Marking(predictor, clean, self._get_limits, leaps).mark(
            np.arange(len(x)), np.full(len(x), np.inf), distance, left_out, most
        )
        return leaps if leaps.any() else None

    def extend(self, leaps: Mask | None, n_samples: int) -> Mask | None:
        """Return leaps with the samples after them, of the next samples of the stream."""
        if leaps is None:
            if self._is_trusted:  # nearly always
                return None
            leaps = np.zeros((n_samples, len(self._n_since)), bool)
        rows = np.arange(n_samples)[:, None]
        latest = np.maximum.accumulate(np.where(leaps, rows, -1 - self._n_since), axis=0)
        n_since = rows - latest
        self._n_since = np.minimum(n_since[-1], self._patience)
        self._is_trusted = bool((self._n_since >= self._patience).all())
        return np.asarray(n_since < self._patience)

    def skip(self) -> None:
        """Note that a cell is incomplete: nothing is learned from it."""
        self._set_test(None)
        self._largest[:] = 0.0

    def finish_cell(self, good: Mask, *, is_learned: bool) -> None:
        """End a cell, and learn what is usual from the channels that were good in it.

        Parameters
        ----------
        good : ndarray of shape (channels,)
        is_learned : bool
            Whether deviations were measured in the cell.
        """
        self._set_test(None)
        if is_learned:
            self.usual[good] = np.maximum(self.usual, self._largest)[good]
            self.n_cells += 1
        self._largest[:] = 0.0

    def _set_test(self, test: DeviationTest | None) -> Any:
        """Take a test into use; what the previous one found is kept."""
        if test is self._test:
            return test
        if self._test is not None:
            found = self._largest[self._test.channels]
            self._largest[self._test.channels] = np.maximum(found, self._largest_used)
        self._test = test
        if test is not None:
            self._largest_used = np.zeros(len(test.channels))
            self._limit = self._get_limits(test)
        return test

    def _get_limits(self, test: DeviationTest) -> Array:
        """Return the largest deviation of each channel of a test that is no leap."""
        if self.n_cells < _CELLS_TO_LEARN:
            return np.full(len(test.channels), np.inf)
        limit = np.maximum(_LEAST, _TIMES_USUAL * self.usual[test.channels])
        return np.where(test.unexplained > MOST_UNEXPLAINED, np.inf, limit)


class _Marking:
    """Mark the leaps of some samples.

    Parameters
    ----------
    predictor : ChannelPredictor
    x : ndarray of shape (samples, channels)
    get_limits : callable
        Returns the limits of the channels of a test.
    leaps : ndarray of shape (samples, channels)
        To be filled.
    """

    def __init__(self, predictor: ChannelPredictor, x: NDArray[Any], get_limits: Any, leaps: Mask) -> None:
        self._predictor, self._x, self._get_limits, self._leaps = predictor, x, get_limits, leaps

    def mark(
        self, rows: NDArray[np.int_], least: Array, distance: Array, left_out: Mask, n_left: int
    ) -> None:
        """Mark the worst channel of each row, then judge the row without it.

        `least` is the smallest distance of the channels that were marked in a row. It must stand out from
        the distances of the others, once they are predicted without the marked channels.
        """
        ratio = distance / self._spread_limits(left_out)
        worst = ratio.argmax(axis=1)
        is_far = ratio[np.arange(len(rows)), worst] > 1.0
        if not is_far.any() and np.isinf(least).all():
            return
        stands_out = least > _TIMES_OTHERS * np.median(distance[:, ~left_out], axis=1)
        self._leaps[rows[(is_far & (n_left == 0)) | (~is_far & ~stands_out)]] = False
        self._unmark_swamped(rows, left_out)
        far = np.flatnonzero(is_far) if n_left else np.empty(0, np.int64)
        for channel in np.unique(worst[far]):
            at = far[worst[far] == channel]
            self._leaps[rows[at], channel] = True
            without = left_out.copy()
            without[channel] = True
            again = self._measure(rows[at], without)
            nearest = np.minimum(least[at], distance[at, channel])
            self.mark(rows[at], nearest, again, without, n_left - 1)

    def _measure(self, rows: NDArray[np.int_], left_out: Mask) -> Array:
        """Return the distances of rows, (rows, channels); 0 for channels that do not take part."""
        test = self._predictor.get_test(left_out)
        distance = np.zeros((len(rows), self._x.shape[1]))
        distance[:, test.channels] = np.abs(self._predictor.compute_deviations(self._x[rows], test))
        return distance

    def _spread_limits(self, left_out: Mask) -> Array:
        test = self._predictor.get_test(left_out)
        limits = np.full(len(left_out), np.inf)
        limits[test.channels] = self._get_limits(test)
        return limits

    def _unmark_swamped(self, rows: NDArray[np.int_], left_out: Mask) -> None:
        """Unmark channels that only seemed far from others because these leap."""
        marked = self._leaps[rows]
        for channel in np.flatnonzero(marked.any(axis=0)) if (marked.sum(axis=1) > 1).any() else ():
            at = np.flatnonzero(marked[:, channel])
            with_it = left_out.copy()
            with_it[channel] = False
            distance = self._measure(rows[at], with_it)[:, channel]
            limit = self._spread_limits(with_it)[channel]
            self._leaps[rows[at[distance <= limit]], channel] = False
