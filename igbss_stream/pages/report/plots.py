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
    GRID,
    draw_band,
    draw_bottom_axis,
    draw_left_axis,
    draw_level,
    draw_path,
    draw_scaled,
    draw_svg,
    draw_text,
    draw_unit,
    find_ticks,
)
from igbss_stream.pages.report.traces import Span, Trace

Array = NDArray[np.float64]

_WIDE = 9200  # steps of the fine grid in the width of a trace
_HALF = 3000  # and of a spectrum
_COLOURS = [blend(share) for share in np.linspace(-1, 1, 65)]
_LIGHT = [blend(share) for share in np.linspace(0, 1, 65)]
_PIXELS = 96  # per side of a map
_MAX_LABELS = 40  # channels that have a label under their bar
_MAX_LARGE_LABELS = 20  # above, labels are small, and every second one is hidden on a narrow screen
_LABEL_WIDTH = 0.065  # smallest distance between marks that have a label, as a share of the width
_MAX_NAME = 9  # characters of a label
_NAME_STEP = 8.0  # pixels of a character, at most on average
_UNIT_WIDTH = 0.15  # of the last frequency with its unit, as a share of the width
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
    top, bottom = 6.0, height - (20 if timed else 4)
    low, high = _find_limits(traces)

    def across(seconds: float) -> float:
        return (seconds - span.start) / (span.stop - span.start)

    levels, times = find_ticks(low, high, 3), find_ticks(span.start, span.stop, 10)
    marked = [(across(at), name) for at, name in marks if span.start <= at < span.stop]
    missing = "".join(
        f'<rect class="gap" x="{100 * across(start):.3f}%" y="{top:g}" '
        f'width="{max(0.08, 100 * (across(stop) - across(start))):.3f}%" height="{bottom - top:g}"/>'
        for start, stop in gaps
    )
    lines = "".join(_draw_trace(trace, top, bottom, low, high) for trace in traces)
    return draw_svg(
        height,
        draw_bottom_axis(times, [across(t) for t in times], bottom, top, span.unit if timed else None)
        + _draw_levels(levels, low, high, top, bottom)
        + missing
        + lines
        + _draw_marks(marked, top, bottom)
        + draw_unit(top + 8, "" if unit == "1" else unit),
        title,
    )


def _draw_levels(levels: list[float], low: float, high: float, top: float, bottom: float) -> str:
    """Draw the vertical axis of values between two limits."""
    places = [bottom - (level - low) / (high - low) * (bottom - top) for level in levels]
    return draw_left_axis([format_number(level, 4) for level in levels], places)


def _draw_marks(marked: Sequence[tuple[float, str]], top: float, bottom: float) -> str:
    """Draw vertical lines, one per position, with a label where there is room."""
    placed = list({round(_WIDE / GRID * x): (x, name) for x, name in marked}.values())
    if not placed:
        return ""
    ends = [*(x for x, _ in placed[1:]), 1.0]
    lines = "".join(f"M{_WIDE * x:.0f} 0V{GRID * (bottom - top):g}" for x, _ in placed)
    return draw_scaled(f'<path class="change" d="{lines}"/>', _WIDE, top, bottom) + "".join(
        draw_text(x + 0.003, top + 9, name, "start", "change")
        for (x, name), end in zip(placed, ends, strict=True)
        if end - x >= _LABEL_WIDTH
    )


def _find_limits(traces: Sequence[Trace]) -> tuple[float, float]:
    low = min((float(np.nanmin(t.low)) for t in traces if np.isfinite(t.low).any()), default=0.0)
    high = max((float(np.nanmax(t.high)) for t in traces if np.isfinite(t.high).any()), default=0.0)
    margin = 0.03 * (high - low) or max(abs(high), 1.0)
    return low - margin, high + margin


