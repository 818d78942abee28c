"""From samples with times of a clock to an account of every index.

For a feed that keeps its order and does not number its samples, as LSL: a time is used only to find what is
missing. A sample that comes later than its place, by more than the tolerance, is held back. If one after
it is on time again, both were only stamped late (a burst). If `settle` seconds of samples all are late, so
many are missing as the least late of them says; if they are early, or late by more than `max_gap` samples,
the clock was set. A slow average of the lateness follows a rate that is not quite the nominal one, as long
as it strays by less than a tenth of the tolerance in a second: one percent where that is 0.1 s.

All of it goes by samples and their times, so that it does not matter how the feed is cut.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError

_GAIN = 0.1  # of the mean lateness of a second that is followed
_LEAST = 0.75  # samples of tolerance: a whole sample can always be missed


class TimestampIndexer:
    """Places samples by their order, and finds by their times what is missing.

    Parameters
    ----------
    rate : float
        Nominal rate in Hz.
    tolerance : float
        Seconds that a time may be off.
    settle : float
        Seconds of samples that must be off before something counts as missing.
    max_gap : int
        Largest number of samples that are believed to be missing at once.

    Attributes
    ----------
    stop : int
        Index after the last sample that left or was declared missing.
    samples_in, samples_out, samples_lost : int
        ``samples_in = samples_out +`` those held back; ``stop = samples_out + samples_lost``.
    restarts : int
        Times that the clock was set.

    Raises
    ------
    ParameterError
        If a number cannot be used.
    """

    def __init__(
        self, rate: float, *, tolerance: float = 0.1, settle: float = 1.0, max_gap: int = 1 << 22
    ) -> None:
        for name, value in (("tolerance", tolerance), ("settle", settle)):
            if not 0 <= value < float("inf"):
                raise ParameterError(f"{name} must be 0 s or more. Got {value!r} instead.")
        self.stop = self.samples_in = self.samples_out = self.samples_lost = self.restarts = 0
        self._rate = rate
        self._tolerance = max(tolerance * rate, _LEAST)
        self._settle = max(1, round(settle * rate))
        self._second = max(1, round(rate))
        self._max_gap = max_gap
        self._origin = math.nan  # time of index 0
        self._usual = 0.0  # lateness that is usual, in samples
        self._recent: list[float] = []  # latenesses of the second that runs
        self._held: list[NDArray[np.generic]] = []
        self._lateness: list[float] = []  # of the samples held
        self._broken = ""

    def push(self, data: NDArray[np.generic], times: NDArray[np.float64]) -> list[Chunk | Gap]:
        """Take samples in; return what is certain by now.

        Parameters
        ----------
        data : array of shape (samples, channels)
        times : array of shape (samples,)
            In seconds, of any clock that runs evenly.

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
        if self._broken:
            out += self._resume(float(times[0]))
        while len(data):
            late = self._late(times)
            outside = np.abs(late) > self._tolerance
            same = (
                len(late) if outside.all() or not outside.any() else int(np.argmax(outside != outside[0]))
            )
            n, found = (self._hold if outside[0] else self._pass)(data[:same], late[:same])
            out += found
            data, times = data[n:], times[n:]
        return out

    def interrupt(self, reason: str) -> list[Chunk | Gap]:
        """Say that the feed was cut off: what is missing is told by the first time that comes next.

        Parameters
        ----------
        reason : str
            Of the gap.

        Returns
        -------
        list of Chunk and Gap
            What was held back.
        """
        if not math.isnan(self._origin):
            self._broken = reason
        return self._release()

    def flush(self) -> list[Chunk | Gap]:
        """Return what is held back, as if it had come in time."""
        return self._release()

    def _late(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return by how many samples each comes later than usual."""
        places = self.stop + len(self._lateness) + np.arange(len(times))
        late: NDArray[np.float64] = (times - self._origin) * self._rate - places - self._usual
        return late

    def _pass(self, data: NDArray[np.generic], late: NDArray[np.float64]) -> tuple[int, list[Chunk | Gap]]:
        """Let samples go that are in time, and those that were held back before them."""
        n = min(len(data), self._second - len(self._recent))
        out = self._release()
        out.append(self._deliver(data[:n]))
        self._recent += late[:n].tolist()
        if len(self._recent) == self._second:
            self._usual += _GAIN * float(np.mean(self._recent))
            self._recent.clear()
        return n, out

    def _hold(self, data: NDArray[np.generic], late: NDArray[np.float64]) -> tuple[int, list[Chunk | Gap]]:
        n = min(len(data), self._settle - len(self._lateness))
        self._held.append(data[:n])
        self._lateness += late[:n].tolist()
        return n, self._conclude() if len(self._lateness) == self._settle else []

    def _conclude(self) -> list[Chunk | Gap]:
        """Declare what is missing before the samples that are held back."""
        return [*self._shift(min(self._lateness, key=abs), "lost"), *self._release()]

    def _resume(self, time: float) -> list[Chunk | Gap]:
        reason, self._broken = self._broken, ""
        found = self._shift(float(self._late(np.array([time]))[0]), reason)
        return found or [Gap(self.stop, 0, reason)]

    def _shift(self, late: float, reason: str) -> list[Chunk | Gap]:
        """Move on by what is missing, or follow a clock that was set."""
        missing = round(late)
        self._recent.clear()
        if 0 <= missing <= self._max_gap:
            gap = Gap(self.stop, missing, reason)
            self.stop += missing
            self.samples_lost += missing
            return [gap] if missing else []
        self._usual += late
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
