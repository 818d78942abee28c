"""Sections on the sources: all in a table, and each with its pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.plotting.scales import Reading, reading
from igbss_stream.pages.plotting.scalp import Montage, montage
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.excerpt import around, gap_spans, whole
from igbss_stream.pages.report.markup import (
    MINUS,
    NONE,
    decimal,
    facts,
    figure,
    number,
    percent,
    signed,
    table,
    text,
)
from igbss_stream.pages.report.origin import unit_of
from igbss_stream.pages.report.plots import (
    Trace,
    head,
    head_symbol,
    spark,
    spectrum_plot,
    trace_plot,
    weights_plot,
)
from igbss_stream.pages.report.ranking import RULE, Ranked
from igbss_stream.pages.report.statistics import Look
from igbss_stream.pages.report.versions import model_marks

Array = NDArray[np.float64]

_BADGES = {"taken out": "taken out", "like a reference": "like a reference"}


@dataclass(frozen=True, eq=False)
class Sources:
    """What sections on sources are written from.

    Parameters
    ----------
    contents : Contents
    found : Look
    marked : tuple of int
        Reference channels.
    order : list of Ranked
    details : int
        How many sources have a section of their own.
    """

    contents: Contents
    found: Look
    marked: tuple[int, ...]
    order: list[Ranked]
    details: int

    @cached_property
    def placed(self) -> Montage | None:
        """Where the channels lie on the scalp."""
        return montage(self.contents.model.channels)

    @cached_property
    def weights(self) -> Array:
        """Weights (channels, sources) as they are read, of a structure with periods those of the first."""
        return self._mixing * (self.of_channels.factor if self.unit == "SD" else 1.0)

    @property
    def _mixing(self) -> Array:
        mixing = self.contents.model.mixing
        return (mixing if mixing.ndim == 2 else mixing[0])[:, : self.contents.sources.n_channels]

    @cached_property
    def of_channels(self) -> Reading:
        """How samples of channels are read, by the largest of the sources in them."""
        sizes = np.abs(self._mixing * self._deviations)
        return reading(self.contents.model.unit, float(sizes.max(initial=0.0)))

    @cached_property
    def of_sources(self) -> Reading:
        """How samples of sources are read: as those of channels where they have the same unit."""
        unit = self.contents.sources.unit
        if not unit:
            return Reading(unit_of(self.contents))
        if self.contents.has_weights and unit == self.contents.model.unit:
            return self.of_channels
        return reading(unit, float(self._deviations.max()))

    @property
    def _deviations(self) -> Array:
        return np.sqrt(np.maximum(self.found.variance, 0))

    @property
    def unit(self) -> str:
        """Unit of the sources, as it is printed."""
        return self.of_sources.unit

    @cached_property
    def model_marks(self) -> list[tuple[float, str]]:
        """When another model took force, and its name."""
        return model_marks(self.contents)

    @property
    def unit_of_weights(self) -> str:
        """Unit of the weights: that of the channels where sources are in standard deviations."""
        return self.of_channels.unit if self.unit == "SD" else ""

    def name(self, source: int) -> str:
        """Return the name of a source, as HTML."""
        return text(self.contents.sources.channels[source])

    def overview(self, source: int) -> Trace:
        """Return the trace of a source over the whole recording."""
        seen, factor = self.found.overview, self.of_sources.factor
        return Trace(seen.low[:, source] * factor, seen.high[:, source] * factor, seen.n_columns)


def all_sources(sources: Sources) -> str:
    """Return the section with all sources in a table, the rule of their order above it."""
    return (
        f'<section id="sources"><h2>{sources.contents.noun.title()}s</h2><p>{_rule(sources)}</p>'
        + _symbols(sources)
        + table(*_overview(sources))
        + "</section>"
    )


def one_source(sources: Sources, place: int) -> str:
    """Return the section of a source.

    Parameters
    ----------
    sources : Sources
    place : int
        In the order, from 0.
    """
    ranked = sources.order[place]
    badge = f' <span class="badge">{_BADGES[ranked.group]}</span>' if ranked.group in _BADGES else ""
    name = sources.name(ranked.source)
    return (
        f'<section class="source" id="s{ranked.source}"><h3><span class="place">{place + 1}</span> {name}'
        f'{badge}{_links(sources, place)}</h3><p class="why">{text(ranked.why)}</p>'
        f'<div class="parts">{_facts(sources, ranked)}{_pictures(sources, ranked.source)}</div>'
        f"{_traces(sources, ranked.source)}</section>"
    )


def _rule(sources: Sources) -> str:
    if sources.contents.stream is not None:
        return (
            "In the order of the stream, whose recording keeps no weights: what they explain is not told."
        )
    return text(RULE) + _what_channels(sources)


def _what_channels(sources: Sources) -> str:
    found = sources.found.channels
    if found is None:
        return (
            " With this transform sources do not add up to the channels: explained variance and "
            "correlations with channels are not told."
        )
    if found.exact:
        return " Channels are rebuilt from what the output holds, exactly but for rounding."
    return (
        " Channels are taken as the model has them, mixing times sources: what no source explains is not "
        "in the output, and the shares and correlations below do not know of it."
    )


def _symbols(sources: Sources) -> str:
    placed = sources.placed
    if placed is None:
        return ""
    names = sources.contents.model.channels
    return "".join(
        head_symbol(placed, sources.weights[:, one.source], names, f"m{one.source}")
        for one in sources.order[: sources.details]
    )


def _overview(sources: Sources) -> tuple[list[str], list[list[str]], list[int]]:
    header = ["", sources.contents.noun, "whole recording", "kurtosis"]
    if sources.contents.has_weights:
        header[3:] = ["explains", "kurtosis", "strongest in"]
    mapped, referenced = (
        sources.placed is not None,
        bool(sources.found.references.names),
    )
    if mapped:
        header.insert(2, "on the scalp")
    if referenced:
        header.append("most like reference")
    numbers = [i for i, name in enumerate(header) if name in ("explains", "kurtosis")]
    return header, [_row(sources, i, mapped, referenced) for i in range(len(sources.order))], numbers


def _row(sources: Sources, place: int, mapped: bool, referenced: bool) -> list[str]:
    ranked = sources.order[place]
    k, name, shown = ranked.source, sources.name(ranked.source), place < sources.details
    badge = f'<br><span class="badge">{_BADGES[ranked.group]}</span>' if ranked.group in _BADGES else ""
    row = [
        f"{place + 1}",
        (f'<a href="#s{k}">{name}</a>' if shown else name) + badge,
        spark(
            sources.overview(k), f"Trace of {sources.contents.sources.channels[k]} over the whole recording"
        ),
        decimal(sources.found.kurtosis[k]),
    ]
    if sources.contents.has_weights:
        strongest = int(np.abs(sources.weights[:, k]).argmax())
        row[3:] = [_explained(sources, k), row[3], text(sources.contents.model.channels[strongest])]
    if mapped:
        row.insert(
            2,
            head(f"m{k}", f"Scalp map of {sources.contents.sources.channels[k]}", "small") if shown else "",
        )
    if referenced:
        row.append(_most_like(sources, ranked))
    return row


def _explained(sources: Sources, source: int) -> str:
    found = sources.found.channels
    return NONE if found is None else percent(float(found.explained[source]))


def _most_like(sources: Sources, ranked: Ranked) -> str:
    if ranked.like is None:
        return NONE
    found = sources.found.references
    return (
        f"{text(found.names[ranked.like])} {signed(float(found.correlation[ranked.source, ranked.like]))}"
    )


def _links(sources: Sources, place: int) -> str:
    shown = sources.order[: sources.details]
    links = ['<a href="#sources">all</a>']
    if place > 0:
        links.insert(0, f'<a rel="prev" href="#s{shown[place - 1].source}">previous</a>')
    if place + 1 < len(shown):
        links.append(f'<a rel="next" href="#s{shown[place + 1].source}">next</a>')
    return f'<span class="links">{" ".join(links)}</span>'


def _facts(sources: Sources, ranked: Ranked) -> str:
    k, found = ranked.source, sources.found
    names, weights = sources.contents.model.channels, sources.weights[:, ranked.source]
    strongest = np.argsort(-np.abs(weights), kind="stable")[:3]
    unit = f" {text(sources.unit_of_weights)}" if sources.unit_of_weights else ""
    rows = [("kurtosis", decimal(found.kurtosis[k]))]
    if sources.unit != "SD":
        of_source = "" if sources.unit == "1" else f" {text(sources.unit)}"
        deviation = float(np.sqrt(found.variance[k])) * sources.of_sources.factor
        rows.append(("SD", f"{number(deviation)}{of_source}"))
    if sources.contents.has_weights:
        most = "<br>".join(f"{text(names[i])} {number(weights[i])}{unit}" for i in strongest)
        rows = [("explains", _explained(sources, k)), *rows, ("strongest in", most)]
    names, r = found.references.names, found.references.correlation[k]
    strong = np.argsort(-np.abs(np.nan_to_num(r)), kind="stable")[:8]
    if names:
        like = "<br>".join(f"{text(names[i])} {signed(float(r[i]))}" for i in strong)
        rows.append(("like references", like))
    return facts(rows)


def _pictures(sources: Sources, k: int) -> str:
    contents, found = sources.contents, sources.found
    name = contents.sources.channels[k]
    parts = []
    if sources.placed is not None:
        size = float(np.abs(sources.weights[sources.placed.channels, k]).max())
        limit = f"{number(size)} {text(sources.unit_of_weights)}".strip()
        key = f'<span class="low">{MINUS}{limit}</span><i class="key"></i><span class="high">{limit}</span>'
        parts.append(
            figure(head(f"m{k}", f"Weights of {name} on the scalp, seen from above"), key, "scalp")
        )
    elif contents.model.mixing.ndim == 3:
        parts.append(
            '<p class="soft">Weights change from sample to sample; those of the first are shown.</p>'
        )
    if contents.has_weights:
        bars = weights_plot(
            sources.weights[:, k],
            contents.model.channels,
            sources.unit_of_weights,
            sources.marked,
            f"Weights of {name} in the channels",
        )
        parts.append(figure(bars, "weights in the channels"))
    plot = (
        spectrum_plot(
            found.frequency,
            found.density[:, k] * sources.of_sources.factor**2,
            sources.unit,
            bool(contents.sources.rate),
            f"Spectrum of {name}",
        )
        if len(found.frequency)
        else ""
    )
    parts.append(
        figure(plot, "power spectral density") if plot else '<p class="soft">Too short for a spectrum.</p>'
    )
    return "".join(parts)


def _traces(sources: Sources, k: int) -> str:
    contents = sources.contents
    name, rate = contents.sources.channels[k], contents.sources.rate
    stretch = around(contents, int(sources.found.peaks[k]))
    near = trace_plot(
        [stretch.trace(contents.sources.read(stretch.start, stretch.stop, k) * sources.of_sources.factor)],
        stretch.span(rate),
        sources.unit,
        f"{name} where it is largest",
        marks=sources.model_marks,
    )
    far = trace_plot(
        [sources.overview(k)],
        whole(contents),
        sources.unit,
        f"{name} over the whole recording",
        gap_spans(contents),
        90,
        marks=sources.model_marks,
    )
    return figure(near, "where it is largest") + figure(far, _columns_told(sources))


def _columns_told(sources: Sources) -> str:
    width = sources.found.overview.width
    return "the whole recording" + (f"; least and largest of every {width:,} samples" if width > 1 else "")


def contents_list(sources: Sources) -> Sequence[tuple[str, str, str]]:
    """Return the sections of sources for the list of contents: address, name as HTML, badge."""
    return [
        (f"s{one.source}", sources.name(one.source), _BADGES.get(one.group, ""))
        for one in sources.order[: sources.details]
    ]
