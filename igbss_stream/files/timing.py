"""Measure the sampling rate and the gaps of samples with timestamps."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.gaps import LONGEST_GAP, get_gap_rows, make_gaps
from igbss_stream.files.jittered_times import estimate_rate

_BLOCK = 1 << 18  # timestamps read at a time: 2 MB
_LARGEST_SHARE = 0.01  # of irregular steps; with more, the samples are uneven, not interrupted
_FEW = 8  # irregular steps that are always accepted
_JITTER = 0.25  # of a step; jitter of clocks and rounding to milliseconds are smaller
_DIFFERENT = 1e-2  # relative difference of the rates of runs
_DIGITS = 9  # significant digits of a rate; timestamps in float64 are not more precise


@dataclass(frozen=True)
class Timing:
    """Sampling rate and gaps.

    Parameters
    ----------
    rate : float
        In Hz, between the gaps.
    gaps : tuple of Gap
    n_bridged : int
        Number of timestamps that are not finite, and were taken as following the one before.
    """

    rate: float
    gaps: tuple[Gap, ...]
    n_bridged: int = 0


@dataclass(frozen=True)
class Times:
    """Timestamps that have not been read yet; see `measure_timing`.

    Parameters
    ----------
    read : callable
        Takes a start and a stop row, and returns the timestamps between them.
    n_samples : int
    per_second : float
        Time units per second.
    """

    read: Callable[[int, int], NDArray[Any]]
    n_samples: int
    per_second: float = 1.0

    def measure(self, what: str, *, quick: bool = False) -> Timing | None:
        """Return rate and gaps. If `quick`, use the first 262144 samples only."""
        n_samples = min(self.n_samples, _BLOCK) if quick else self.n_samples
        return measure_timing(self.read, n_samples, what, per_second=self.per_second)


def measure_timing(
    read: Callable[[int, int], NDArray[Any]], n_samples: int, what: str, *, per_second: float = 1.0
) -> Timing | None:
    """Return rate and gaps of samples with timestamps; None for fewer than two samples.

    Parameters
    ----------
    read : callable
        Takes a start and a stop row, and returns the timestamps between them.
    n_samples : int
    what : str
        Name of the signal, for messages.
    per_second : float
        Time units per second.

    Returns
    -------
    Timing or None

    Raises
    ------
    RecordingError
        If many timestamps are not finite, or if they decrease or are too uneven to find gaps.
    """
    if n_samples < 2:
        return None
    bridge = _Bridge(read, n_samples, what)
    step = bridge.find_step()
    if not step > 0:
        raise RecordingError(
            f"{what} has timestamps that do not increase; pass --rate{_advise(bridge.head, per_second)}"
        )
    total, n_even, places, n_odd = 0.0, 0, list[tuple[int, int, str]](), 0
    for first in range(0, n_samples - 1, _BLOCK):
        steps = bridge.compute_steps(first, min(first + _BLOCK + 1, n_samples))
        passed = np.round(steps / step)
        even = np.abs(steps - step) < _JITTER * step
        n_odd += int(np.sum(~even))
        if n_odd > max(_FEW, _LARGEST_SHARE * n_samples) or np.any((passed < 1) | (passed > LONGEST_GAP)):
            raise _make_uneven_error(steps, per_second, bridge.head, what)
        total, n_even = total + float(steps[even].sum()), n_even + int(even.sum())
        places += [(first + int(i) + 1, int(passed[i]) - 1, "missing") for i in np.flatnonzero(passed > 1)]
    if not n_even:
        raise _make_uneven_error(steps, per_second, bridge.head, what)
    error = (
        2 * float(np.spacing(bridge.largest)) / total
    )  # of float64 and of the times, such as those of Unix
    return Timing(round_rate(per_second * n_even / total, error), make_gaps(places), bridge.n_bridged)


def measure_restarts(times: NDArray[np.float64], what: str) -> Timing | None:
    """Return rate and gaps of timestamps that start again a few times; None if they are not of this kind.

    Before each restart, samples of an unknown number are missing.

    Parameters
    ----------
    times : array of shape (samples,)
    what : str
        Name of the signal, for messages.
    """
    if not np.isfinite(times).all():
        return None
    starts = np.flatnonzero(np.diff(times) < 0) + 1
    if not 0 < len(starts) <= _FEW:
        return None
    places, rates, n_longest = list[tuple[int, int, str]](), list[float](), 0
    for start, stop in itertools.pairwise([0, *starts.tolist(), len(times)]):
        run = times[start:stop]
        try:
            timing = measure_timing(partial(_slice, run), len(run), what)
        except RecordingError:
            return None
        if timing is None:
            return None
        rates.insert(0 if len(run) > n_longest else len(rates), timing.rate)
        n_longest = max(n_longest, len(run))
        places += [(start, 0, "restart")] if start else []
        places += [
            (start + row, gap.n_samples, gap.reason)
            for row, gap in zip(get_gap_rows(timing.gaps), timing.gaps, strict=True)
        ]
    if any(abs(rate - rates[0]) > _DIFFERENT * rates[0] for rate in rates):
        return None
    return Timing(rates[0], make_gaps(places))


def _slice(times: NDArray[np.float64], start: int, stop: int) -> NDArray[np.float64]:
    return times[start:stop]


def round_rate(rate: float, error: float) -> float:
    """Return the number with the fewest digits that is equal to a rate, to within its relative error."""
    rounded = (float(f"{rate:.{digits}g}") for digits in range(1, _DIGITS))
    close = (each for each in rounded if abs(each - rate) <= error * rate)
    return next(close, float(f"{rate:.{_DIGITS}g}"))


class _Bridge:
    """Steps between timestamps, some of which are not finite.

    Parameters
    ----------
    read : callable
    n_samples : int
    what : str
        See `measure_timing`.

    Attributes
    ----------
    head : array
        The first timestamps that are finite.
    largest : float
        Largest timestamp of those read as floating-point numbers.
    n_bridged : int
        Number of timestamps that are not finite.
    """

    def __init__(self, read: Callable[[int, int], NDArray[Any]], n_samples: int, what: str) -> None:
        self.largest, self.n_bridged = 0.0, 0
        self._read, self._n_samples, self._what = read, n_samples, what
        first = np.asarray(read(0, min(n_samples, _BLOCK)))
        self.head = first[np.isfinite(first)]
        self._step = 0.0
        self._last: float | None = None

    def find_step(self) -> float:
        """Return the median step."""
        if len(self.head) < 2:
            raise self._make_error()
        self._step = float(np.median(np.diff(self.head).astype(np.float64)))
        return self._step

    def compute_steps(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the steps of a block, which begins with the last timestamp of the block before."""
        times = np.asarray(self._read(first, last))
        if times.dtype.kind != "f":
            # Subtract integers as integers: nanoseconds since 1970 exceed the precision of float64.
            return np.diff(times).astype(np.float64)
        finite = np.isfinite(times)
        if not finite.all():
            times = self._fill(times.astype(np.float64), finite)
        self._last = float(times[-1])
        self.largest = max(self.largest, float(np.abs(times).max()))
        return np.diff(times).astype(np.float64)

    def _fill(self, times: NDArray[np.float64], finite: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the timestamps, where one that is not finite follows the one before by one step."""
        if not finite[0] and self._last is not None:
            times[0], finite[0] = self._last, True
        self.n_bridged += int(np.sum(~finite))
        if self.n_bridged > max(_FEW, _LARGEST_SHARE * self._n_samples) or not finite.any():
            raise self._make_error()
        index = np.arange(len(times))
        before = np.maximum.accumulate(np.where(finite, index, -1))
        before[before < 0] = np.flatnonzero(finite)[0]  # the first ones precede the first that is known
        return np.asarray(times[before] + self._step * (index - before))

    def _make_error(self) -> RecordingError:
        return RecordingError(f"{self._what} has timestamps that are NaN or infinite; pass --rate")


def _advise(times: NDArray[Any], per_second: float) -> str:
    """Return the mean rate as advice; empty without one."""
    rate = estimate_rate(times)
    return "" if rate is None else f" (about {per_second * rate:.6g})"


def _make_uneven_error(
    steps: NDArray[Any], per_second: float, head: NDArray[Any], what: str
) -> RecordingError:
    low, high = float(steps.min()) / per_second, float(steps.max()) / per_second
    return RecordingError(
        f"{what} is unevenly sampled: its timestamps are {low:.6g} to {high:.6g} s apart; resample it, "
        f"or pass --rate{_advise(head, per_second)} to treat its samples as evenly spaced"
    )
