"""The page as a whole: head, list of contents, sections. It refers to nothing outside of itself."""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from igbss_stream._util.progress import Progress
from igbss_stream._util.version import __version__
from igbss_stream.pages.report.before_after import cleaning
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.markup import text
from igbss_stream.pages.report.origin import length_of, was_separated, went_in
from igbss_stream.pages.report.ranking import ranking, references
from igbss_stream.pages.report.reference_channels import Aside
from igbss_stream.pages.report.source_sections import Sources, all_sources, contents_list, one_source
from igbss_stream.pages.report.statistics import look
from igbss_stream.pages.report.stream_section import was_recorded
from igbss_stream.pages.report.versions import versions_of_stream

DETAILS = 64
"""How many sources have a section of their own, where nothing else is asked for."""
_WORDS = (
    (
        "explains",
        "variance that a source alone makes in all channels, as a share of theirs: the squares of its "
        "weights, times its variance. Only uncorrelated sources add up to 100 %: learned ones nearly do, "
        "those of a structure that is fixed beforehand may each exceed it, since they cancel each other.",
    ),
    (
        "kurtosis",
        "fourth moment over the square of the second, less 3: 0 for a Gaussian, below for steady "
        "oscillations, far above for rare and large events such as blinks.",
    ),
    (
        "correlation",
        "of a source with a channel, over all samples. Reference channels are those by which the "
        "channels were cleaned, those asked for by --reference, and those named EOG, ECG or EMG.",
    ),
    (
        "on the scalp",
        "weights at the electrodes of the 10-20 system, seen from above, the nose up, between them by "
        "thin-plate splines; red where the source adds, blue where it takes off.",
    ),
    (
        "traces",
        "a column of the picture goes from the least to the largest of its samples: no peak is lost. "
        "Pink: samples are missing.",
    ),
    (
        "spectrum",
        "by Welch's method over all that lies between gaps, in segments of about 2 s (at most 4096 "
        "samples) less their trend.",
    ),
)
_OF_WEIGHTS = ("explains", "correlation", "on the scalp")
_HERE = Path(__file__).parent


def page(
    contents: Contents,
    asked: Sequence[str] = (),
    details: int = DETAILS,
    given: Path | None = None,
    tell: Progress | None = None,
) -> str:
    """Return the report on an output.

    Parameters
    ----------
    contents : Contents
    asked : sequence of str
        Channels that are references, beside those that are known to be.
    details : int
        How many sources have a section of their own.
    given : Path, optional
        The input, if channels that are asked for were not separated and it is not beside the output.
    tell : callable, optional
        Told how far it is.

    Returns
    -------
    str

    Raises
    ------
    IgbssError
        If samples cannot be read, or there is no such channel.
    """
    marked, beside = references(contents, asked)
    with Aside(contents, beside, given) as aside:
        found = look(contents, marked, aside, tell)
    sources = Sources(contents, found, marked, ranking(contents, found), details)
    shown = sources.order[:details]
    of_stream = contents.stream is not None
    body = [
        was_recorded(contents) if of_stream else went_in(contents, marked, beside),
        versions_of_stream(contents) if of_stream else was_separated(contents),
        all_sources(sources),
        *_each(sources, len(shown), tell),
        "" if of_stream else cleaning(sources),
        _how_to_read(contents),
    ]
    return _document(contents, sources, "".join(body))


def _each(sources: Sources, n: int, tell: Progress | None) -> Iterator[str]:
    """Yield the sections of the first n sources."""
    for place in range(n):
        yield one_source(sources, place)
        if tell is not None:
            tell("drawing sources", place + 1, n)


def _document(contents: Contents, sources: Sources, body: str) -> str:
    style, script = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    name = text(contents.attributes.get("input") or contents.path.name)
    n = contents.sources.n_channels
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="generator" content="igbss_stream {__version__}">'
        f"<title>{name}: {n} {contents.noun}s</title><style>{style}</style></head><body>"
        f'<a class="skip" href="#input">Skip the list of contents</a>{_contents(sources)}'
        f"<main><header><h1>{name}</h1><p>{_subtitle(contents)} From {text(contents.path.name)}.</p>"
        f"</header>{body}"
        f"<footer>Made by igbss_stream {__version__}.</footer></main>"
        f"<script>{script}</script></body></html>\n"
    )


def _subtitle(contents: Contents) -> str:
    n, length = contents.sources.n_channels, length_of(contents)
    if contents.stream is not None:
        return f"A stream of {n} {contents.noun}s, recorded for {length}."
    return f"{len(contents.model.channels)} channels, {length}, separated into {n} sources."


def _contents(sources: Sources) -> str:
    def item(address: str, name: str, badge: str = "") -> str:
        kind = ' class="out"' if badge else ""
        return f'<li{kind}><a href="#{address}">{name}</a></li>'

    of_stream = sources.contents.stream is not None
    each = "".join(item(*entry) for entry in contents_list(sources))
    return (
        '<nav aria-label="Contents"><ul>'
        + item("input", "What was recorded" if of_stream else "What went in")
        + item("method", "Which models made it" if of_stream else "How it was separated")
        + f'<li><a href="#sources">{sources.contents.noun.title()}s</a><ul>{each}</ul></li>'
        + ("" if of_stream else item("cleaning", "Cleaning"))
        + item("reading", "How to read this")
        + '</ul><p class="keys"><kbd>J</kbd> next, <kbd>K</kbd> previous</p></nav>'
    )


def _how_to_read(contents: Contents) -> str:
    words = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(meaning)}</dd></div>"
        for name, meaning in _WORDS
        if contents.has_weights or name not in _OF_WEIGHTS
    )
    return f'<section id="reading"><h2>How to read this</h2><dl class="words">{words}</dl></section>'


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
