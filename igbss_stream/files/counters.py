"""Recognise channels that count samples or packets, and find what is missing from their jumps.

A counter rises by the same step from sample to sample, or stays equal for a fixed number of samples. It may
start again from its smallest value; the modulus, the number of counts until then, is found from the jumps.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.medians import compute_medians
from igbss_stream.files.gaps import LONGEST_GAP

_FEWEST = 8  # values from which a counter is recognised
_AT_FIRST = 64  # steps
_EVEN = 0.95  # share of steps that a counter explains, at least
_MOSTLY = 0.5  # share of steps without those at which a counter starts again, at least
_ROUNDING = 1e-2  # of a step
_SQUARE = 2  # counts of a square wave
_EPSILON = 1e-6  # relative error of stored values
_LONGEST_REPEAT = 64
_LARGEST_SHARE = 0.01  # of jumps; with more, they are no losses
_WILD = 1e300  # counts beyond which a jump is only known to be long
_FEW = 8  # jumps that are always accepted


@dataclass(frozen=True)
class SampleCounter:
    """How a channel counts.

    Parameters
    ----------
    step : float
        Difference between consecutive counts.
    modulus : float or None
        Difference after which the counter starts again; None if it has not done so.
    repeat : int
        Number of samples with the same count.
    """

    step: float
    modulus: float | None
    repeat: int = 1

    def describe(self) -> str:
        """Return a text such as ``counts modulo 256``."""
        return "counts" if self.modulus is None else f"counts modulo {self.modulus / abs(self.step):g}"


def find_counter(values: NDArray[Any]) -> SampleCounter | None:
    """Return how a channel counts; None if it does not. Its values may be scaled.

    Parameters
    ----------
    values : array of shape (samples,)
        NaN are skipped.
    """
    x = np.asarray(values, np.float64)
    x = x[np.isfinite(x)]
    if len(x) < _FEWEST:
        return None
    steps = np.diff(x)
    rises = np.flatnonzero(steps)
    between = np.diff(rises)
    if not len(between):
        return None
    repeat = 1 if len(rises) == len(steps) else int(compute_medians(between[None])[0])
    if repeat > 1:
        if repeat > _LONGEST_REPEAT or np.mean(between == repeat) < _EVEN or len(rises) < _FEWEST:
            return None
        steps = steps[rises]
    return _match(x, steps, repeat)


def _match(x: NDArray[np.float64], steps: NDArray[np.float64], repeat: int) -> SampleCounter | None:
    """Return the step and the modulus that explain the steps of a channel."""
    size = float(compute_medians(np.abs(steps)[None])[0])
    if size == 0 or not np.isfinite(size):
        return None
    rounding = _ROUNDING + _EPSILON * float(np.abs(x).max()) / size
    for some in (steps[:_AT_FIRST], steps):  # the first steps show that most signals do not count
        scaled = some / size
        if not np.isfinite(scaled).all():
            return None
        whole = np.round(scaled)
        if np.any(np.abs(scaled - whole) > rounding):
            return None
    kinds, counts = np.unique(whole, return_counts=True)
    for step in kinds[np.argsort(-counts, kind="stable")][:2].tolist():
        modulus = _find_modulus(whole[whole * step < 0], step, float(np.ptp(x)) / size)
        if repeat > 1 and modulus == _SQUARE * abs(step):
            return None  # a square wave
        up = whole == step
        wraps = (
            np.zeros(len(whole), bool) if modulus is None else whole == step - np.copysign(modulus, step)
        )
        if step and np.mean(up | wraps) >= _EVEN and np.mean(up) >= _MOSTLY:
            return SampleCounter(step * size, None if modulus is None else modulus * size, repeat)
    return None


def _find_modulus(back: NDArray[np.float64], step: float, spread: float) -> float | None:
    """Return the modulus from the jumps against the direction of counting; None without one.

    A jump over lost samples is smaller than the modulus by what was lost, so the largest is right unless
    another one is more frequent.
    """
    if not len(back):
        return None
    sizes, counts = np.unique(np.abs(back - step), return_counts=True)
    common = sizes[np.argmax(counts)] if counts.max() > 1 else sizes[-1]
    modulus = float(max(common, np.round(spread) + abs(step)))
    return modulus if modulus <= LONGEST_GAP else None  # a single wild value


def find_losses(values: NDArray[Any], counter: SampleCounter) -> list[tuple[int, int]] | None:
    """Return the rows after missing samples, and how many are missing; 0 if that is not known.

    A loss of as many samples as the modulus has counts cannot be seen.

    Parameters
    ----------
    values : array of shape (samples,)
    counter : SampleCounter

    Returns
    -------
    list of (int, int) or None
        None if the counter jumps so often that the jumps are no losses.
    """
    x = np.asarray(values, np.float64)
    rows = np.flatnonzero(np.isfinite(x))
    x = x[rows]
    at = np.flatnonzero(np.diff(x)) + 1 if counter.repeat > 1 else np.arange(1, len(x))
    counts = np.clip((x[at] - x[at - 1]) / counter.step, -_WILD, _WILD)
    counts = np.where(np.abs(counts - np.round(counts)) <= _ROUNDING, np.round(counts), counts)
    if counter.modulus is not None:
        around = round(counter.modulus / abs(counter.step))
        counts = np.where(counts == 0, 0, np.mod(counts - 1, around) + 1)
    lost = counts - (rows[at] - rows[at - 1])
    places = np.flatnonzero(np.abs(lost) > _ROUNDING)
    if len(places) > max(_FEW, _LARGEST_SHARE * len(x)):
        return None
    return [
        (int(rows[at[i]]), round(lost[i] * counter.repeat) if _is_whole(lost[i]) else 0)
        for i in places.tolist()
        if counts[i] != 0  # the same sample twice
    ]


def _is_whole(lost: float) -> bool:
    return 0 < lost <= LONGEST_GAP and abs(lost - round(lost)) <= _ROUNDING
