"""Write the section on cleaning: channels before and after."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.markup import (
    escape,
    format_correlation,
    format_number,
    format_percent,
    render_figure,
    render_table,
)
from igbss_stream.pages.report.blocks import SampleBlock
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.plots import define_scalp_map, draw_traces, use_scalp_map
from igbss_stream.pages.report.reconstruct import ChannelReconstructor
from igbss_stream.pages.report.source_sections import SourceSections
from igbss_stream.pages.report.statistics import ChannelStatistics
from igbss_stream.pages.report.traces import TraceExcerpt, get_excerpt, list_event_marks

Array = NDArray[np.float64]

_MAX_TRACES = 6  # channels whose traces are drawn
_MAX_REFERENCES = 4  # columns of the table


def write_cleaning(sources: SourceSections) -> str:
    """Return the section on the effect of cleaning, or on how to clean.

    Parameters
    ----------
    sources : SourceSections
    """
    found = sources.statistics.channels
    if sources.data.cleaned is None or found is None or found.after is None:
        return f'<section id="cleaning"><h2>Cleaning</h2>{_suggest_cleaning(sources)}</section>'
    removed = _compute_removed_share(found)
    return (
        f'<section id="cleaning"><h2>Cleaning</h2><p>{_describe_removal(sources, found)}</p>'
        + f'<div class="beside">{_draw_map(sources, removed)}{_draw_channel_traces(sources, removed)}</div>'
        + render_table(*_make_table(sources, found, removed))
        + "</section>"
    )


def _suggest_cleaning(sources: SourceSections) -> str:
    similar = [one.source for one in sources.order if one.group in ("like a reference", "labelled")]
    which = ",".join(map(str, similar)) or "0,3"
    hint = (
        "To exclude the sources that resemble a reference channel or are labelled as artefacts, run "
        f"<code>batch --exclude {which}</code>."
        if similar
        else f"To write channels without some sources, run <code>batch --exclude {which}</code> or "
        "<code>batch --exclude-like EOG1:0.5</code>."
    )
    return f"<p>No source was excluded from the channels. {hint}</p>"


def _compute_removed_share(found: ChannelStatistics) -> Array:
    """Return the share of the variance of each channel that cleaning removed."""
    assert found.after is not None
    share = np.divide(found.after, found.variance, out=np.ones_like(found.after), where=found.variance > 0)
    return np.asarray(1 - share)


def _describe_removal(sources: SourceSections, found: ChannelStatistics) -> str:
    assert found.after is not None
    excluded = sources.data.excluded_sources
    if not excluded:
        return "No source resembled the given channels, so the channels are unchanged."
    names = ", ".join(f'<a href="#s{k}">{sources.get_name(k)}</a>' for k in excluded)
    total = 1 - float(found.after.sum() / found.variance.sum())
    was = "was" if len(excluded) == 1 else "were"
    return f"{names} {was} excluded, which removed {format_percent(total)} of the variance of all channels."


def _draw_map(sources: SourceSections, removed: Array) -> str:
    if not sources.montage.has_map:
        return ""
    names = sources.data.model.channels
    symbol = define_scalp_map(sources.montage, np.clip(removed, 0, 1), names, "gone", light=True)
    key = '<span class="low">0 %</span><i class="key light"></i><span class="high">100 %</span>'
    picture = use_scalp_map("gone", "Scalp map of the share of the variance removed from each channel")
    return symbol + render_figure(picture, f"{key}<br>share of variance removed", "scalp")


def _draw_channel_traces(sources: SourceSections, removed: Array) -> str:
    found, data = sources.statistics.channels, sources.data
    assert found is not None
    excerpt = get_excerpt(data, found.peak)
    unit = sources.channel_unit
    before, after = (x * unit.factor for x in _read_samples(data, excerpt))
    marks = list_event_marks(data, excerpt)
    shown = np.sort(np.argsort(-removed, kind="stable")[:_MAX_TRACES])
    pictures = [
        f"<h4>{escape(data.model.channels[i])}</h4>"
        + draw_traces(
            [excerpt.make_trace(before[:, i], "before"), excerpt.make_trace(after[:, i], "after")],
            excerpt.get_span(data.sources.rate),
            unit.unit,
            f"{data.model.channels[i]} before and after cleaning",
            height=84 if i == shown[-1] else 70,
            timed=i == shown[-1],
            marks=marks,
        )
        for i in shown.tolist()
    ]
    key = '<span class="before-key">before</span> and <span class="after-key">after</span>'
    return render_figure(
        "".join(pictures),
        f"{key}: the {len(shown)} channels that lose the largest share, around the largest removed signal",
        "traces",
    )


def _read_samples(data: ReportData, excerpt: TraceExcerpt) -> tuple[Array, Array]:
    assert data.cleaned is not None
    cleaned = data.cleaned.read(excerpt.start, excerpt.stop)
    sources = data.sources.read(excerpt.start, excerpt.stop)
    block = SampleBlock(excerpt.start, excerpt.index, sources, cleaned, True)
    return ChannelReconstructor(data).compute_before(block), cleaned.astype(np.float64)


def _make_table(
    sources: SourceSections, found: ChannelStatistics, removed: Array
) -> tuple[list[str], list[list[str]], list[int]]:
    assert found.after is not None
    assert found.reference_correlation is not None
    names, unit = sources.data.model.channels, sources.channel_unit
    n_marked = min(len(sources.marked), _MAX_REFERENCES)
    sd = f"SD before{f' ({unit.unit})' if unit.unit else ''}"
    header = [
        "channel",
        sd,
        "SD after",
        "variance removed",
        *(f"correlation with {names[m]}" for m in sources.marked[:n_marked]),
    ]
    deviations = [unit.factor * np.sqrt(np.maximum(x, 0)) for x in (found.variance, found.after)]
    rows = [
        [
            f'<b class="marked">{escape(name)}</b>' if i in sources.marked else escape(name),
            format_number(deviations[0][i]),
            format_number(deviations[1][i]),
            format_percent(removed[i]),
            *(
                " → ".join(format_correlation(float(r)) for r in found.reference_correlation[:, i, m])
                for m in range(n_marked)
            ),
        ]
        for i, name in enumerate(names)
    ]
    return header, rows, list(range(1, len(header)))
