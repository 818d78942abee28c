"""Find single samples that are far from what the other channels predict."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.preparation.bad_channels.predictor import Array, ChannelPredictor, Mask

_CELLS_TO_LEARN = 8  # before which no sample is a leap
_TIMES_USUAL = 3.0  # of the largest deviation so far
_LEAST = 15.0  # standard deviations
_TIMES_OTHERS = 10.0  # of the median of the channels: muscle makes all of them hard to predict
_MOST_AT_ONCE = 4  # of how many channels at most one can leap: more are an event of all


class LeapDetector:
    """Compare samples with the prediction by the other channels.

    Parameters
    ----------
    predictor : ChannelPredictor
    n_channels : int
    patience : int
        Number of samples after a leap in which a channel is not trusted: it may pass through what is usual.
    """

    def __init__(self, predictor: ChannelPredictor, n_channels: int, patience: int) -> None:
        self._predictor, self._patience = predictor, patience
        self._n_since = np.full(n_channels, patience, np.int64)  # samples since the last leap
        self._largest = np.zeros(n_channels)  # deviation of a sample in this cell
        self._usual = np.zeros(n_channels)
        self._n_cells = 0

    def find(self, x: NDArray[Any], left_out: Mask) -> Mask:
        """Return which samples are leaps.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Finite.
        left_out : ndarray of shape (channels,)

        Returns
        -------
        ndarray of shape (samples, channels)
            None in rows where more than a quarter of the channels would be one.
        """
        leaps = np.zeros(x.shape, bool)
        if self._predictor.n_cells < 2:
            return leaps
        deviation = self._predictor.compute_deviations(x, left_out)
        self._largest = np.maximum(self._largest, np.abs(deviation).max(axis=0))
        if self._n_cells >= _CELLS_TO_LEARN:
            most = int((~left_out).sum()) // _MOST_AT_ONCE
            self._mark(
                x, np.arange(len(x)), np.full(len(x), np.inf), np.abs(deviation), left_out, leaps, most
            )
        return leaps

    def extend(self, leaps: Mask) -> Mask:
        """Return leaps with the samples after them, of the next samples of the stream."""
        if not leaps.any() and (self._n_since >= self._patience).all():
            return leaps
        rows = np.arange(len(leaps))[:, None]
        latest = np.maximum.accumulate(np.where(leaps, rows, -1 - self._n_since), axis=0)
        n_since = rows - latest
        self._n_since = np.minimum(n_since[-1], self._patience)
        return np.asarray(n_since < self._patience)

    def skip(self) -> None:
        """Note that a cell is incomplete: nothing is learned from it."""
        self._largest[:] = 0.0

    def finish_cell(self, good: Mask) -> None:
        """End a cell, and learn what is usual from the channels that were good in it."""
        if self._predictor.n_cells >= 2:
            self._usual[good] = np.maximum(self._usual, self._largest)[good]
            self._n_cells += 1
        self._largest[:] = 0.0

    def _mark(
        self,
        x: NDArray[Any],
        rows: NDArray[np.int_],
        least: Array,
        distance: Array,
        left_out: Mask,
        leaps: Mask,
        n_left: int,
    ) -> None:
        """Mark the worst channel of each row, then judge the row without it.

        `least` is the smallest distance of the channels that were marked in a row. It must stand out from
        the distances of the others, once they are predicted without the marked channels.
        """
        ratio = distance / np.maximum(_LEAST, _TIMES_USUAL * self._usual)
        worst = ratio.argmax(axis=1)
        is_far = ratio[np.arange(len(x)), worst] > 1.0
        if not is_far.any() and np.isinf(least).all():  # nearly always
            return
        stands_out = least > _TIMES_OTHERS * np.median(distance[:, ~left_out], axis=1)
        leaps[rows[(is_far & (n_left == 0)) | (~is_far & ~stands_out)]] = False
        self._unmark_swamped(x, rows, left_out, leaps)
        far = np.flatnonzero(is_far) if n_left else np.empty(0, np.int64)
        for channel in np.unique(worst[far]):
            at = far[worst[far] == channel]
            leaps[rows[at], channel] = True
            without = left_out.copy()
            without[channel] = True
            again = np.abs(self._predictor.compute_deviations(x[at], without))
            nearest = np.minimum(least[at], distance[at, channel])
            self._mark(x[at], rows[at], nearest, again, without, leaps, n_left - 1)

    def _unmark_swamped(self, x: NDArray[Any], rows: NDArray[np.int_], left_out: Mask, leaps: Mask) -> None:
        """Unmark channels that only seemed far from others because these leap."""
        marked = leaps[rows]
        for channel in np.flatnonzero(marked.any(axis=0)) if (marked.sum(axis=1) > 1).any() else ():
            at = np.flatnonzero(marked[:, channel])
            with_it = left_out.copy()
            with_it[channel] = False
            distance = np.abs(self._predictor.compute_deviations(x[at], with_it)[:, channel])
            limit = max(_LEAST, _TIMES_USUAL * float(self._usual[channel]))
            leaps[rows[at[distance <= limit]], channel] = False
