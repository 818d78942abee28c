"""Draw traces, spectra, weights and maps of the scalp."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.pages.markup import escape, format_number
from igbss_stream.pages.plotting.png import encode_data_url
from igbss_stream.pages.plotting.scales import blend
from igbss_stream.pages.plotting.scalp import RADIUS, Montage, interpolate_weights
from igbss_stream.pages.plotting.svg import (
    draw_band,
    draw_bottom_axis,
    draw_left_axis,
    draw_line,
    draw_path,
    draw_svg,
    draw_text,
    find_ticks,
)
from igbss_stream.pages.report.traces import Span, Trace

Array = NDArray[np.float64]

_GRID = 10  # steps of the fine grid in a unit of a drawing
_COLOURS = [blend(share) for share in np.linspace(-1, 1, 65)]
_LIGHT = [blend(share) for share in np.linspace(0, 1, 65)]
_PIXELS = 96  # per side of a map
_MAX_LABELS = 40  # channels that have a label under their bar
_LABEL_WIDTH = 52.0  # smallest distance between marks that have a label
_MAX_TITLES = 300  # bars that have a tooltip


def draw_traces(
    traces: Sequence[Trace],
    span: Span,
    unit: str,
    title: str,
    gaps: Sequence[tuple[float, float]] = (),
    height: float = 110,
    timed: bool = True,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Draw traces over time on a common scale.

    Parameters
    ----------
    traces : sequence of Trace
    span : Span
    unit : str
        Of the traces.
    title : str
        Description for screen readers.
    gaps : sequence of (float, float)
        Start and stop of each gap.
    height : float
    timed : bool
        Whether to draw the time axis.
    marks : sequence of (float, str)
        Times of vertical lines, in ascending order, and their labels.

    Returns
    -------
    str
    """
    left, right, top, bottom = 58.0, 978.0, 6.0, height - (18 if timed else 4)
    low, high = _find_limits(traces)

    def across(seconds: float) -> float:
        return left + (seconds - span.start) / (span.stop - span.start) * (right - left)

    def up(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    levels, times = find_ticks(low, high, 3), find_ticks(span.start, span.stop, 10)
    marked = [(across(at), name) for at, name in marks if span.start <= at < span.stop]
    missing = "".join(
        f'<rect class="gap" x="{across(start):.2f}" y="{top:g}" '
        f'width="{max(0.8, across(stop) - across(start)):.2f}" height="{bottom - top:g}"/>'
        for start, stop in gaps
    )
    lines = "".join(_draw_trace(trace, left, right, top, bottom, low, high) for trace in traces)
    return draw_svg(
        1000,
        height,
        draw_bottom_axis(times, [across(t) for t in times], bottom, top, span.unit if timed else None)
        + draw_left_axis(levels, [up(level) for level in levels], left, right)
        + missing
        + lines
        + _draw_marks(marked, right, top, bottom)
        + draw_text(2, top + 8, "" if unit == "1" else unit, "start", "unit"),
        title,
    )


def _draw_marks(marked: Sequence[tuple[float, str]], right: float, top: float, bottom: float) -> str:
    """Draw vertical lines, one per position, with a label where there is room."""
    placed = list({round(x): (x, name) for x, name in marked}.values())
    if not placed:
        return ""
    ends = [*(x for x, _ in placed[1:]), right]
    lines = "".join(f"M{x:.1f} {top:g}V{bottom:g}" for x, _ in placed)
    return f'<path class="change" d="{lines}"/>' + "".join(
        draw_text(x + 3, top + 8, name, "start", "change")
        for (x, name), end in zip(placed, ends, strict=True)
        if end - x >= _LABEL_WIDTH
    )


def _find_limits(traces: Sequence[Trace]) -> tuple[float, float]:
    low = min((float(np.nanmin(t.low)) for t in traces if np.isfinite(t.low).any()), default=0.0)
    high = max((float(np.nanmax(t.high)) for t in traces if np.isfinite(t.high).any()), default=0.0)
    margin = 0.03 * (high - low) or max(abs(high), 1.0)
    return low - margin, high + margin


def _draw_trace(
    trace: Trace, left: float, right: float, top: float, bottom: float, low: float, high: float
) -> str:
    """Draw a trace on the fine grid, in a group that scales it to its position."""
    scale = _GRID * (bottom - top) / (high - low)
    wide = _GRID * (right - left)
    x: Array = np.asarray((np.arange(len(trace.low)) + 0.5) / trace.n_columns * wide)
    inner = draw_band(x, (high - trace.high) * scale, (high - trace.low) * scale, trace.kind)
    return f'<g transform="translate({left:g} {top:g}) scale({1 / _GRID:g})">{inner}</g>'


def draw_sparkline(trace: Trace, title: str) -> str:
    """Draw a trace without axes, as small as a word."""
    low, high = _find_limits([trace])
    step = max(1, len(trace.low) // 180)
    n = len(trace.low) // step * step
    small = Trace(
        np.fmin.reduce(trace.low[:n].reshape(-1, step), axis=1),
        np.fmax.reduce(trace.high[:n].reshape(-1, step), axis=1),
        n / step,
        trace.kind,
    )
    return draw_svg(180, 30, _draw_trace(small, 0, 180, 1, 29, low, high), title, "spark")


def draw_spectrum(frequency: Array, density: Array, unit: str, has_rate: bool, title: str) -> str:
    """Draw a spectrum in decibels.

    Parameters
    ----------
    frequency, density : ndarray of shape (frequencies,)
    unit : str
        Of the source.
    has_rate : bool
        Whether frequencies are in Hz.
    title : str

    Returns
    -------
    str
    """
    left, right, top, bottom, height = 40.0, 336.0, 14.0, 150.0, 180.0
    there = density > 0
    there[-1] = False  # one-sided density: half of its neighbours
    if there.sum() < 2:
        return ""
    decibels = 10 * np.log10(density[there])
    along = np.log10(frequency[there])
    low, high = float(decibels.min()) - 1, float(decibels.max()) + 1
    first, last = float(along[0]), float(along[-1])
    x = left + (along - first) / (last - first) * (right - left)
    y = bottom - (decibels - low) / (high - low) * (bottom - top)
    x, y = _thin(x, y)
    marks = find_ticks(low, high, 5)
    round_ones = [
        d * 10.0**e for e in range(-7, 7) for d in (1, 2, 5) if first <= np.log10(d * 10.0**e) <= last
    ]
    places = [left + (np.log10(f) - first) / (last - first) * (right - left) for f in round_ones]
    inner = draw_path(_GRID * x, _GRID * y)
    square = "" if unit == "1" else f" {unit}²"
    return draw_svg(
        360,
        height,
        draw_bottom_axis(round_ones, places, bottom, top, "Hz" if has_rate else "cycles per sample")
        + draw_left_axis(
            marks, [bottom - (m - low) / (high - low) * (bottom - top) for m in marks], left, right
        )
        + f'<g transform="scale({1 / _GRID:g})">{inner}</g>'
        + draw_text(2, 8, f"dB re 1{square}/{'Hz' if has_rate else 'cycle'}", "start", "unit"),
        title,
    )


def _thin(x: Array, y: Array) -> tuple[Array, Array]:
    """Reduce points to the highest and the lowest in each column of the drawing."""
    if len(x) < 800:
        return x, y
    column = np.floor(x).astype(int)
    starts = split_runs(column)[:, 0]
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    return np.repeat(x[starts], 2), np.column_stack([high, low]).ravel()


def draw_weights(weights: Array, names: Sequence[str], unit: str, marked: Sequence[int], title: str) -> str:
    """Draw the weights of a source in the channels as bars; reference channels are highlighted."""
    left, right, top, bottom = 40.0, 352.0, 14.0, 128.0
    n = len(weights)
    labelled = n <= _MAX_LABELS
    height = 180.0
    low, high = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
    if high == low:
        high = 1.0
    step = (right - left) / n

    def up(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    marks = find_ticks(low, high, 4)
    bars = []
    for i, weight in enumerate(weights.tolist()):
        y = min(up(weight), up(0.0))
        kind = "mark" if i in marked else "bar"
        tooltip = (
            f"<title>{escape(names[i])}: {format_number(weight)} {escape(unit)}</title>"
            if n <= _MAX_TITLES
            else ""
        )
        bars.append(
            f'<rect class="{kind}" x="{left + (i + 0.12) * step:.2f}" y="{y:.2f}" '
            f'width="{0.76 * step:.2f}" height="{abs(up(weight) - up(0.0)):.2f}">{tooltip}</rect>'
        )
    shown = range(n) if labelled else ()
    below = "".join(
        f'<text class="name{" marked" if i in marked else ""}" text-anchor="end" '
        f'transform="translate({left + (i + 0.5) * step + 2.8:.1f} {bottom + 6:g}) rotate(-90)">'
        f"{escape(names[i][:10])}</text>"
        for i in shown
    )
    if not labelled:
        below = draw_text(
            (left + right) / 2,
            bottom + 14,
            f"{n} channels, in the order of the recording",
            "middle",
            "unit",
        )
    return draw_svg(
        360,
        height,
        draw_left_axis(marks, [up(mark) for mark in marks], left, right)
        + "".join(bars)
        + draw_line(left, up(0.0), right, up(0.0), "zero")
        + below
        + draw_text(2, 8, unit, "start", "unit"),
        title,
    )


def define_scalp_map(
    placed: Montage, weights: Array, names: Sequence[str], name: str, *, light: bool = False
) -> str:
    """Define a map of the scalp, to be drawn with `use_scalp_map`.

    Parameters
    ----------
    placed : Montage
    weights : ndarray of shape (channels,)
    names : sequence of str
        Of the channels.
    name : str
        Identifier of the map.
    light : bool
        Whether weights are shares from 0 to 1. Otherwise the largest absolute weight has the full colour.

    Returns
    -------
    str
    """
    drawn = interpolate_weights(placed, weights, _PIXELS)[::-1]
    largest = float(np.abs(weights[placed.channels]).max()) or 1.0
    share = np.clip(drawn if light else drawn / largest / 2 + 0.5, 0, 1)
    pixels = np.where(np.isnan(share), 255, np.rint(np.nan_to_num(share) * (len(_COLOURS) - 1)))
    address = encode_data_url(pixels.astype(np.uint8), _LIGHT if light else _COLOURS)
    r = RADIUS
    ears = "".join(
        f'<path class="head" d="M{s * r:g} -.22q{s * 0.11:g} .02 {s * 0.1:g} .22t{-s * 0.1:g} .22"/>'
        for s in (-1, 1)
    )
    dots = "".join(
        f'<circle class="dot" cx="{x:.3f}" cy="{-y:.3f}" r=".028"><title>{escape(names[i])}: '
        f"{format_number(weights[i])}</title></circle>"
        for i, (x, y) in zip(placed.channels.tolist(), placed.positions.tolist(), strict=True)
    )
    return (
        f'<svg class="defs" aria-hidden="true"><symbol id="{name}" viewBox="-1.3 -1.32 2.6 2.6">'
        f'<path class="head" d="M-.14 {-r + 0.01:g}L0 {-r - 0.15:g}L.14 {-r + 0.01:g}"/>{ears}'
        f'<image href="{address}" x="{-r:g}" y="{-r:g}" width="{2 * r:g}" height="{2 * r:g}"/>'
        f'<circle class="head" r="{r:g}"/>{dots}</symbol></svg>'
    )


def use_scalp_map(name: str, title: str, kind: str = "map") -> str:
    """Draw a map that `define_scalp_map` has defined."""
    return f'<svg class="{kind}" role="img" aria-label="{escape(title)}"><use href="#{name}"/></svg>'
