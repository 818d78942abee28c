"""Write and draw the convergence of the fits and of structure learning."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.markup import escape, format_number, render_figure
from igbss_stream.pages.plotting.svg import (
    GRID,
    draw_bottom_axis,
    draw_left_axis,
    draw_path,
    draw_scaled,
    draw_svg,
    draw_text,
    draw_unit,
    find_ticks,
)
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.traces import Span, compute_indices, get_full_span

Array = NDArray[np.float64]

_MAX_FITS = 1500  # dots of a drawing
_MAX_LINES = 150  # windows whose iterations are drawn
_WIDE = 9200  # steps of the fine grid in the width of a drawing
_MAX_DOTS = 60  # largest number of steps of a line that has a dot for each
_ROUNDING = 1e-16  # share of the first value below which differences are only rounding errors
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def write_convergence(data: ReportData) -> str:
    """Return the part on the convergence of fits, and the part on structure learning.

    Parameters
    ----------
    data : ReportData
    """
    learned = _write_learning(data)
    if data.fits is None or not len(data.fits):
        return _write_without_fits(data) + learned
    parts = (
        "<h3>Convergence</h3>",
        _write_final_values(data),
        _draw_iterations(data),
    )
    return "".join(parts) + learned


def _write_without_fits(data: ReportData) -> str:
    how = "no parameters were fitted"
    if data.model.settings.get("structure") == "learned":
        how = (
            "the structure was fitted once, by maximum likelihood"
            if data.model.learning
            else "the structure was learned by maximum likelihood, which is not in the output"
        )
    if data.facts.solver != "closed-form":
        return f"<p>The output contains no fits: {how}.</p>"
    return (
        "<p>No divergence is shown because none was minimised: sources are <code>/unmixing</code> "
        f"times the channels, sample by sample, and {how}.</p>"
    )


def _write_final_values(data: ReportData) -> str:
    fits = data.fits
    assert fits is not None
    good, kl, n_iter = fits["converged"].astype(bool), fits["kl"], fits["n_iter"]
    if len(fits) == 1:
        outcome = "which converged" if good[0] else "which did not converge"
        return (
            f"<p>The whole recording was fitted as one window, in {int(n_iter[0])} iterations, "
            f"{outcome}; KL "
            f"at the end {format_number(float(kl[0]))} nats.</p>"
        )
    words = (
        f"{len(fits):,} windows were fitted, {int(good.sum()):,} converged; {int(n_iter.min())} to "
        f"{int(n_iter.max())} iterations, median {format_number(float(np.median(n_iter)))}; KL at the end "
        f"{format_number(float(np.nanmin(kl)))} to {format_number(float(np.nanmax(kl)))} nats, median "
        f"{format_number(float(np.nanmedian(kl)))}."
    )
    middle = compute_indices(data, fits["start"]) + fits["n_samples"] / 2
    step = -(-len(fits) // _MAX_FITS)
    starts = np.arange(0, len(fits), step)
    picture = draw_fits(
        middle[starts] / (data.sources.rate or 1.0),
        np.fmax.reduceat(kl, starts),
        np.logical_and.reduceat(good, starts),
        get_full_span(data),
        f"KL divergence at the end of each fit. {words}",
    )
    grouped = f" Each dot is the maximum of {step} windows." if step > 1 else ""
    caption = f"KL(p̂, p) at the end of the fit of each window; red, hollow dots: not converged.{grouped}"
    return f"<p>{words}</p>" + render_figure(picture, caption)


def _draw_iterations(data: ReportData) -> str:
    """Draw the divergence at each iteration, for some windows."""
    fits, histories = data.fits, data.histories
    assert fits is not None
    if data.facts.solver == "inversion":
        return "<p>Each window was fitted in one pass, by inversion, without iterations.</p>"
    if histories is None:
        return (
            "<p>The output was written by an older version, which stored only the final value of each fit."
            "</p>"
        )
    drawn = np.unique(np.linspace(0, len(fits) - 1, min(len(fits), _MAX_LINES)).astype(int))
    named = _choose_highlighted(data, drawn)
    lines = [DescentLine(histories.get(k), "other") for k in drawn.tolist() if k not in named]
    lines += [DescentLine(histories.get(k), kind) for k, (kind, _) in named.items()]
    rate = data.sources.rate
    at = compute_indices(data, fits["start"]) / (rate or 1.0)
    unit = "s" if rate else "samples"
    keys = [
        f'<b class="{kind}-key">{name}</b>, at {format_number(float(at[k]), 4)} {unit} '
        f"({int(fits['n_iter'][k])} iterations)"
        for k, (kind, name) in named.items()
    ]
    others = len(lines) - len(named)
    pale = f"; pale: {others} other windows" if others else ""
    return render_figure(
        draw_descents(lines, "nats above the final value", "iteration", "KL divergence over iterations"),
        "KL(p̂, p) over iterations, minus its value at the end of the fit (not visible on a logarithmic "
        f"scale).<br>{'; '.join(keys)}{pale}.",
        "descents",
    )


def _choose_highlighted(data: ReportData, drawn: NDArray[np.int_]) -> dict[int, tuple[str, str]]:
    """Return CSS class and name of the windows drawn in colour."""
    fits, histories = data.fits, data.histories
    assert fits is not None
    assert histories is not None
    if len(fits) == 1:
        return {0: ("first", "the only window")}
    typical = int(np.argsort(fits["n_iter"], kind="stable")[(len(fits) - 1) // 2])
    most = int(fits["n_iter"][~fits["converged"]].max(initial=0)) or int(fits["n_iter"].max())
    late = np.flatnonzero((fits["n_iter"] == most) & (fits["converged"] == bool(fits["converged"].all())))
    # among windows with the same number of iterations, one that still decreased at the end
    falls = {int(k): -float(np.diff(histories.get(int(k))[-2:]).sum()) for k in late[:_MAX_LINES]}
    slowest = max(falls, key=lambda k: (falls[k], -k))
    ended = bool(fits["converged"][slowest])
    return {
        0: ("first", "the first window"),
        typical: ("typical", "a typical window"),
        slowest: ("slowest", "the slowest window" if ended else "one that did not converge"),
    }


def _write_learning(data: ReportData) -> str:
    losses = np.array(data.model.learning.losses if data.model.learning else ())
    if len(losses) < 2:
        return ""
    words = (
        f"The structure was learned in {len(losses)} steps of maximum likelihood, after a choice among "
        f"several starts: from {format_number(losses[0], 6)} to "
        f"{format_number(losses[-1], 6)} nats per "
        "sample of negative log-likelihood, up to a constant that depends on the samples."
    )
    return f"<h3>Structure learning</h3><p>{escape(words)}</p>" + render_figure(
        draw_descents(
            [DescentLine(losses, "first")],
            "nats per sample above the minimum",
            "step",
            f"Negative log-likelihood over steps. {words}",
        ),
        "negative log-likelihood before each step, minus its minimum; it may rise slightly where the "
        "distribution of a source was estimated again",
        "descents",
    )


def draw_fits(start: Array, kl: Array, converged: NDArray[np.bool_], span: Span, title: str) -> str:
    """Draw the final divergence of each fit over time; hollow dots did not converge."""
    top, bottom = 16.0, 130.0
    there = np.isfinite(kl)
    low, high = (float(kl[there].min()), float(kl[there].max())) if there.any() else (0.0, 1.0)
    margin = 0.05 * (high - low) or max(abs(high), 1e-12)
    low, high = low - margin, high + margin
    marks, times = find_ticks(low, high, 4), find_ticks(span.start, span.stop, 10)
    x = (start - span.start) / (span.stop - span.start)
    y = bottom - (kl - low) / (high - low) * (bottom - top)
    dots = "".join(
        f'<circle class="{"fit" if good else "unfit"}" cx="{100 * cx:.2f}%" cy="{cy:.1f}" r="2.2"/>'
        for cx, cy, good in zip(
            x[there].tolist(), y[there].tolist(), converged[there].tolist(), strict=True
        )
    )
    places = [(t - span.start) / (span.stop - span.start) for t in times]
    levels = [bottom - (mark - low) / (high - low) * (bottom - top) for mark in marks]
    axes = draw_bottom_axis(times, places, bottom, top, span.unit) + draw_left_axis(
        [format_number(mark, 4) for mark in marks], levels
    )
    return draw_svg(bottom + 20, axes + dots + draw_unit(9, "nats"), title)


@dataclass(frozen=True, eq=False)
class DescentLine:
    """The values of one descent over its steps.

    Parameters
    ----------
    values : ndarray of shape (steps,)
        Value at the start and after each step.
    kind : str
        CSS class of the line; "other" lines are pale and have no dots.
    """

    values: Array
    kind: str

    @property
    def above(self) -> Array:
        """Each value minus the smallest one; NaN if the difference is only a rounding error."""
        with np.errstate(invalid="ignore"):  # the values of a failed fit are NaN
            above = self.values - self.values.min(initial=math.inf)
        floor = _ROUNDING * np.abs(self.values).max(initial=0.0)
        return np.asarray(np.where(above > floor, above, np.nan))


def draw_descents(lines: Sequence[DescentLine], unit: str, step: str, title: str) -> str:
    """Draw descents over their steps on a logarithmic scale; the first line is drawn first.

    Parameters
    ----------
    lines : sequence of DescentLine
    unit : str
        Unit of the values.
    step : str
        Name of a step.
    title : str
        Description for screen readers.

    Returns
    -------
    str
    """
    top, bottom = 18.0, 206.0
    above = [descent.above for descent in lines]
    last = max(1, *(len(values) - 1 for values in above))
    there = np.concatenate(above)
    there = there[np.isfinite(there)]
    low, high = (math.floor(math.log10(there.min())), math.log10(there.max())) if len(there) else (-1, 0.0)
    high = max(high + 0.04 * (high - low), low + 1.0)

    def down(value: Array) -> Array:  # from the top
        return (high - np.log10(value)) / (high - low) * (bottom - top)

    drawn = []
    for descent, values in zip(lines, above, strict=True):
        x, y = np.arange(len(values)) / last, down(values)
        path = draw_path(_WIDE * x, GRID * y, f"line {descent.kind}")
        drawn.append(draw_scaled(path, _WIDE, top, bottom))
        if descent.kind != "other" and len(values) <= _MAX_DOTS:
            drawn += [
                f'<circle class="step {descent.kind}" cx="{100 * cx:.2f}%" cy="{top + cy:.1f}" r="2.4"/>'
                for cx, cy in zip(x.tolist(), y.tolist(), strict=True)
                if math.isfinite(cy)
            ]
    marks = [round(mark) for mark in find_ticks(0, last, min(last, 12)) if mark == round(mark)]
    places = [mark / last for mark in marks]
    return draw_svg(
        bottom + 34,
        draw_bottom_axis(list(map(float, marks)), places, bottom, top, "")
        + _draw_decades(low, high, top, bottom)
        + "".join(drawn)
        + draw_text(0.5, bottom + 29, step, "middle", "unit")
        + draw_unit(9, unit),
        title,
    )


def _draw_decades(low: float, high: float, top: float, bottom: float) -> str:
    """Draw grid lines and labels of an axis of powers of ten."""
    spacing = max(1, math.ceil((high - low) / 6))
    powers = range(math.ceil(low), math.floor(high) + 1, spacing)
    places = [bottom - (power - low) / (high - low) * (bottom - top) for power in powers]
    return draw_left_axis(["10" + str(power).translate(_SUPERSCRIPTS) for power in powers], places)
