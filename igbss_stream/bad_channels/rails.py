"""Count the samples that stay at an extreme of their channel, as at the limit of an amplifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_ENTRY = 3.0  # steps: a slow wave reaches its crest, which repeats too, by the smallest step there is


class RailCount:
    """Number of samples at the extremes of each channel, for samples that arrive block by block.

    Samples at which half of the channels repeat are not counted: no channel is then at fault.

    Parameters
    ----------
    n_channels : int
    """

    def __init__(self, n_channels: int) -> None:
        self._low, self._high = np.full(n_channels, np.inf), np.full(n_channels, -np.inf)
        self._n_low, self._n_high = np.zeros(n_channels, np.int64), np.zeros(n_channels, np.int64)
        self._has_more = np.zeros(n_channels, bool)  # values between the extremes
        self._last = np.full(n_channels, np.nan)
        self._entry = np.zeros(n_channels)  # size of the last change
        self._quantum = np.full(n_channels, np.inf)  # smallest change so far

    @property
    def n_repeated(self) -> NDArray[np.int64]:
        """Number of samples equal to an extreme and to the sample before them, (channels,).

        Zero for channels with two values or fewer: they are flat, or digital.
        """
        return np.where(self._has_more, self._n_low + self._n_high, 0)

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels), not empty; NaN does not count."""
        values = np.concatenate((self._last[None], x.astype(np.float64)))
        with np.errstate(invalid="ignore"):
            self._extend_range(values)
            steps = np.abs(np.diff(values, axis=0))
        repeats = steps == 0
        counted = repeats & self._is_entered_by_leap(steps)
        counted &= (2 * repeats.sum(axis=1) < repeats.shape[1])[:, None]
        self._n_low += (counted & (values[1:] == self._low)).sum(axis=0)
        self._n_high += (counted & (values[1:] == self._high)).sum(axis=0)
        self._last = values[-1]

    def _extend_range(self, values: Array) -> None:
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        is_lower, is_higher = low < self._low, high > self._high
        self._has_more |= (self._low < self._high) & (is_lower | is_higher)  # not at first: inf > -inf
        self._low, self._high = np.fmin(self._low, low), np.fmax(self._high, high)
        self._n_low[is_lower], self._n_high[is_higher] = 0, 0
        self._has_more |= ((values > self._low) & (values < self._high)).any(axis=0)

    def _is_entered_by_leap(self, steps: Array) -> NDArray[np.bool_]:
        """Return where the last change of a channel was larger than its smallest, (samples, channels)."""
        is_change = steps > 0  # not for NaN
        sizes = np.concatenate((self._quantum[None], np.where(is_change, steps, np.inf)))
        quantum = np.minimum.accumulate(sizes, axis=0)[1:]
        rows = np.arange(1, len(steps) + 1)[:, None]
        latest = np.maximum.accumulate(np.where(is_change, rows, 0), axis=0)
        entry = np.take_along_axis(np.concatenate((self._entry[None], steps)), latest, axis=0)
        self._quantum, self._entry = quantum[-1], entry[-1]
        return np.asarray(entry > _LEAST_ENTRY * quantum)
