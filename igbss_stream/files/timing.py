"""The rate and the gaps of samples that each have a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.gaps import make_gaps

_BLOCK = 1 << 18  # times read at once: 2 MB
_LARGEST_SHARE = 0.01  # of steps that may be odd; with more the samples are uneven, not interrupted
_FEW = 8  # odd steps that are never too many
_JITTER = 0.25  # of a step: clocks and rounding to milliseconds move times by less
_DIGITS = 9  # to which rates are told: times in float64 do not give more


@dataclass(frozen=True)
class Timing:
    """What times say.

    Parameters
    ----------
    rate : float
        In Hz, where no samples are missing.
    gaps : tuple of Gap
    """

    rate: float
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class Times:
    """Times of samples that are not read yet; see `timing`.

    Parameters
    ----------
    read : callable
        Returns the times from a first row up to another one.
    n_samples : int
    per_second : float
        Units of time in a second.
    """

    read: Callable[[int, int], NDArray[Any]]
    n_samples: int
    per_second: float = 1.0

    def timing(self, what: str, *, glance: bool = False) -> Timing | None:
        """Return rate and gaps; at a glance, those of the first quarter of a million samples."""
        n_samples = min(self.n_samples, _BLOCK) if glance else self.n_samples
        return timing(self.read, n_samples, what, per_second=self.per_second)


def timing(
    read: Callable[[int, int], NDArray[Any]], n_samples: int, what: str, *, per_second: float = 1.0
) -> Timing | None:
    """Return rate and gaps of samples with times; None where there are fewer than two.

    Parameters
    ----------
    read : callable
        Returns the times from a first row up to another one.
    n_samples : int
    what : str
        What has these times, for the message.
    per_second : float
        Units of time in a second.

    Returns
    -------
    Timing or None

    Raises
    ------
    RecordingError
        If times are not finite, go back, or are too uneven to be told from gaps.
    """
    if n_samples < 2:
        return None
    step = float(np.median(_steps(read, 0, min(n_samples, _BLOCK), what)))
    if not step > 0:
        raise RecordingError(f"{what} has times that stand still; pass --rate")
    total, n_even, places, n_odd = 0.0, 0, list[tuple[int, int, str]](), 0
    for first in range(0, n_samples - 1, _BLOCK):
        steps = _steps(read, first, min(first + _BLOCK + 1, n_samples), what)
        passed = np.round(steps / step)
        even = np.abs(steps - step) < _JITTER * step
        n_odd += int(np.sum(~even))
        if n_odd > max(_FEW, _LARGEST_SHARE * n_samples) or np.any(passed < 1):
            raise _uneven(steps, per_second, step, what)
        total, n_even = total + float(steps[even].sum()), n_even + int(even.sum())
        places += [(first + int(i) + 1, int(passed[i]) - 1, "missing") for i in np.flatnonzero(passed > 1)]
    rate = float(f"{per_second * n_even / total:.{_DIGITS}g}")
    return Timing(rate, make_gaps(places))


def _steps(read: Callable[[int, int], NDArray[Any]], first: int, last: int, what: str) -> NDArray[Any]:
    # Integers stay integers: nanoseconds since 1970 do not fit into float64.
    steps = np.diff(np.asarray(read(first, last))).astype(np.float64)
    if not np.isfinite(steps).all():
        raise RecordingError(f"{what} has times that are NaN or infinite; pass --rate")
    return steps


def _uneven(steps: NDArray[Any], per_second: float, step: float, what: str) -> RecordingError:
    low, high = float(steps.min()) / per_second, float(steps.max()) / per_second
    return RecordingError(
        f"{what} is unevenly sampled: its times are {low:.6g} to {high:.6g} s apart; resample it, or pass "
        f"--rate ({per_second / step:.6g} is about right) to take its samples as even"
    )
