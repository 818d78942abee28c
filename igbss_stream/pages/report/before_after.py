"""The section on cleaning: channels before and after."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.report.blocks import Piece
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.excerpt import Stretch, around
from igbss_stream.pages.report.markup import figure, number, percent, signed, table, text
from igbss_stream.pages.report.plots import head, head_symbol, trace_plot
from igbss_stream.pages.report.reconstruct import Rebuilt
from igbss_stream.pages.report.source_sections import Sources
from igbss_stream.pages.report.statistics import OfChannels

Array = NDArray[np.float64]

_SHOWN = 6  # channels whose traces are drawn
_MOST_REFERENCES = 4  # columns of the table


def cleaning(sources: Sources) -> str:
    """Return the section on what cleaning did, or how to clean.

    Parameters
    ----------
    sources : Sources
    """
    found = sources.found.channels
    if sources.contents.cleaned is None or found is None or found.after is None:
        return f'<section id="cleaning"><h2>Cleaning</h2>{_how_to(sources)}</section>'
    removed = _removed(found)
    return (
        f'<section id="cleaning"><h2>Before and after cleaning</h2><p>{_in_words(sources, found)}</p>'
        + f'<div class="beside">{_map(sources, removed)}{_traces(sources, removed)}</div>'
        + table(*_rows(sources, found, removed))
        + "</section>"
    )


def _how_to(sources: Sources) -> str:
    alike = [one.source for one in sources.order if one.group == "like a reference"]
    which = ",".join(map(str, alike)) or "0,3"
    hint = (
        f"Those like a reference channel would be taken out by <code>batch --exclude {which}</code>."
        if alike
        else f"<code>batch --exclude {which}</code> and <code>--exclude-like EOG1:0.5</code> write the "
        "channels without some."
    )
    return f"<p>No source was taken out of the channels. {hint}</p>"


def _removed(found: OfChannels) -> Array:
    """Return the share of the variance of each channel that is gone."""
    assert found.after is not None
    share = np.divide(found.after, found.variance, out=np.ones_like(found.after), where=found.variance > 0)
    return np.asarray(1 - share)


def _in_words(sources: Sources, found: OfChannels) -> str:
    assert found.after is not None
    gone = sources.contents.excluded_sources
    if not gone:
        return "No source was like the channels that were asked for: the channels are as they were."
    names = ", ".join(f'<a href="#s{k}">{sources.name(k)}</a>' for k in gone)
    total = 1 - float(found.after.sum() / found.variance.sum())
    was, it = ("was", "it") if len(gone) == 1 else ("were", "them")
    return f"{names} {was} taken out, and with {it} {percent(total)} of the variance of all channels."


def _map(sources: Sources, removed: Array) -> str:
    if sources.placed is None:
        return ""
    names = sources.contents.model.channels
    symbol = head_symbol(sources.placed, np.clip(removed, 0, 1), names, "gone", light=True)
    key = '<span class="low">0 %</span><i class="key light"></i><span class="high">100 %</span>'
    picture = head("gone", "Share of the variance of each channel that was taken out, on the scalp")
    return symbol + figure(picture, f"{key}<br>share of variance taken out", "scalp")


def _traces(sources: Sources, removed: Array) -> str:
    found, contents = sources.found.channels, sources.contents
    assert found is not None
    stretch = around(contents, found.peak)
    read = sources.of_channels
    before, after = (x * read.factor for x in _samples(contents, stretch))
    shown = np.sort(np.argsort(-removed, kind="stable")[:_SHOWN])
    pictures = [
        f"<h4>{text(contents.model.channels[i])}</h4>"
        + trace_plot(
            [stretch.trace(before[:, i], "before"), stretch.trace(after[:, i], "after")],
            stretch.span(contents.sources.rate),
            read.unit,
            f"{contents.model.channels[i]} before and after cleaning",
            height=84 if i == shown[-1] else 70,
            timed=i == shown[-1],
        )
        for i in shown.tolist()
    ]
    key = '<span class="before-key">before</span> and <span class="after-key">after</span>'
    return figure(
        "".join(pictures),
        f"{key}: the {len(shown)} channels that lose the largest share, where most is taken off",
        "traces",
    )


def _samples(contents: Contents, stretch: Stretch) -> tuple[Array, Array]:
    assert contents.cleaned is not None
    cleaned = contents.cleaned.read(stretch.start, stretch.stop)
    sources = contents.sources.read(stretch.start, stretch.stop)
    piece = Piece(stretch.start, stretch.index, sources, cleaned, True)
    return Rebuilt(contents).before(piece), cleaned.astype(np.float64)


def _rows(
    sources: Sources, found: OfChannels, removed: Array
) -> tuple[list[str], list[list[str]], list[int]]:
    assert found.after is not None
    assert found.likeness is not None
    names, read = sources.contents.model.channels, sources.of_channels
    n_marked = min(len(sources.marked), _MOST_REFERENCES)
    sd = f"SD before{f' ({read.unit})' if read.unit else ''}"
    header = [
        "channel",
        sd,
        "SD after",
        "variance taken out",
        *(f"correlation with {names[m]}" for m in sources.marked[:n_marked]),
    ]
    deviations = [read.factor * np.sqrt(np.maximum(x, 0)) for x in (found.variance, found.after)]
    rows = [
        [
            f'<b class="marked">{text(name)}</b>' if i in sources.marked else text(name),
            number(deviations[0][i]),
            number(deviations[1][i]),
            percent(removed[i]),
            *(" → ".join(signed(float(r)) for r in found.likeness[:, i, m]) for m in range(n_marked)),
        ]
        for i, name in enumerate(names)
    ]
    return header, rows, list(range(1, len(header)))
