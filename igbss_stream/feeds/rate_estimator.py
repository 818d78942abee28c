"""Estimate the actual sampling rate of a stream from the timestamps of its samples.

Single timestamps cannot be trusted: senders stamp whole blocks, and space the samples in them by the
nominal rate. Points are therefore the medians of many samples, such as a second. The period is the median
of the slopes between all pairs of points without a gap between them, so that neither a burst nor an
undetected loss shifts it.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_POINTS = 32  # kept; the work for each new point is bounded
_FEWEST_PAIRS = 6  # those of four points in a row


class RateEstimate(NamedTuple):
    """Estimate of a sampling rate.

    Parameters
    ----------
    rate : float
        In Hz.
    error : float
        Relative error that the scatter of the points allows.
    span : float
        Seconds between the first and the last point of the longest part without a gap.
    """

    rate: float
    error: float
    span: float


class RateEstimator:
    """Estimate a sampling rate from the last 32 points.

    Parameters
    ----------
    tolerance : float
        Largest error of a timestamp, in seconds. Points that are further out of line begin another segment.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._segment = 0
        self._points: deque[tuple[int, float, float]] = deque(maxlen=_POINTS)

    def add(self, index: NDArray[np.float64], times: NDArray[np.float64], rate: float) -> None:
        """Add samples as one point.

        Parameters
        ----------
        index, times : array of shape (samples,)
            Times in seconds.
        rate : float
            Approximate rate in Hz.
        """
        center = float(np.mean(index))
        self._points.append((self._segment, center, float(np.median(times - (index - center) / rate))))

    def begin_segment(self) -> None:
        """Compare no point before a gap with one after it."""
        self._segment += 1

    def clear(self) -> None:
        """Forget all points."""
        self._points.clear()

    def estimate(self) -> RateEstimate | None:
        """Return the rate; None if there are too few points, or if time stands still."""
        if len(self._points) < 2:
            return None
        segment, index, times = np.array(self._points).T
        segment = self._split(segment, index, times)
        first, last = np.triu_indices(len(index), 1)
        same = segment[first] == segment[last]
        first, last = first[same], last[same]
        if len(first) < _FEWEST_PAIRS:
            return None
        steps, passed = index[last] - index[first], times[last] - times[first]
        period, span = float(np.median(passed / steps)), float(passed.max())
        if not (period > 0 and span > 0):
            return None
        scatter = float(np.median(np.abs(passed - period * steps)))
        return RateEstimate(1 / period, 2 * scatter / span, span)

    def _split(
        self, segment: NDArray[np.float64], index: NDArray[np.float64], times: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return segments that also end at jumps of the times."""
        steps, passed = np.diff(index), np.diff(times)
        same = np.diff(segment) == 0
        if not same.any():
            return segment
        period = np.median(passed[same] / steps[same])
        jumps = same & (np.abs(passed - period * steps) > max(self._tolerance, float(period)))
        split: NDArray[np.float64] = segment + np.concatenate([[0.0], np.cumsum(jumps)])
        return split
