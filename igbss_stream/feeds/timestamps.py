"""Index samples by their order, and find missing samples by their timestamps.

For a stream that keeps its order and does not number its samples, such as LSL. Timestamps are used only to
find missing samples. A sample is late if its timestamp exceeds the time of its index by more than the
tolerance; late samples are held back. If a later sample is on time again, the late ones only have late
timestamps (a burst). If all samples of `settle` seconds are late, the smallest lateness among them is the
number of missing samples. If they are early, or late by more than `max_gap` samples, the clock was set. A
slow average of the lateness follows an actual rate that differs from the nominal one, as long as the
deviation is less than a tenth of the tolerance in a second: one percent for a tolerance of 0.1 s.

All decisions depend on samples and timestamps alone, so the output does not depend on the chunk sizes.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError

_GAIN = 0.1  # share of the mean lateness of a second that is followed
_MIN_TOLERANCE = 0.75  # samples; a single lost sample can thus be detected


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
        self._rate = rate
        self._tolerance = max(tolerance * rate, _MIN_TOLERANCE)
        self._settle = max(1, round(settle * rate))
        self._second = max(1, round(rate))
        self._max_gap = max_gap
        self._origin = math.nan  # time of index 0
        self._mean_lateness = 0.0  # in samples
        self._recent: list[float] = []  # lateness of the samples of the current second
        self._held: list[NDArray[np.generic]] = []
        self._lateness: list[float] = []  # of the samples held back
        self._interruption = ""

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
        if math.isnan(self._origin):
            self._origin = float(times[0])
        if self._interruption:
            out += self._resume(float(times[0]))
        while len(data):
            late = self._compute_lateness(times)
            outside = np.abs(late) > self._tolerance
            n_same = (
                len(late) if outside.all() or not outside.any() else int(np.argmax(outside != outside[0]))
            )
            n, found = (self._hold if outside[0] else self._accept)(data[:n_same], late[:n_same])
            out += found
            data, times = data[n:], times[n:]
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
        if not math.isnan(self._origin):
            self._interruption = reason
        return self._release()

    def flush(self) -> list[Chunk | Gap]:
        """Return the samples that are held back, as if they were on time."""
        return self._release()

    def _compute_lateness(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the lateness of each sample, in samples, relative to its mean."""
        index = self.stop + len(self._lateness) + np.arange(len(times))
        late: NDArray[np.float64] = (times - self._origin) * self._rate - index - self._mean_lateness
        return late

    def _accept(
        self, data: NDArray[np.generic], late: NDArray[np.float64]
    ) -> tuple[int, list[Chunk | Gap]]:
        """Output samples that are on time, after those that were held back."""
        n = min(len(data), self._second - len(self._recent))
        out = self._release()
        out.append(self._deliver(data[:n]))
        self._recent += late[:n].tolist()
        if len(self._recent) == self._second:
            self._mean_lateness += _GAIN * float(np.mean(self._recent))
            self._recent.clear()
        return n, out

    def _hold(self, data: NDArray[np.generic], late: NDArray[np.float64]) -> tuple[int, list[Chunk | Gap]]:
        """Hold late samples back, up to `settle` seconds of them."""
        n = min(len(data), self._settle - len(self._lateness))
        self._held.append(data[:n])
        self._lateness += late[:n].tolist()
        return n, self._declare_late() if len(self._lateness) == self._settle else []

    def _declare_late(self) -> list[Chunk | Gap]:
        """Declare the samples that are missing before those held back, and output the latter."""
        return [*self._shift(min(self._lateness, key=abs), "lost"), *self._release()]

    def _resume(self, time: float) -> list[Chunk | Gap]:
        reason, self._interruption = self._interruption, ""
        shifted = self._shift(float(self._compute_lateness(np.array([time]))[0]), reason)
        return shifted or [Gap(self.stop, 0, reason)]

    def _shift(self, late: float, reason: str) -> list[Chunk | Gap]:
        """Skip the missing samples, or follow a clock that was set."""
        n_missing = round(late)
        self._recent.clear()
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
        self._lateness.clear()
        return [self._deliver(data) for data in held]

    def _deliver(self, data: NDArray[np.generic]) -> Chunk:
        chunk = Chunk(data, self.stop)
        self.stop = chunk.stop
        self.samples_out += len(data)
        return chunk
