"""Lines, ticks and frames of drawings; lines are in whole numbers of a fine grid: pages stay small."""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.pages.plotting.scales import round_up
from igbss_stream.pages.report.markup import number, text

Array = NDArray[np.float64]


def drawing(width: float, height: float, inner: str, label: str, kind: str = "plot") -> str:
    """Return a drawing that is as wide as there is room.

    Parameters
    ----------
    width, height : float
        In the unit of what is inside.
    inner : str
    label : str
        What is seen, for those who do not see it.
    kind : str
        Its class.
    """
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{text(label)}">{inner}</svg>'
    )


def path(x: Array, y: Array, kind: str = "line", *, closed: bool = False) -> str:
    """Return a line through points, without those that are not finite: it breaks there.

    Parameters
    ----------
    x, y : ndarray of shape (points,)
    kind : str
        Its class.
    closed : bool
        Whether each part is an area.
    """
    parts = []
    for start, stop in split_runs(np.isfinite(x) & np.isfinite(y), True).tolist():
        points = np.rint(np.column_stack([x[start:stop], y[start:stop]])).astype(np.int64)
        parts.append(_part(points) + ("z" if closed else ""))
    return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""


def band(x: Array, low: Array, high: Array, kind: str = "band") -> str:
    """Return the area between two lines; where they are one everywhere, that line."""
    there = np.isfinite(low)
    if np.array_equal(low[there], high[there]):
        return path(x, low, kind)
    around: list[Array] = []
    for start, stop in split_runs(there, True).tolist():
        span = slice(start, stop)
        if around:
            around.append(np.full((1, 2), np.nan))
        around.append(np.column_stack([x[span], high[span]]))
        around.append(np.column_stack([x[span], low[span]])[::-1])
    if not around:
        return ""
    points = np.concatenate(around)
    return path(points[:, 0], points[:, 1], f"{kind} area", closed=True)


def ticks(low: float, high: float, n: int) -> list[float]:
    """Return round numbers from one to the other, about so many; two at least, as one tells no scale."""
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return []
    step = round_up((high - low) / n)
    found = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return found if len(found) > 1 else ticks(low, high, 2 * n)


def label(x: float, y: float, words: str, anchor: str = "middle", kind: str = "tick") -> str:
    """Return a text at a place."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{text(words)}</text>'


def line(x: float, y: float, to_x: float, to_y: float, kind: str = "grid") -> str:
    """Return a straight line."""
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>'


def bottom_axis(values: list[float], places: list[float], y: float, top: float, unit: str | None) -> str:
    """Return grid and numbers of an axis below a plot, the last with its unit; no numbers without one."""
    out = [line(x, top, x, y) for x in places]
    if unit is not None:
        shown = [number(value, 6) for value in values]
        shown[-1:] = [f"{last} {unit}" for last in shown[-1:]]
        out += [label(x, y + 13, words) for words, x in zip(shown, places, strict=True)]
    return "".join(out)


def left_axis(values: list[float], places: list[float], x: float, right: float) -> str:
    """Return grid and numbers of an axis left of a plot."""
    return "".join(
        line(x, y, right, y) + label(x - 5, y + 3.5, number(value, 4), "end")
        for value, y in zip(values, places, strict=True)
    )


def _part(points: NDArray[np.int64]) -> str:
    steps = np.diff(points, axis=0)
    if len(steps):
        kept = np.concatenate([[True], (steps != 0).any(axis=1)])
        points = points[kept]
        steps = np.diff(points, axis=0)
    moves = "".join(f"{dx} {dy}" if i == 0 else f" {dx} {dy}" for i, (dx, dy) in enumerate(steps.tolist()))
    first = f"M{points[0, 0]} {points[0, 1]}"
    return f"{first}l{moves}" if moves else f"{first}h1"
