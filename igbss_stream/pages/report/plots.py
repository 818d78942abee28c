"""The drawings of a report: traces, spectra, weights, maps of the scalp, and fits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.plotting.png import as_data
from igbss_stream.pages.plotting.scales import blend
from igbss_stream.pages.plotting.scalp import RADIUS, Montage, scalp_map
from igbss_stream.pages.plotting.svg import band, bottom_axis, drawing, label, left_axis, line, path, ticks
from igbss_stream.pages.report.markup import number, text

Array = NDArray[np.float64]

_GRID = 10  # steps of the fine grid in a unit of a drawing
_COLOURS = [blend(share) for share in np.linspace(-1, 1, 65)]
_LIGHT = [blend(share) for share in np.linspace(0, 1, 65)]
_PIXELS = 96  # of a side of a map
_LABELS = 40  # of channels that have room under the bars
_NAMED = 52.0  # between marks, for each to have its name
_MOST_TITLES = 300  # bars that tell their channel when pointed at


@dataclass(frozen=True)
class Span:
    """What a trace runs over.

    Parameters
    ----------
    start, stop : float
        In seconds, or in samples if no rate is known.
    unit : str
    """

    start: float
    stop: float
    unit: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Columns of a trace, evenly spaced over a span.

    Parameters
    ----------
    low, high : ndarray of shape (columns,)
    n_columns : float
        How many columns the span takes.
    kind : str
        Class of the line.
    """

    low: Array
    high: Array
    n_columns: float
    kind: str = "band"


