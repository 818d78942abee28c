"""The section on what a recording of a stream holds."""

from collections.abc import Iterator

from igbss_stream.pages.plotting.scales import pretty
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.markup import facts, text
from igbss_stream.pages.report.origin import bad_stretches, length_of


def was_recorded(contents: Contents) -> str:
    """Return the section on the recording.

    Parameters
    ----------
    contents : Contents
        Of a stream.
    """
    return (
        '<section id="input"><h2>What was recorded</h2>'
        + facts(_of_recording(contents))
        + bad_stretches(contents)
        + "</section>"
    )


def _of_recording(contents: Contents) -> Iterator[tuple[str, str]]:
    stream, sources = contents.stream, contents.sources
    assert stream is not None
    yield "stream", f"<b>{text(stream.name)}</b>"
    if stream.began is not None:
        yield "first sample", f"{stream.began:%Y-%m-%d %H:%M:%S} UTC"
    yield f"{contents.noun}s", f"{sources.n_channels}"
    yield "rate", f"{sources.rate:g} Hz" if sources.rate else "not known"
    yield "samples", f"{sources.n_samples:,}"
    yield "duration", length_of(contents) + (", gaps not counted" if contents.n_missing else "")
    yield "unit", text(pretty(sources.unit)) or "not known"
    yield (
        "gaps",
        f"{len(contents.gaps)}" + (f", {contents.n_missing:,} samples missing" if contents.gaps else ""),
    )
    yield "delay", f"{stream.delay:,} samples"
    yield "made by", f"igbss_stream {text(stream.version)}"
