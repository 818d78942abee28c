"""Index samples by their order, and find missing samples by their timestamps.

For a stream that keeps its order and does not number its samples, such as LSL. Timestamps are used only to
find missing samples. A sample is late if its timestamp exceeds the time of its index by more than the
tolerance; late samples are held back. If a later sample is on time again, the late ones only have late
timestamps (a burst). If all samples of `settle` seconds are late, the smallest lateness among them is the
number of missing samples. If they are early, or late by more than `max_gap` samples, the clock was set.

The actual rate may differ from the nominal one. Small deviations are followed in two ways: by a slow
average of the lateness, and by an estimate of the rate from the samples on time, which needs four
seconds. A rate that is plainly wrong makes samples late or early before that. Their lateness then grows
while they are held, as it does after no loss. They are held up to four times as long, the rate is taken
from their times, and they are indexed again by it. Gaps are therefore counted in samples of the actual
rate.

All decisions depend on samples and timestamps alone, so the output does not depend on the chunk sizes.
"""

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.rate_estimator import RateEstimate, RateEstimator
from igbss_stream.feeds.sample_times import SampleTimes

_GAIN = 0.1  # share of the mean lateness of a second that is followed
_MIN_TOLERANCE = 0.75  # samples; a single lost sample can thus be detected
_GROWTH = 0.01  # change of the lateness, in samples per sample, of a rate that may be wrong
_LONGEST_HOLD = 4  # times `settle`, if the lateness grows
_HELD_POINTS = 8  # of the estimate from samples held back
_MOST_MEASUREMENTS = 4  # of samples held back, in `settle` seconds of output
_SMALLEST_CHANGE = 0.002  # of the rate, relative; the average of the lateness follows smaller ones
_LARGEST_FACTOR = 8  # between the nominal rate and one that is followed; bounds memory
_REPORTED_CHANGE = 0.005  # of the rate, relative
_REPORTED_SPAN = 8.0  # seconds of points that give three digits of a rate