def trace_plot(
    traces: Sequence[Trace],
    span: Span,
    unit: str,
    title: str,
    gaps: Sequence[tuple[float, float]] = (),
    height: float = 110,
    timed: bool = True,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """Return traces over time, on one scale.

    Parameters
    ----------
    traces : sequence of Trace
    span : Span
    unit : str
        Of what they show.
    title : str
        What is seen, in words.
    gaps : sequence of (float, float)
        Where samples are missing: from and to.
    height : float
    timed : bool
        Whether the times stand below.
    marks : sequence of (float, str)
        Moments that stand out, in their order, and their names.

    Returns
    -------
    str
    """
    left, right, top, bottom = 58.0, 978.0, 6.0, height - (18 if timed else 4)
    low, high = _limits(traces)

    def across(seconds: float) -> float:
        return left + (seconds - span.start) / (span.stop - span.start) * (right - left)

    def up(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    levels, times = ticks(low, high, 3), ticks(span.start, span.stop, 10)
    marked = [(across(at), name) for at, name in marks if span.start <= at < span.stop]
    missing = "".join(
        f'<rect class="gap" x="{across(start):.2f}" y="{top:g}" '
        f'width="{max(0.8, across(stop) - across(start)):.2f}" height="{bottom - top:g}"/>'
        for start, stop in gaps
    )
    lines = "".join(_trace(trace, left, right, top, bottom, low, high) for trace in traces)
    return drawing(
        1000,
        height,
        bottom_axis(times, [across(t) for t in times], bottom, top, span.unit if timed else None)
        + left_axis(levels, [up(level) for level in levels], left, right)
        + missing
        + lines
        + _marked(marked, right, top, bottom)
        + label(2, top + 8, "" if unit == "1" else unit, "start", "unit"),
        title,
    )


def _marked(marked: Sequence[tuple[float, str]], right: float, top: float, bottom: float) -> str:
    """Return upright lines, those of one place once; each has its name where there is room."""
    placed = list({round(x): (x, name) for x, name in marked}.values())
    if not placed:
        return ""
    ends = [*(x for x, _ in placed[1:]), right]
    lines = "".join(f"M{x:.1f} {top:g}V{bottom:g}" for x, _ in placed)
    return f'<path class="change" d="{lines}"/>' + "".join(
        label(x + 3, top + 8, name, "start", "change")
        for (x, name), end in zip(placed, ends, strict=True)
        if end - x >= _NAMED
    )


def _limits(traces: Sequence[Trace]) -> tuple[float, float]:
    low = min((float(np.nanmin(t.low)) for t in traces if np.isfinite(t.low).any()), default=0.0)
    high = max((float(np.nanmax(t.high)) for t in traces if np.isfinite(t.high).any()), default=0.0)
    margin = 0.03 * (high - low) or max(abs(high), 1.0)
    return low - margin, high + margin


def _trace(
    trace: Trace, left: float, right: float, top: float, bottom: float, low: float, high: float
) -> str:
    """Return a trace on the fine grid, in a group that scales it to its place."""
    scale = _GRID * (bottom - top) / (high - low)
    wide = _GRID * (right - left)
    x: Array = np.asarray((np.arange(len(trace.low)) + 0.5) / trace.n_columns * wide)
    inner = band(x, (high - trace.high) * scale, (high - trace.low) * scale, trace.kind)
    return f'<g transform="translate({left:g} {top:g}) scale({1 / _GRID:g})">{inner}</g>'


def spark(trace: Trace, title: str) -> str:
    """Return a trace without axes, as small as a word."""
    low, high = _limits([trace])
    step = max(1, len(trace.low) // 180)
    n = len(trace.low) // step * step
    small = Trace(
        np.fmin.reduce(trace.low[:n].reshape(-1, step), axis=1),
        np.fmax.reduce(trace.high[:n].reshape(-1, step), axis=1),
        n / step,
        trace.kind,
    )
    return drawing(180, 30, _trace(small, 0, 180, 1, 29, low, high), title, "spark")


def spectrum_plot(frequency: Array, density: Array, unit: str, rated: bool, title: str) -> str:
    """Return a spectrum in decibels.

    Parameters
    ----------
    frequency, density : ndarray of shape (frequencies,)
    unit : str
        Of the source.
    rated : bool
        Whether frequencies are in Hz.
    title : str

    Returns
    -------
    str
    """
    left, right, top, bottom, height = 40.0, 336.0, 14.0, 150.0, 180.0
    there = density > 0
    there[-1] = False  # of one side, half of what its neighbours are
    if there.sum() < 2:
        return ""
    decibels = 10 * np.log10(density[there])
    along = np.log10(frequency[there])
    low, high = float(decibels.min()) - 1, float(decibels.max()) + 1
    first, last = float(along[0]), float(along[-1])
    x = left + (along - first) / (last - first) * (right - left)
    y = bottom - (decibels - low) / (high - low) * (bottom - top)
    x, y = _thinned(x, y)
    marks = ticks(low, high, 5)
    round_ones = [
        d * 10.0**e for e in range(-7, 7) for d in (1, 2, 5) if first <= np.log10(d * 10.0**e) <= last
    ]
    places = [left + (np.log10(f) - first) / (last - first) * (right - left) for f in round_ones]
    inner = path(_GRID * x, _GRID * y)
    square = "" if unit == "1" else f" {unit}²"
    return drawing(
        360,
        height,
        bottom_axis(round_ones, places, bottom, top, "Hz" if rated else "cycles a sample")
        + left_axis(marks, [bottom - (m - low) / (high - low) * (bottom - top) for m in marks], left, right)
        + f'<g transform="scale({1 / _GRID:g})">{inner}</g>'
        + label(2, 8, f"dB re 1{square}/{'Hz' if rated else 'cycle'}", "start", "unit"),
        title,
    )


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Return points of which those that fall on one place of the drawing are the highest and the lowest."""
    if len(x) < 800:
        return x, y
    column = np.floor(x).astype(int)
    starts = np.flatnonzero(np.diff(column, prepend=column[0] - 1))
    low, high = np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts)
    return np.repeat(x[starts], 2), np.column_stack([high, low]).ravel()


def weights_plot(weights: Array, names: Sequence[str], unit: str, marked: Sequence[int], title: str) -> str:
    """Return the weights of a source in the channels, as bars; those of reference channels stand out."""
    left, right, top, bottom = 40.0, 352.0, 14.0, 128.0
    n = len(weights)
    labelled = n <= _LABELS
    height = 180.0
    low, high = min(0.0, float(weights.min())), max(0.0, float(weights.max()))
    if high == low:
        high = 1.0
    step = (right - left) / n

    def up(value: float) -> float:
        return bottom - (value - low) / (high - low) * (bottom - top)

    marks = ticks(low, high, 4)
    bars = []
    for i, weight in enumerate(weights.tolist()):
        y = min(up(weight), up(0.0))
        kind = "mark" if i in marked else "bar"
        told = (
            f"<title>{text(names[i])}: {number(weight)} {text(unit)}</title>" if n <= _MOST_TITLES else ""
        )
        bars.append(
            f'<rect class="{kind}" x="{left + (i + 0.12) * step:.2f}" y="{y:.2f}" '
            f'width="{0.76 * step:.2f}" height="{abs(up(weight) - up(0.0)):.2f}">{told}</rect>'
        )
    shown = range(n) if labelled else ()
    below = "".join(
        f'<text class="name{" marked" if i in marked else ""}" text-anchor="end" '
        f'transform="translate({left + (i + 0.5) * step + 2.8:.1f} {bottom + 6:g}) rotate(-90)">'
        f"{text(names[i][:10])}</text>"
        for i in shown
    )
    if not labelled:
        below = label((left + right) / 2, bottom + 14, f"{n} channels, in their order", "middle", "unit")
    return drawing(
        360,
        height,
        left_axis(marks, [up(mark) for mark in marks], left, right)
        + "".join(bars)
        + line(left, up(0.0), right, up(0.0), "zero")
        + below
        + label(2, 8, unit, "start", "unit"),
        title,
    )


def head_symbol(
    placed: Montage, weights: Array, names: Sequence[str], name: str, *, light: bool = False
) -> str:
    """Return a map of the scalp to be used by its name, in a drawing that shows nothing itself.

    Parameters
    ----------
    placed : Montage
    weights : ndarray of shape (channels,)
    names : sequence of str
        Of the channels.
    name : str
        By which it is used.
    light : bool
        Whether weights are shares, from 0 to 1; else the largest in size takes the full colour.

    Returns
    -------
    str
    """
    drawn = scalp_map(placed, weights, _PIXELS)[::-1]
    largest = float(np.abs(weights[placed.channels]).max()) or 1.0
    share = np.clip(drawn if light else drawn / largest / 2 + 0.5, 0, 1)
    pixels = np.where(np.isnan(share), 255, np.rint(np.nan_to_num(share) * (len(_COLOURS) - 1)))
    address = as_data(pixels.astype(np.uint8), _LIGHT if light else _COLOURS)
    r = RADIUS
    ears = "".join(
        f'<path class="head" d="M{s * r:g} -.22q{s * 0.11:g} .02 {s * 0.1:g} .22t{-s * 0.1:g} .22"/>'
        for s in (-1, 1)
    )
    dots = "".join(
        f'<circle class="dot" cx="{x:.3f}" cy="{-y:.3f}" r=".028"><title>{text(names[i])}: '
        f"{number(weights[i])}</title></circle>"
        for i, (x, y) in zip(placed.channels.tolist(), placed.places.tolist(), strict=True)
    )
    return (
        f'<svg class="defs" aria-hidden="true"><symbol id="{name}" viewBox="-1.3 -1.32 2.6 2.6">'
        f'<path class="head" d="M-.14 {-r + 0.01:g}L0 {-r - 0.15:g}L.14 {-r + 0.01:g}"/>{ears}'
        f'<image href="{address}" x="{-r:g}" y="{-r:g}" width="{2 * r:g}" height="{2 * r:g}"/>'
        f'<circle class="head" r="{r:g}"/>{dots}</symbol></svg>'
    )


def head(name: str, title: str, kind: str = "map") -> str:
    """Return a map that `head_symbol` has made."""
    return f'<svg class="{kind}" role="img" aria-label="{text(title)}"><use href="#{name}"/></svg>'


def fits_plot(start: Array, kl: Array, converged: NDArray[np.bool_], span: Span, title: str) -> str:
    """Return the divergence at the end of each fit, over time; hollow where it did not converge."""
    left, right, top, bottom, height = 58.0, 978.0, 14.0, 130.0, 150.0
    there = np.isfinite(kl)
    low, high = (float(kl[there].min()), float(kl[there].max())) if there.any() else (0.0, 1.0)
    margin = 0.05 * (high - low) or max(abs(high), 1e-12)
    low, high = low - margin, high + margin
    marks, times = ticks(low, high, 4), ticks(span.start, span.stop, 10)
    x = left + (start - span.start) / (span.stop - span.start) * (right - left)
    y = bottom - (kl - low) / (high - low) * (bottom - top)
    dots = "".join(
        f'<circle class="{"fit" if good else "unfit"}" cx="{cx:.1f}" cy="{cy:.1f}" r="2.2"/>'
        for cx, cy, good in zip(
            x[there].tolist(), y[there].tolist(), converged[there].tolist(), strict=True
        )
    )
    places = [left + (t - span.start) / (span.stop - span.start) * (right - left) for t in times]
    levels = [bottom - (mark - low) / (high - low) * (bottom - top) for mark in marks]
    axes = bottom_axis(times, places, bottom, top, span.unit) + left_axis(marks, levels, left, right)
    return drawing(1000, height, axes + dots + label(2, 9, "nats", "start", "unit"), title)
