"""Draw lines, ticks and axes as SVG. Lines are rounded to a fine grid to keep pages small."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.pages.markup import escape, format_number
from igbss_stream.pages.plotting.scales import round_up

Array = NDArray[np.float64]

GRID = 10
"""Steps of the fine grid in a pixel."""
_MARGIN = 58  # left of a drawing, in pixels, as in page.css
_MAX_UNIT = 4  # characters of a unit after the last number of an axis
_MAX_NARROW = 4  # numbers of a horizontal axis on a narrow screen


def draw_svg(height: float, inner: str, title: str, kind: str = "plot") -> str:
    """Return an SVG element that fills the available width.

    Horizontal positions inside are shares of its width and vertical ones are pixels, so texts keep their
    size on a narrow screen. Axes are outside of the element, in its margins.

    Parameters
    ----------
    height : float
        In pixels.
    inner : str
    title : str
        Description for screen readers.
    kind : str
        CSS class.
    """
    return f'<svg class="{kind}" height="{height:g}" role="img" aria-label="{escape(title)}">{inner}</svg>'


def draw_scaled(inner: str, width: float, top: float, bottom: float) -> str:
    """Return curves on the fine grid, scaled to the width of the drawing.

    Parameters
    ----------
    inner : str
        Curves, whose coordinates are steps of the grid from the left top corner.
    width : float
        In steps of the grid.
    top, bottom : float
        In pixels of the drawing.
    """
    return (
        f'<svg aria-hidden="true" y="{top:g}" width="100%" height="{bottom - top:g}" '
        f'viewBox="0 0 {width:g} {GRID * (bottom - top):g}" preserveAspectRatio="none">{inner}</svg>'
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
    """Return a text at a position: x as a share of the width, y in pixels."""
    return f'<text class="{kind}" x="{_percent(x)}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


def draw_unit(y: float, words: str) -> str:
    """Return the unit of a vertical axis, in the left margin."""
    if not words:
        return ""
    return f'<text class="unit" x="-{_MARGIN - 2:g}" y="{y:g}">{escape(words)}</text>'


def draw_level(y: float, kind: str = "grid") -> str:
    """Return a horizontal line over the whole width."""
    return f'<line class="{kind}" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'


def draw_bottom_axis(
    values: list[float], places: list[float], y: float, top: float, unit: str | None
) -> str:
    """Return grid lines and numbers of a horizontal axis, with the unit; only grid lines without one.

    On narrow screens only some of the numbers are shown. A long unit has its own line below the numbers.
    """
    out = [f'<line class="grid" x1="{x}" x2="{x}" y1="{top:g}" y2="{y:g}"/>' for x in map(_percent, places)]
    if unit is None or not values:
        return "".join(out)
    shown = [format_number(value, 6) for value in values]
    if len(unit) > _MAX_UNIT:
        out.append(draw_text(1, y + 27, unit, "end", "unit"))
    elif unit:
        shown[-1] += f" {unit}"
    step = -(-len(shown) // _MAX_NARROW)
    out += [
        draw_text(x, y + 14, words, kind="tick" if (len(shown) - 1 - i) % step == 0 else "tick more")
        for i, (words, x) in enumerate(zip(shown, places, strict=True))
    ]
    return "".join(out)


def draw_left_axis(names: Sequence[str], places: Sequence[float]) -> str:
    """Return grid lines and labels of a vertical axis."""
    return "".join(
        draw_level(y) + f'<text class="tick" x="-5" y="{y + 4:.1f}" text-anchor="end">{escape(name)}</text>'
        for name, y in zip(names, places, strict=True)
    )


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"


def _encode_points(points: NDArray[np.int64]) -> str:
    steps = np.diff(points, axis=0)
    if len(steps):
        kept = np.concatenate([[True], (steps != 0).any(axis=1)])
        points = points[kept]
        steps = np.diff(points, axis=0)
    moves = "".join(f"{dx} {dy}" if i == 0 else f" {dx} {dy}" for i, (dx, dy) in enumerate(steps.tolist()))
    first = f"M{points[0, 0]} {points[0, 1]}"
    return f"{first}l{moves}" if moves else f"{first}h1"
