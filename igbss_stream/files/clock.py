"""Place events that a file states in seconds at the samples of a signal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import split_at_gaps
from igbss_stream.files.timing import Times

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TimedEvents:
    """Events at times of the clock of a file.

    Parameters
    ----------
    time : array of shape (events,)
        In seconds.
    label, source : sequence of str
    duration : array of shape (events,)
        In seconds.
    """

    time: Array
    label: Sequence[str]
    duration: Array
    source: Sequence[str]

    @classmethod
    def join(cls, tables: "Sequence[TimedEvents]") -> "TimedEvents":
        """Return the events of several tables."""
        return cls(
            np.concatenate([np.empty(0), *(table.time for table in tables)]),
            [text for table in tables for text in table.label],
            np.concatenate([np.empty(0), *(table.duration for table in tables)]),
            [text for table in tables for text in table.source],
        )


@dataclass(frozen=True)
class Timeline:
    """What a file states in time about a signal.

    Parameters
    ----------
    events : TimedEvents
    first : float
        Time of the first sample, in seconds.
    time_0 : float or None
        Unix time of time 0, in seconds, if the file states it.
    """

    events: TimedEvents
    first: float
    time_0: float | None


@dataclass(frozen=True, eq=False)
class SampleClock:
    """Times of some samples of a signal, between which the clock is even.

    Parameters
    ----------
    index : array of shape (n,)
        Increasing.
    time : array of shape (n,)
        In seconds.
    """

    index: Array
    time: Array

    @classmethod
    def of_start(cls, time: float) -> "SampleClock":
        """Return the clock of a signal whose first sample has a time."""
        return cls(np.zeros(1), np.array([time]))

    @classmethod
    def of_times(cls, times: Times, gaps: Sequence[Gap]) -> "SampleClock":
        """Return the clock of a signal with timestamps: those of the first and last sample of each run."""
        index, time = list[float](), list[float]()
        for run in split_at_gaps(gaps, times.n_samples):
            for row in sorted({run.start, run.stop - 1} if run.stop > run.start else ()):
                known = float(times.read(row, row + 1)[0]) / times.per_second
                if np.isfinite(known):
                    index.append(run.index + row - run.start)
                    time.append(known)
        return cls(np.array(index), np.array(time)) if index else cls.of_start(0.0)

    @classmethod
    def of_jittered_times(cls, time: Array, gaps: Sequence[Gap]) -> "SampleClock":
        """Return the clock of a signal with timestamps that jitter: a line for each run."""
        indices, times = list[float](), list[float]()
        for run in split_at_gaps(gaps, len(time)):
            n = run.stop - run.start
            if n < 1:
                continue
            x, y = np.arange(n) - (n - 1) / 2, time[run.start : run.stop]
            slope = float(x @ (y - y.mean()) / (x @ x)) if n > 1 else 0.0
            for edge in sorted({0, n - 1}):
                indices.append(run.index + edge)
                times.append(float(y.mean() + slope * x[edge]))
        return cls(np.array(indices), np.array(times))

    def find_indices(self, time: ArrayLike, rate: float) -> Array:
        """Return the indices of times, with their fractions.

        Parameters
        ----------
        time : array of shape (n,)
            In seconds.
        rate : float
            In Hz, before the first and after the last known time.
        """
        at = np.asarray(time, np.float64)
        inside = np.interp(at, self.time, self.index)
        before = self.index[0] + (at - self.time[0]) * rate
        after = self.index[-1] + (at - self.time[-1]) * rate
        return np.asarray(np.where(at < self.time[0], before, np.where(at > self.time[-1], after, inside)))
