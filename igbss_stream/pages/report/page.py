"""Assemble the report: head, table of contents and sections. The page loads nothing."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from igbss_stream._util.progress import Progress
from igbss_stream._util.version import __version__
from igbss_stream.pages.markup import escape
from igbss_stream.pages.report.cleaning_section import write_cleaning
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.input_section import format_length, write_input, write_stream_input
from igbss_stream.pages.report.method_section import write_method, write_stream_versions
from igbss_stream.pages.report.ranking import find_references, rank_sources
from igbss_stream.pages.report.reference_channels import ReferenceReader
from igbss_stream.pages.report.source_sections import (
    SourceSections,
    list_source_links,
    write_source,
    write_source_table,
)
from igbss_stream.pages.report.statistics import collect_statistics

DEFAULT_DETAILS = 64
"""Default number of sources with a separate section."""
_DEFINITIONS = (
    (
        "explained variance",
        "the squared weights of a source, summed over channels, times its variance, as a share of "
        "the variance "
        "of all channels. Only uncorrelated sources add up to 100 %. Learned sources nearly do; "
        "each source of "
        "a structure fixed beforehand may exceed 100 %, because these sources cancel each other.",
    ),
    (
        "kurtosis",
        "the fourth central moment divided by the square of the second, minus 3. It is 0 for a Gaussian, "
        "negative for steady oscillations, and large for rare and large events such as blinks.",
    ),
    (
        "correlation",
        "of a source with a channel, over all samples. Reference channels are the channels used "
        "for cleaning, "
        "the channels given by --reference, and channels named EOG, ECG or EMG.",
    ),
    (
        "scalp map",
        "weights at the places of the channels, by position or else by names of the 10-20 system, seen "
        "from above with the nose at the top, interpolated by thin-plate splines. Red weights are "
        "positive, blue weights are negative.",
    ),
    (
        "traces",
        "each column spans the range from the smallest to the largest of its samples, so that no "
        "peak is lost. "
        "Reddish bands mark missing samples.",
    ),
    (
        "spectrum",
        "Welch's method between gaps, with segments of about 2 s (at most 4096 samples) and the "
        "linear trend "
        "removed.",
    ),
)
_NEED_WEIGHTS = ("explained variance", "correlation", "scalp map")
_HERE = Path(__file__).parent


def render_page(
    data: ReportData,
    reference_names: Sequence[str] = (),
    details: int = DEFAULT_DETAILS,
    input_path: Path | None = None,
    progress: Progress | None = None,
) -> str:
    """Return the report on an output.

    Parameters
    ----------
    data : ReportData
    reference_names : sequence of str
        Additional reference channels.
    details : int
        Number of sources with a separate section.
    input_path : Path, optional
        The input, needed if reference channels were not separated and the input is not next to the output.
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    str

    Raises
    ------
    IgbssError
        If samples cannot be read, or a reference channel does not exist.
    """
    marked, not_separated = find_references(data, reference_names)
    with ReferenceReader(data, not_separated, input_path) as reader:
        statistics = collect_statistics(data, marked, reader, progress)
    sources = SourceSections(data, statistics, marked, rank_sources(data, statistics), details)
    shown = sources.order[:details]
    is_stream = data.stream is not None
    body = [
        write_stream_input(data) if is_stream else write_input(data, marked, not_separated),
        write_stream_versions(data) if is_stream else write_method(data),
        write_source_table(sources),
        *_write_sources(sources, len(shown), progress),
        "" if is_stream else write_cleaning(sources),
        _write_definitions(data),
    ]
    return _assemble(data, sources, "".join(body))


def _write_sources(sources: SourceSections, n: int, progress: Progress | None) -> Iterator[str]:
    """Yield the sections of the first n sources."""
    for place in range(n):
        yield write_source(sources, place)
        if progress is not None:
            progress("drawing sources", place + 1, n)


def _assemble(data: ReportData, sources: SourceSections, body: str) -> str:
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_compute_digest(style)}'; script-src "
        f"'{_compute_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    name = escape(data.attributes.get("input") or data.path.name)
    n = data.sources.n_channels
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta name="generator" content="igbss_stream {__version__}">'
        f"<title>{name}: {n} {data.noun}s</title><style>{style}</style></head><body>"
        f'<a class="skip" href="#input">Skip the table of contents</a>{_write_navigation(sources)}'
        f"<main><header><h1>{name}</h1><p>{_make_subtitle(data)} From {escape(data.path.name)}.</p>"
        f"</header>{body}"
        f"<footer>Written by igbss_stream {__version__}.</footer></main>"
        f"<script>{script}</script></body></html>\n"
    )


def _make_subtitle(data: ReportData) -> str:
    n, length = data.sources.n_channels, format_length(data)
    if data.stream is not None:
        return f"A stream of {n} {data.noun}s, recorded for {length}."
    return f"{len(data.model.channels)} channels, {length}, separated into {n} sources."


def _write_navigation(sources: SourceSections) -> str:
    def item(address: str, name: str, badge: str = "") -> str:
        kind = ' class="out"' if badge else ""
        return f'<li{kind}><a href="#{address}">{name}</a></li>'

    is_stream = sources.data.stream is not None
    each = "".join(item(*entry) for entry in list_source_links(sources))
    return (
        '<nav aria-label="Contents"><ul>'
        + item("input", "Recording" if is_stream else "Input")
        + item("method", "Models" if is_stream else "Method")
        + f'<li><a href="#sources">{sources.data.noun.title()}s</a><ul>{each}</ul></li>'
        + ("" if is_stream else item("cleaning", "Cleaning"))
        + item("reading", "Definitions")
        + '</ul><p class="keys"><kbd>J</kbd> next, <kbd>K</kbd> previous</p></nav>'
    )


def _write_definitions(data: ReportData) -> str:
    words = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(meaning)}</dd></div>"
        for name, meaning in _DEFINITIONS
        if data.has_weights or name not in _NEED_WEIGHTS
    )
    return f'<section id="reading"><h2>Definitions</h2><dl class="words">{words}</dl></section>'


def _compute_digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
