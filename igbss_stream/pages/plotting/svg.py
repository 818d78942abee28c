"""Draw lines, ticks and axes as SVG. Lines are rounded to a fine grid to keep pages small."""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.pages.markup import escape, format_number
from igbss_stream.pages.plotting.scales import round_up

Array = NDArray[np.float64]


def draw_svg(width: float, height: float, inner: str, title: str, kind: str = "plot") -> str:
    """Return an SVG element that fills the available width.

    Parameters
    ----------
    width, height : float
        In user units of the drawing.
    inner : str
    title : str
        Description for screen readers.
    kind : str
        CSS class.
    """
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(title)}">{inner}</svg>'
    )


def draw_path(x: Array, y: Array, kind: str = "line", *, closed: bool = False) -> str:
    """Return a line through points; it is interrupted at values that are not finite.

    Parameters
    ----------
    x, y : ndarray of shape (points,)
    kind : str
        CSS class.
    closed : bool
        Whether each part is closed to an area.
    """
    parts = []
    for start, stop in split_runs(np.isfinite(x) & np.isfinite(y), True).tolist():
        points = np.rint(np.column_stack([x[start:stop], y[start:stop]])).astype(np.int64)
        parts.append(_encode_points(points) + ("z" if closed else ""))
    return f'<path class="{kind}" d="{"".join(parts)}"/>' if parts else ""


def draw_band(x: Array, low: Array, high: Array, kind: str = "band") -> str:
    """Return the area between two lines, or one line if they are the same."""
    there = np.isfinite(low)
    if np.array_equal(low[there], high[there]):
        return draw_path(x, low, kind)
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
    return draw_path(points[:, 0], points[:, 1], f"{kind} area", closed=True)


def find_ticks(low: float, high: float, n: int) -> list[float]:
    """Return about n round numbers between two limits; at least two, to show the scale."""
    if not (math.isfinite(low) and math.isfinite(high) and high > low):
        return []
    step = round_up((high - low) / n)
    found = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    return found if len(found) > 1 else find_ticks(low, high, 2 * n)


def draw_text(x: float, y: float, words: str, anchor: str = "middle", kind: str = "tick") -> str:
    """Return a text at a position."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def draw_line(x: float, y: float, to_x: float, to_y: float, kind: str = "grid") -> str:
    """Return a straight line."""
    return f'<path class="{kind}" d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"/>'


def draw_bottom_axis(
    values: list[float], places: list[float], y: float, top: float, unit: str | None
) -> str:
    """Return grid lines and numbers of a horizontal axis, with the unit; only grid lines without one."""
    out = [draw_line(x, top, x, y) for x in places]
    if unit is not None:
        shown = [format_number(value, 6) for value in values]
        shown[-1:] = [f"{last} {unit}" for last in shown[-1:]]
        out += [draw_text(x, y + 13, words) for words, x in zip(shown, places, strict=True)]
    return "".join(out)


def draw_left_axis(values: list[float], places: list[float], x: float, right: float) -> str:
    """Return grid lines and numbers of a vertical axis."""
    return "".join(
        draw_line(x, y, right, y) + draw_text(x - 5, y + 3.5, format_number(value, 4), "end")
        for value, y in zip(values, places, strict=True)
    )


def _encode_points(points: NDArray[np.int64]) -> str:
    steps = np.diff(points, axis=0)
    if len(steps):
        kept = np.concatenate([[True], (steps != 0).any(axis=1)])
        points = points[kept]
        steps = np.diff(points, axis=0)
    moves = "".join(f"{dx} {dy}" if i == 0 else f" {dx} {dy}" for i, (dx, dy) in enumerate(steps.tolist()))
    first = f"M{points[0, 0]} {points[0, 1]}"
    return f"{first}l{moves}" if moves else f"{first}h1"
