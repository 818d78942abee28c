"""Write the sections on sources: a table of all sources, and a section for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.markup import (
    EN_DASH,
    MINUS,
    escape,
    format_correlation,
    format_decimal,
    format_number,
    format_percent,
    render_facts,
    render_figure,
    render_table,
)
from igbss_stream.pages.plotting.scales import DisplayUnit, choose_unit
from igbss_stream.pages.plotting.scalp import Montage, find_montage
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.exclusion_command import render_box, write_command
from igbss_stream.pages.report.method_section import find_model_changes, get_unit
from igbss_stream.pages.report.plots import (
    define_scalp_map,
    draw_sparkline,
    draw_spectrum,
    draw_traces,
    draw_weights,
    use_scalp_map,
)
from igbss_stream.pages.report.ranking import RULE, RankedSource
from igbss_stream.pages.report.source_labels import describe_label, explain_labels, format_label
from igbss_stream.pages.report.statistics import SampleStatistics
from igbss_stream.pages.report.traces import (
    Trace,
    find_gap_spans,
    get_excerpt,
    get_full_span,
    list_event_marks,
)

Array = NDArray[np.float64]

_BADGES = {"excluded": "excluded", "like a reference": "like a reference", "labelled": "artefact"}


@dataclass(frozen=True, eq=False)
class SourceSections:
    """Data for the sections on sources.

    Parameters
    ----------
    data : ReportData
    statistics : SampleStatistics
    marked : tuple of int
        Indices of the reference channels.
    order : list of RankedSource
    details : int
        Number of sources with a separate section.
    """

    data: ReportData
    statistics: SampleStatistics
    marked: tuple[int, ...]
    order: list[RankedSource]
    details: int

    @cached_property
    def montage(self) -> Montage:
        """Places of the channels on the map."""
        return find_montage(self.data.model.channels, self.data.model.positions)

    @cached_property
    def weights(self) -> Array:
        """Weights (channels, sources) in the displayed unit; the first phase of a periodic structure."""
        return self._mixing * (self.channel_unit.factor if self.unit == "SD" else 1.0)

    @property
    def _mixing(self) -> Array:
        mixing = self.data.model.mixing
        return (mixing if mixing.ndim == 2 else mixing[0])[:, : self.data.sources.n_channels]

    @cached_property
    def channel_unit(self) -> DisplayUnit:
        """Displayed unit of the channels, chosen for the largest source in them."""
        sizes = np.abs(self._mixing * self._deviations)
        return choose_unit(self.data.model.unit, float(sizes.max(initial=0.0)))

    @cached_property
    def source_unit(self) -> DisplayUnit:
        """Displayed unit of the sources: that of the channels if they have the same unit."""
        unit = self.data.sources.unit
        if not unit:
            return DisplayUnit(get_unit(self.data))
        if self.data.has_weights and unit == self.data.model.unit:
            return self.channel_unit
        return choose_unit(unit, float(self._deviations.max()))

    @property
    def _deviations(self) -> Array:
        return np.sqrt(np.maximum(self.statistics.variance, 0))

    @property
    def unit(self) -> str:
        """Text of the unit of the sources."""
        return self.source_unit.unit

    @cached_property
    def model_changes(self) -> list[tuple[float, str]]:
        """Start and name of each model after the first one."""
        return find_model_changes(self.data)

    @property
    def weight_unit(self) -> str:
        """Unit of the weights: that of the channels if sources are in standard deviations."""
        return self.channel_unit.unit if self.unit == "SD" else ""

    def get_name(self, source: int) -> str:
        """Return the name of a source, as HTML."""
        return escape(self.data.sources.channels[source])

    def get_overview(self, source: int) -> Trace:
        """Return the trace of a source over the whole recording."""
        seen, factor = self.statistics.overview, self.source_unit.factor
        return Trace(seen.low[:, source] * factor, seen.high[:, source] * factor, seen.n_columns)


def write_source_table(sources: SourceSections) -> str:
    """Return the section with the order and the table of all sources."""
    return (
        f'<section id="sources"><h2>{sources.data.noun.title()}s</h2><p>{_describe_order(sources)}</p>'
        + write_command(sources.data)
        + _define_maps(sources)
        + render_table(*_make_table(sources))
        + "</section>"
    )


def write_source(sources: SourceSections, place: int) -> str:
    """Return the section of a source.

    Parameters
    ----------
    sources : SourceSections
    place : int
        Position in the order, from 0.
    """
    ranked = sources.order[place]
    badge = f' <span class="badge">{_BADGES[ranked.group]}</span>' if ranked.group in _BADGES else ""
    name = sources.get_name(ranked.source)
    box = render_box(sources.data, ranked.source, f'<span class="place">{place + 1}</span>')
    return (
        f'<section class="source" id="s{ranked.source}"><h3>{box} {name}'
        f'{badge}{_write_links(sources, place)}</h3><p class="why">{escape(ranked.reason)}</p>'
        f"{_write_label(sources, ranked.source)}"
        f'<div class="parts">{_write_facts(sources, ranked)}{_draw_pictures(sources, ranked.source)}</div>'
        f"{_draw_source_traces(sources, ranked.source)}</section>"
    )


def _write_label(sources: SourceSections, source: int) -> str:
    labels = sources.data.model.labels
    return "" if labels is None else describe_label(labels, source)


def _describe_order(sources: SourceSections) -> str:
    if sources.data.stream is not None:
        return (
            "Listed in the order of the stream. Its recording contains no weights, so explained "
            "variance is "
            "unknown."
        )
    labels = sources.data.model.labels
    return escape(RULE) + _describe_channels(sources) + ("" if labels is None else explain_labels(labels))


def _describe_channels(sources: SourceSections) -> str:
    found = sources.statistics.channels
    if found is None:
        return (
            " With this transform, sources do not add up to channels, so explained variance and "
            "correlations "
            "with channels are not shown."
        )
    if found.exact:
        return " Channels are reconstructed from the output, exactly up to rounding."
    return (
        " Channels are as modelled by the sources (mixing times sources). The output does not "
        "contain the rest "
        "of the channels, so the shares and correlations below disregard it."
    )


def _define_maps(sources: SourceSections) -> str:
    placed = sources.montage
    if not placed.has_map:
        return ""
    names = sources.data.model.channels
    return "".join(
        define_scalp_map(placed, sources.weights[:, one.source], names, f"m{one.source}")
        for one in sources.order[: sources.details]
    )


def _make_table(sources: SourceSections) -> tuple[list[str], list[list[str]], list[int]]:
    header = ["", sources.data.noun, "whole recording", "kurtosis"]
    if sources.data.has_weights:
        header[3:] = ["explained variance", "kurtosis", "strongest in"]
    mapped, referenced = (
        sources.montage.has_map,
        bool(sources.statistics.references.names),
    )
    if mapped:
        header.insert(2, "scalp map")
    if sources.data.model.labels is not None:
        header.append("label")
    if referenced:
        header.append("most similar reference")
    numbers = [i for i, name in enumerate(header) if name in ("explained variance", "kurtosis")]
    return header, [_make_row(sources, i, mapped, referenced) for i in range(len(sources.order))], numbers


def _make_row(sources: SourceSections, place: int, mapped: bool, referenced: bool) -> list[str]:
    ranked = sources.order[place]
    k, name, shown = ranked.source, sources.get_name(ranked.source), place < sources.details
    badge = f'<br><span class="badge">{_BADGES[ranked.group]}</span>' if ranked.group in _BADGES else ""
    row = [
        render_box(sources.data, k, f"{place + 1}"),
        (f'<a href="#s{k}">{name}</a>' if shown else name) + badge,
        draw_sparkline(
            sources.get_overview(k), f"Trace of {sources.data.sources.channels[k]} over the whole recording"
        ),
        format_decimal(sources.statistics.kurtosis[k]),
    ]
    if sources.data.has_weights:
        strongest = int(np.abs(sources.weights[:, k]).argmax())
        row[3:] = [_format_explained(sources, k), row[3], escape(sources.data.model.channels[strongest])]
    if mapped:
        row.insert(
            2,
            use_scalp_map(f"m{k}", f"Scalp map of {sources.data.sources.channels[k]}", "small")
            if shown
            else "",
        )
    labels = sources.data.model.labels
    if labels is not None:
        row.append(format_label(labels, k))
    if referenced:
        row.append(_format_most_similar(sources, ranked))
    return row


def _format_explained(sources: SourceSections, source: int) -> str:
    found = sources.statistics.channels
    return EN_DASH if found is None else format_percent(float(found.explained[source]))


def _format_most_similar(sources: SourceSections, ranked: RankedSource) -> str:
    if ranked.reference is None:
        return EN_DASH
    found = sources.statistics.references
    correlation = float(found.correlation[ranked.source, ranked.reference])
    return f"{escape(found.names[ranked.reference])} {format_correlation(correlation)}"


def _write_links(sources: SourceSections, place: int) -> str:
    shown = sources.order[: sources.details]
    links = ['<a href="#sources">all</a>']
    if place > 0:
        links.insert(0, f'<a rel="prev" href="#s{shown[place - 1].source}">previous</a>')
    if place + 1 < len(shown):
        links.append(f'<a rel="next" href="#s{shown[place + 1].source}">next</a>')
    return f'<span class="links">{" ".join(links)}</span>'


def _write_facts(sources: SourceSections, ranked: RankedSource) -> str:
    k, found = ranked.source, sources.statistics
    names, weights = sources.data.model.channels, sources.weights[:, ranked.source]
    strongest = np.argsort(-np.abs(weights), kind="stable")[:3]
    unit = f" {escape(sources.weight_unit)}" if sources.weight_unit else ""
    rows = [("kurtosis", format_decimal(found.kurtosis[k]))]
    learning = sources.data.model.learning
    if learning is not None and k < len(learning.reliability):
        rows.append(("reliability", f"{learning.reliability[k]:.0f} dB"))
    if sources.unit != "SD":
        of_source = "" if sources.unit == "1" else f" {escape(sources.unit)}"
        deviation = float(np.sqrt(found.variance[k])) * sources.source_unit.factor
        rows.append(("SD", f"{format_number(deviation)}{of_source}"))
    if sources.data.has_weights:
        most = "<br>".join(f"{escape(names[i])} {format_number(weights[i])}{unit}" for i in strongest)
        rows = [("explained variance", _format_explained(sources, k)), *rows, ("strongest in", most)]
    names, r = found.references.names, found.references.correlation[k]
    strong = np.argsort(-np.abs(np.nan_to_num(r)), kind="stable")[:8]
    if names:
        like = "<br>".join(f"{escape(names[i])} {format_correlation(float(r[i]))}" for i in strong)
        rows.append(("reference channels", like))
    return render_facts(rows)


def _draw_pictures(sources: SourceSections, k: int) -> str:
    data, found = sources.data, sources.statistics
    name = data.sources.channels[k]
    parts = []
    if sources.montage.has_map:
        size = float(np.abs(sources.weights[sources.montage.channels, k]).max())
        limit = f"{format_number(size)} {escape(sources.weight_unit)}".strip()
        key = f'<span class="low">{MINUS}{limit}</span><i class="key"></i><span class="high">{limit}</span>'
        parts.append(
            render_figure(
                use_scalp_map(f"m{k}", f"Weights of {name} on the scalp, seen from above"), key, "scalp"
            )
        )
    elif data.has_weights:
        parts.append(f'<p class="soft">No scalp map: {escape(sources.montage.reason)}.</p>')
    if data.model.mixing.ndim == 3:
        parts.append('<p class="soft">Weights vary periodically; those of the first phase are shown.</p>')
    if data.has_weights:
        bars = draw_weights(
            sources.weights[:, k],
            data.model.channels,
            sources.weight_unit,
            sources.marked,
            f"Weights of {name} in the channels",
        )
        parts.append(render_figure(bars, "weights in the channels"))
    plot = (
        draw_spectrum(
            found.frequency,
            found.density[:, k] * sources.source_unit.factor**2,
            sources.unit,
            bool(data.sources.rate),
            f"Spectrum of {name}",
        )
        if len(found.frequency)
        else ""
    )
    parts.append(
        render_figure(plot, "power spectral density")
        if plot
        else '<p class="soft">Too short for a spectrum.</p>'
    )
    return "".join(parts)


def _draw_source_traces(sources: SourceSections, k: int) -> str:
    data = sources.data
    name, rate = data.sources.channels[k], data.sources.rate
    excerpt = get_excerpt(data, int(sources.statistics.peaks[k]))
    near = draw_traces(
        [
            excerpt.make_trace(
                data.sources.read(excerpt.start, excerpt.stop, k) * sources.source_unit.factor
            )
        ],
        excerpt.get_span(rate),
        sources.unit,
        f"{name} around its largest value",
        marks=sorted([*sources.model_changes, *list_event_marks(data, excerpt)]),
    )
    far = draw_traces(
        [sources.get_overview(k)],
        get_full_span(data),
        sources.unit,
        f"{name} over the whole recording",
        find_gap_spans(data),
        90,
        marks=sources.model_changes,
    )
    return render_figure(near, "around the largest value") + render_figure(far, _describe_columns(sources))


def _describe_columns(sources: SourceSections) -> str:
    width = sources.statistics.overview.width
    return "the whole recording" + (
        f"; minimum and maximum of every {width:,} samples" if width > 1 else ""
    )


def list_source_links(sources: SourceSections) -> Sequence[tuple[str, str, str]]:
    """Return the sections of sources for the table of contents: address, name as HTML, badge."""
    return [
        (f"s{one.source}", sources.get_name(one.source), _BADGES.get(one.group, ""))
        for one in sources.order[: sources.details]
    ]