def _draw_trace(trace: Trace, top: float, bottom: float, low: float, high: float) -> str:
    """Draw a trace on the fine grid, scaled to its position."""
    scale = GRID * (bottom - top) / (high - low)
    x: Array = np.asarray((np.arange(len(trace.low)) + 0.5) / trace.n_columns * _WIDE)
    inner = draw_band(x, (high - trace.high) * scale, (high - trace.low) * scale, trace.kind)
    return draw_scaled(inner, _WIDE, top, bottom)


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
    return draw_svg(30, _draw_trace(small, 1, 29, low, high), title, "spark")


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
    top, bottom = 16.0, 152.0
    there = density > 0
    there[-1] = False  # one-sided density: half of its neighbours
    if there.sum() < 2:
        return ""
    decibels = 10 * np.log10(density[there])
    along = np.log10(frequency[there])
    low, high = float(decibels.min()) - 1, float(decibels.max()) + 1
    first, last = float(along[0]), float(along[-1])
    x = (along - first) / (last - first) * _HALF
    y = GRID * (high - decibels) / (high - low) * (bottom - top)
    numbers = _find_frequencies(first, last)
    places = [(np.log10(f) - first) / (last - first) for f in numbers]
    square = "" if unit == "1" else f" {unit}²"
    return draw_svg(
        bottom + (20 if has_rate else 32),
        draw_bottom_axis(numbers, places, bottom, top, "Hz" if has_rate else "cycles per sample")
        + _draw_levels(find_ticks(low, high, 5), low, high, top, bottom)
        + draw_scaled(draw_path(*_thin(x, y)), _HALF, top, bottom)
        + draw_unit(9, f"dB re 1{square}/{'Hz' if has_rate else 'cycle'}"),
        title,
    )


def _find_frequencies(first: float, last: float) -> list[float]:
    """Return 1, 2 and 5 times the powers of ten between two logarithms, or the powers if they are many."""
    digits = (1, 2, 5) if last - first < 2.7 else (1,)
    every = (d * 10.0**power for power in range(-7, 7) for d in digits)
    found = [f for f in every if first <= np.log10(f) <= last]
    if len(found) > 2 and np.log10(found[-1] / found[-2]) < _UNIT_WIDTH * (last - first):
        del found[-2]  # the unit after the last number needs its place
    return found


def _thin(x: Array, y: Array) -> tuple[Array, Array]:
    """Reduce points to the highest and the lowest in each column of the drawing."""
    if len(x) < 800:
        return x, y
    column = np.floor(x / GRID).astype(int)
    starts = split_runs(column)[:, 0]
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    return np.repeat(x[starts], 2), np.column_stack([high, low]).ravel()


def draw_weights(weights: Array, names: Sequence[str], unit: str, marked: Sequence[int], title: str) -> str:
    """Draw the weights of a source in the channels as bars; reference channels are highlighted."""
    top, bottom = 16.0, 122.0
    n = len(weights)
    low, high = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
    if high == low:
        high = 1.0

    def up(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

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
            f'<rect class="{kind}" x="{100 * (i + 0.12) / n:.2f}%" y="{y:.2f}" '
            f'width="{76 / n:.2f}%" height="{abs(up(weight) - up(0.0)):.2f}">{tooltip}</rect>'
        )
    return draw_svg(
        bottom + 16 + _NAME_STEP * max(len(name[:_MAX_NAME]) for name in names) * (n <= _MAX_LABELS),
        _draw_levels(find_ticks(low, high, 4), low, high, top, bottom)
        + "".join(bars)
        + draw_level(up(0.0), "zero")
        + _draw_names(names, marked, bottom)
        + draw_unit(9, unit),
        title,
    )


def _draw_names(names: Sequence[str], marked: Sequence[int], bottom: float) -> str:
    """Draw the names of channels below their bars, upright, or their number if they are many."""
    n = len(names)
    if n > _MAX_LABELS:
        words = f"{n} channels, in recorded order"
        return draw_text(0.5, bottom + 16, words, "middle", "unit")
    dense, beside = n > _MAX_LARGE_LABELS, {i + step for i in marked for step in (-1, 1)}

    def choose_class(i: int) -> str:
        if not dense:
            return "name marked" if i in marked else "name"
        if i in marked:
            return "name dense marked"
        return "name dense more" if i % 2 or i in beside else "name dense"

    return "".join(
        draw_text((i + 0.5) / n, bottom + 9, names[i][:_MAX_NAME], "end", choose_class(i)) for i in range(n)
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
