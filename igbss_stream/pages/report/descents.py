"""A drawing of descents: how far each value is above the least, on a logarithmic scale, step by step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.plotting.svg import bottom_axis, drawing, label, line, path, ticks

Array = NDArray[np.float64]

_GRID = 10  # steps of the fine grid in a unit of a drawing
_MOST_DOTS = 60  # steps of a line that has a dot for each
_DIGITS = 1e-16  # share of the first value below which differences are rounding alone
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, eq=False)
class DescentLine:
    """One descent.

    Parameters
    ----------
    values : ndarray of shape (steps,)
        At the start, and after each step.
    kind : str
        Class of the line: "other" ones are pale and have no dots.
    """

    values: Array
    kind: str

    @property
    def above(self) -> Array:
        """Each value less the least, NaN where there is nothing left but rounding."""
        with np.errstate(invalid="ignore"):  # of a fit that came to no number
            above = self.values - self.values.min(initial=math.inf)
        floor = _DIGITS * np.abs(self.values).max(initial=0.0)
        return np.asarray(np.where(above > floor, above, np.nan))


def descents_plot(lines: Sequence[DescentLine], unit: str, step: str, title: str) -> str:
    """Return descents over their steps, the first line the lowest in the drawing.

    Parameters
    ----------
    lines : sequence of DescentLine
    unit : str
        Of what falls.
    step : str
        What the steps are called.
    title : str
        What is seen, in words.

    Returns
    -------
    str
    """
    left, right, top, bottom, height = 58.0, 978.0, 16.0, 206.0, 236.0
    above = [descent.above for descent in lines]
    last = max(1, *(len(values) - 1 for values in above))
    there = np.concatenate(above)
    there = there[np.isfinite(there)]
    low, high = (math.floor(math.log10(there.min())), math.log10(there.max())) if len(there) else (-1, 0.0)
    high = max(high + 0.04 * (high - low), low + 1.0)

    def across(k: Array) -> Array:
        return left + k / last * (right - left)

    def up(value: Array) -> Array:
        return bottom - (np.log10(value) - low) / (high - low) * (bottom - top)

    drawn = []
    for descent, values in zip(lines, above, strict=True):
        x, y = across(np.arange(len(values), dtype=np.float64)), up(values)
        drawn.append(
            f'<g transform="scale({1 / _GRID:g})">{path(_GRID * x, _GRID * y, f"line {descent.kind}")}</g>'
        )
        if descent.kind != "other" and len(values) <= _MOST_DOTS:
            drawn += [
                f'<circle class="step {descent.kind}" cx="{cx:.1f}" cy="{cy:.1f}" r="2.4"/>'
                for cx, cy in zip(x.tolist(), y.tolist(), strict=True)
                if math.isfinite(cy)
            ]
    marks = [round(mark) for mark in ticks(0, last, min(last, 12)) if mark == round(mark)]
    places = across(np.array(marks, np.float64)).tolist()
    return drawing(
        1000,
        height,
        bottom_axis(list(map(float, marks)), places, bottom, top, "")
        + _decades(low, high, left, right, top, bottom)
        + "".join(drawn)
        + label((left + right) / 2, bottom + 26, step, "middle", "unit")
        + label(2, 9, unit, "start", "unit"),
        title,
    )


def _decades(low: float, high: float, left: float, right: float, top: float, bottom: float) -> str:
    """Return grid and numbers of an axis of powers of ten."""
    apart = max(1, math.ceil((high - low) / 6))
    powers = range(math.ceil(low), math.floor(high) + 1, apart)
    places = [bottom - (power - low) / (high - low) * (bottom - top) for power in powers]
    return "".join(
        line(left, y, right, y) + label(left - 5, y + 3.5, "10" + str(power).translate(_RAISED), "end")
        for power, y in zip(powers, places, strict=True)
    )
