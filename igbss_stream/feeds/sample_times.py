"""Find the index of a time between the timestamps of samples, such as that of a marker.

Timestamps jitter, so a line through those of the last half minute is the clock of the samples. Each run
without a break has a separate line; a time within a gap is between the lines of both sides.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

_SPAN = 32.0  # seconds of samples that a line follows
_BINS_PER_SECOND = 32
_SHORTEST_FIT = 4.0  # seconds that give the slope of a line; before that, it is the known rate
_MOST_SEGMENTS = 16


class _Segment:
    """Samples without a break, as means over short stretches, to which a line is fitted."""

    def __init__(self, start: int, time: float) -> None:
        self.start, self.first_time = start, time
        self.stop, self.last_time = start, time
        self.rate = 1.0  # in Hz, as known otherwise
        self._bins: deque[tuple[float, float, int]] = deque(maxlen=round(_SPAN * _BINS_PER_SECOND))
        self._open: list[NDArray[np.float64]] = []  # times of the samples that fill no bin yet
        self._n_open = 0
        self._line: tuple[float, float, float] | None = None

    def add(self, start: int, times: NDArray[np.float64], rate: float) -> None:
        """Add samples that follow."""
        self.rate, self.stop, self._line = rate, start + len(times), None
        self.last_time = max(self.last_time, float(times[-1]))
        length = max(1, round(rate / _BINS_PER_SECOND))
        self._open.append(times)
        self._n_open += len(times)
        if self._n_open < length:
            return
        pending, first = np.concatenate(self._open), self.stop - self._n_open
        n_full = len(pending) // length
        means = pending[: n_full * length].reshape(n_full, length).mean(axis=1)
        middles = first + (length - 1) / 2 + length * np.arange(n_full)
        self._bins += [(*bin, length) for bin in zip(middles.tolist(), means.tolist(), strict=True)]
        rest = pending[n_full * length :].copy()
        self._open, self._n_open = ([rest] if len(rest) else []), len(rest)

    def find(self, time: float) -> float:
        """Return the index of a time on the line."""
        if self._line is None:
            self._line = self._fit()
        mean_index, mean_time, slope = self._line
        return mean_index + slope * (time - mean_time)

    def _fit(self) -> tuple[float, float, float]:
        """Fit the line; return a point on it, as index and time, and its slope."""
        bins = list(self._bins)
        if self._n_open:
            times = np.concatenate(self._open)
            bins.append((self.stop - (len(times) + 1) / 2, float(times.mean()), len(times)))
        index, at, weight = np.array(bins).T
        mean_index = float(np.average(index, weights=weight))
        mean_time = float(np.average(at, weights=weight))
        if at[-1] - at[0] < _SHORTEST_FIT:
            return mean_index, mean_time, self.rate
        weighted = weight * (at - mean_time)
        slope = float(np.sum(weighted * (index - mean_index)) / np.sum(weighted * (at - mean_time)))
        return mean_index, mean_time, slope


class SampleTimes:
    """Relate the times of samples to their indices."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque(maxlen=_MOST_SEGMENTS)
        self._is_broken = True

    def begin_segment(self) -> None:
        """Note that the next samples do not continue those before, or that their clock was set."""
        self._is_broken = True

    def add(self, start: int, times: NDArray[np.float64], rate: float) -> None:
        """Add samples.

        Parameters
        ----------
        start : int
            Index of the first.
        times : array of shape (samples,)
            In seconds.
        rate : float
            In Hz, as far as it is known.
        """
        if not len(times):
            return
        if self._is_broken:
            self._segments.append(_Segment(start, float(times[0])))
            self._is_broken = False
        self._segments[-1].add(start, times, rate)

    def find_index(self, time: float, *, beyond: bool = False) -> float | None:
        """Return the index of a time, with a fraction if it is between two samples.

        Parameters
        ----------
        time : float
            In seconds, of the clock of the samples.
        beyond : bool
            Whether a time after the last sample has an index.

        Returns
        -------
        float or None
            None if the samples have not reached the time yet.
        """
        if not self._segments:
            return None
        after: _Segment | None = None
        for segment in reversed(self._segments):
            if time > segment.last_time:
                break
            if time >= segment.first_time - 0.5 / segment.rate:
                return segment.find(time)
            after = segment
        else:
            return self._segments[0].find(time)  # before the first sample
        if after is None:
            return segment.find(time) if beyond else None
        return _interpolate(segment, after, time)


def _interpolate(before: _Segment, after: _Segment, time: float) -> float:
    """Return the index of a time between two segments."""
    share = (time - before.last_time) / (after.first_time - before.last_time)
    ends = before.find(before.last_time), after.find(after.first_time)
    return float(ends[0] + share * (ends[1] - ends[0]))
