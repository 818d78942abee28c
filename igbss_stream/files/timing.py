"""Measure the sampling rate and the gaps of samples with timestamps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.gaps import make_gaps

_BLOCK = 1 << 18  # timestamps read at a time: 2 MB
_LARGEST_SHARE = 0.01  # of irregular steps; with more, the samples are uneven, not interrupted
_FEW = 8  # irregular steps that are always accepted
_JITTER = 0.25  # of a step; jitter of clocks and rounding to milliseconds are smaller
_DIGITS = 9  # significant digits of a rate; timestamps in float64 are not more precise


@dataclass(frozen=True)
class Timing:
    """Sampling rate and gaps.

    Parameters
    ----------
    rate : float
        In Hz, between the gaps.
    gaps : tuple of Gap
    """

    rate: float
    gaps: tuple[Gap, ...]


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
        If timestamps are not finite, decrease, or are too uneven to find gaps.
    """
    if n_samples < 2:
        return None
    step = float(np.median(_compute_steps(read, 0, min(n_samples, _BLOCK), what)))
    if not step > 0:
        raise RecordingError(f"{what} has timestamps that do not increase; pass --rate")
    total, n_even, places, n_odd = 0.0, 0, list[tuple[int, int, str]](), 0
    for first in range(0, n_samples - 1, _BLOCK):
        steps = _compute_steps(read, first, min(first + _BLOCK + 1, n_samples), what)
        passed = np.round(steps / step)
        even = np.abs(steps - step) < _JITTER * step
        n_odd += int(np.sum(~even))
        if n_odd > max(_FEW, _LARGEST_SHARE * n_samples) or np.any(passed < 1):
            raise _make_uneven_error(steps, per_second, step, what)
        total, n_even = total + float(steps[even].sum()), n_even + int(even.sum())
        places += [(first + int(i) + 1, int(passed[i]) - 1, "missing") for i in np.flatnonzero(passed > 1)]
    rate = float(f"{per_second * n_even / total:.{_DIGITS}g}")
    return Timing(rate, make_gaps(places))


def _compute_steps(
    read: Callable[[int, int], NDArray[Any]], first: int, last: int, what: str
) -> NDArray[Any]:
    # Subtract integers as integers: nanoseconds since 1970 exceed the precision of float64.
    steps = np.diff(np.asarray(read(first, last))).astype(np.float64)
    if not np.isfinite(steps).all():
        raise RecordingError(f"{what} has timestamps that are NaN or infinite; pass --rate")
    return steps


def _make_uneven_error(steps: NDArray[Any], per_second: float, step: float, what: str) -> RecordingError:
    low, high = float(steps.min()) / per_second, float(steps.max()) / per_second
    return RecordingError(
        f"{what} is unevenly sampled: its timestamps are {low:.6g} to {high:.6g} s apart; resample it, "
        "or pass "
        f"--rate (about {per_second / step:.6g}) to treat its samples as evenly spaced"
    )