class TimestampIndexer:
    """Index samples by their order, and declare missing ones by their timestamps.

    Parameters
    ----------
    rate : float
        Nominal sampling rate in Hz.
    tolerance : float
        Largest error of a timestamp, in seconds.
    settle : float
        Seconds of samples that must be late before samples are declared missing.
    max_gap : int
        Largest gap, in samples.

    Attributes
    ----------
    stop : int
        Index after the last sample that was output or declared missing.
    samples_in, samples_out, samples_lost : int
        ``samples_in = samples_out +`` samples held back; ``stop = samples_out + samples_lost``.
    restarts : int
        Number of times that the clock was set.
    measured_rate : float or None
        Actual rate in Hz, if it is certain that it differs from the nominal one.
    times : SampleTimes
        The times of the samples that were output.

    Raises
    ------
    ParameterError
        If a number is not valid.
    """

    def __init__(
        self, rate: float, *, tolerance: float = 0.1, settle: float = 1.0, max_gap: int = 1 << 22
    ) -> None:
        for name, value in (("tolerance", tolerance), ("settle", settle)):
            if not 0 <= value < float("inf"):
                raise ParameterError(f"{name} must be 0 s or more. Got {value!r} instead.", parameter=name)
        self.stop = self.samples_in = self.samples_out = self.samples_lost = self.restarts = 0
        self.measured_rate: float | None = None
        self._nominal_rate = rate
        self._tolerance_time, self._settle_time = tolerance, settle
        self._max_gap = max_gap
        self._anchor_index, self._anchor_time = 0, math.nan  # a sample that was exactly on time
        self._mean_lateness = 0.0  # in samples
        self._recent_index: list[int] = []  # of the samples on time in the current second
        self._recent_times: list[float] = []
        self._held: list[tuple[NDArray[np.generic], NDArray[np.float64]]] = []
        self._n_held = 0
        self._is_early = False  # whether the first of the samples held back was early
        self._again: tuple[NDArray[np.generic], NDArray[np.float64]] | None = None  # to be indexed anew
        self._measured_from = self._n_measured = 0  # index, and measurements of samples held since
        self._interruption = ""
        self._estimator = RateEstimator(tolerance)
        self.times = SampleTimes()
        self._last_times: deque[float] = deque()  # of the last samples that were output
        self._set_rate(rate)

    def push(self, data: NDArray[np.generic], times: NDArray[np.float64]) -> list[Chunk | Gap]:
        """Add samples; return the samples and gaps that are certain.

        Parameters
        ----------
        data : array of shape (samples, channels)
        times : array of shape (samples,)
            In seconds, of any steady clock.

        Returns
        -------
        list of Chunk and Gap
        """
        if not len(data):
            return []
        self.samples_in += len(data)
        out: list[Chunk | Gap] = []
        if math.isnan(self._anchor_time):
            self._anchor_time = float(times[0])
        if self._interruption:
            out += self._resume(float(times[0]))
        while len(data):
            late = self._compute_lateness(times, self.stop + self._n_held + np.arange(len(times)))
            outside = np.abs(late) > self._tolerance
            if not self._n_held:
                self._is_early = bool(late[0] < -self._tolerance)
            if self._is_early:
                outside[:] = True  # no burst: times that pass by the right ones prove nothing
            n_same = (
                len(late) if outside.all() or not outside.any() else int(np.argmax(outside != outside[0]))
            )
            n, found = (self._hold if outside[0] else self._accept)(data[:n_same], times[:n_same])
            out += found
            data, times = data[n:], times[n:]
            if self._again is not None:
                again, self._again = self._again, None
                data, times = np.concatenate([again[0], data]), np.concatenate([again[1], times])
        return out

    def interrupt(self, reason: str) -> list[Chunk | Gap]:
        """Note an interruption; the next timestamp determines the number of missing samples.

        Parameters
        ----------
        reason : str
            Reason of the gap.

        Returns
        -------
        list of Chunk and Gap
            The samples that were held back.
        """
        if not math.isnan(self._anchor_time):
            self._interruption = reason
        return self._release()

    def flush(self) -> list[Chunk | Gap]:
        """Return the samples that are held back, as if they were on time."""
        return self._release()

    def _compute_lateness(
        self, times: NDArray[np.float64], index: NDArray[np.int_] | NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the lateness of each sample, in samples, relative to its mean."""
        late: NDArray[np.float64] = (
            (times - self._anchor_time) * self._rate - (index - self._anchor_index) - self._mean_lateness
        )
        return late

    def _accept(
        self, data: NDArray[np.generic], times: NDArray[np.float64]
    ) -> tuple[int, list[Chunk | Gap]]:
        """Output samples that are on time, after those that were held back."""
        n = min(len(data), self._second - len(self._recent_times))
        out = self._release()
        self._recent_index += range(self.stop, self.stop + n)
        self._recent_times += times[:n].tolist()
        out.append(self._deliver(data[:n], times[:n]))
        if len(self._recent_times) == self._second:
            self._follow_clock()
        return n, out

    def _follow_clock(self) -> None:
        """Adjust the mean lateness and the rate to a second of samples on time."""
        index, times = np.array(self._recent_index, dtype=np.float64), np.array(self._recent_times)
        self._clear_recent()
        self._mean_lateness += _GAIN * float(np.mean(self._compute_lateness(times, index)))
        self._estimator.add(index, times, self._rate)
        estimate = self._estimator.estimate()
        if estimate is None:
            return
        if self._differs(estimate):
            self._set_rate(estimate.rate)
        deviation = abs(estimate.rate / self._nominal_rate - 1)
        certain = max(_REPORTED_CHANGE, estimate.error, self._tolerance_time / estimate.span)
        if estimate.span >= _REPORTED_SPAN and deviation > certain:
            self.measured_rate = estimate.rate

    def _differs(self, estimate: RateEstimate) -> bool:
        """Return whether an estimate contradicts the rate in use, and can be followed."""
        if not 1 / _LARGEST_FACTOR <= estimate.rate / self._nominal_rate <= _LARGEST_FACTOR:
            return False
        # The slow drift of a timestamp within the tolerance is no deviation of the rate.
        error = max(_SMALLEST_CHANGE, estimate.error, self._tolerance_time / 2 / estimate.span)
        return abs(estimate.rate / self._rate - 1) > error

    def _set_rate(self, rate: float) -> None:
        """Use another rate, by which the last samples that were output are on time."""
        if self._last_times:
            index = np.arange(self.stop - len(self._last_times), self.stop)
            times = np.array(self._last_times) + (self.stop - index) / rate
            self._anchor_index, self._anchor_time = self.stop, float(np.median(times))
            self._mean_lateness = 0.0
        self._rate = rate
        self._tolerance = max(self._tolerance_time * rate, _MIN_TOLERANCE)
        self._settle = max(1, round(self._settle_time * rate))
        self._second = max(1, round(rate))
        self._n_last = max(1, self._second // 8)
        self._last_times = deque(self._last_times, maxlen=self._n_last)

    def _hold(self, data: NDArray[np.generic], times: NDArray[np.float64]) -> tuple[int, list[Chunk | Gap]]:
        """Hold samples back that are late or early, and decide at each full `settle` seconds of them."""
        n = min(len(data), self._settle - self._n_held % self._settle)
        self._held.append((data[:n], times[:n]))
        self._n_held += n
        return n, [] if self._n_held % self._settle else self._decide()

    def _decide(self) -> list[Chunk | Gap]:
        """Tell a loss, after which the lateness stays the same, from a wrong rate, by which it grows."""
        times = np.concatenate([times for _, times in self._held])
        late = self._compute_lateness(times, self.stop + np.arange(len(times)))
        last = late[-self._settle :]
        half = self._settle // 2
        if half and abs(np.mean(last[half:]) - np.mean(last[:half])) > _GROWTH * half:
            if self._n_held < _LONGEST_HOLD * self._settle:
                return []
            if self._measure_held(times):
                return []
        off = min(last.tolist(), key=abs)
        return [*(self._shift(off, "lost") if abs(off) > self._tolerance else []), *self._release()]

    def _measure_held(self, times: NDArray[np.float64]) -> bool:
        """Take the rate from samples held back, to index them again; return whether it is another one."""
        # The rates of uneven times may contradict each other for ever.
        if self.stop >= self._measured_from + self._settle:
            self._measured_from, self._n_measured = self.stop, 0
        if self._n_measured == _MOST_MEASUREMENTS:
            return False
        estimator = RateEstimator(self._tolerance_time)
        index = np.arange(len(times), dtype=np.float64)
        for part in np.array_split(np.arange(len(times)), _HELD_POINTS):
            if len(part):
                estimator.add(index[part], times[part], self._rate)
        estimate = estimator.estimate()
        if estimate is None or not self._differs(estimate):
            return False
        self._again = np.concatenate([data for data, _ in self._held]), times
        self._held.clear()
        self._n_held = 0
        self._estimator.clear()
        self._clear_recent()
        self._set_rate(estimate.rate)
        self._n_measured += 1
        return True

    def _resume(self, time: float) -> list[Chunk | Gap]:
        reason, self._interruption = self._interruption, ""
        late = self._compute_lateness(np.array([time]), np.array([self.stop]))
        return self._shift(float(late[0]), reason) or [Gap(self.stop, 0, reason)]

    def _shift(self, late: float, reason: str) -> list[Chunk | Gap]:
        """Skip the missing samples, or follow a clock that was set."""
        n_missing = round(late)
        self._clear_recent()
        self._estimator.begin_segment()
        self.times.begin_segment()
        self._last_times.clear()
        if 0 <= n_missing <= self._max_gap:
            gap = Gap(self.stop, n_missing, reason)
            self.stop += n_missing
            self.samples_lost += n_missing
            return [gap] if n_missing else []
        self._mean_lateness += late
        self.restarts += 1
        return [Gap(self.stop, 0, "restart")]

    def _release(self) -> list[Chunk | Gap]:
        held, self._held = self._held, []
        self._n_held = 0
        return [self._deliver(data, times) for data, times in held]

    def _deliver(self, data: NDArray[np.generic], times: NDArray[np.float64]) -> Chunk:
        chunk = Chunk(data, self.stop)
        self.stop = chunk.stop
        self.samples_out += len(data)
        self.times.add(chunk.start, times, self._rate)
        self._last_times.extend(times[-self._n_last :].tolist())
        return chunk

    def _clear_recent(self) -> None:
        self._recent_index.clear()
        self._recent_times.clear()
