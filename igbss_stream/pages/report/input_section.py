"""Write the section on the input: the recording, its channels and gaps."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from igbss_stream.events import format_counts
from igbss_stream.files.results.output import OutputFacts
from igbss_stream.pages.markup import escape, format_duration, format_number, render_facts, render_table
from igbss_stream.pages.plotting.scales import format_unit
from igbss_stream.pages.report.data import ReportData
from igbss_stream.positions import locate_channels

_MAX_GAPS = 30  # rows of the table


def write_input(data: ReportData, marked: Sequence[int], not_separated: Sequence[str] = ()) -> str:
    """Return the section on the input of a separation.

    Parameters
    ----------
    data : ReportData
    marked : sequence of int
        Indices of the reference channels.
    not_separated : sequence of str
        Names of the reference channels that were not separated.
    """
    return (
        '<section id="input"><h2>Input</h2>'
        + render_facts(_list_input_facts(data, marked))
        + _write_channels(data, marked, not_separated)
        + write_gaps(data)
        + "</section>"
    )


def write_stream_input(data: ReportData) -> str:
    """Return the section on the recording of a stream.

    Parameters
    ----------
    data : ReportData
        Of a stream.
    """
    return (
        '<section id="input"><h2>Recording</h2>'
        + render_facts(_list_stream_facts(data))
        + write_gaps(data)
        + "</section>"
    )


def _list_stream_facts(data: ReportData) -> Iterator[tuple[str, str]]:
    stream, sources = data.stream, data.sources
    assert stream is not None
    yield "stream", f"<b>{escape(stream.name)}</b>"
    if stream.began is not None:
        yield "first sample", f"{stream.began:%Y-%m-%d %H:%M:%S} UTC"
    yield f"{data.noun}s", f"{sources.n_channels}"
    yield "rate", f"{sources.rate:g} Hz" if sources.rate else "unknown"
    yield "samples", f"{sources.n_samples:,}"
    yield "duration", format_length(data) + (", without gaps" if data.n_missing else "")
    yield "unit", escape(format_unit(sources.unit)) or "unknown"
    yield (
        "gaps",
        f"{len(data.gaps)}" + (f", {data.n_missing:,} samples missing" if data.gaps else ""),
    )
    yield from _list_events(data)
    yield "delay", f"{stream.delay:,} samples"
    yield "made by", f"igbss_stream {escape(stream.version)}"


def format_date(t0: float) -> str:
    """Format a Unix time."""
    return f"{datetime.fromtimestamp(t0, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_length(data: ReportData) -> str:
    """Format the duration of the recording."""
    rate, n = data.sources.rate, data.sources.n_samples
    return format_duration(n / rate) if rate else f"{n:,} samples"


def _list_input_facts(data: ReportData, marked: Sequence[int]) -> Iterator[tuple[str, str]]:
    attributes, rate = data.attributes, data.sources.rate
    given = ((data.facts.job or {}).get("input") or {}).get("size")
    size = f" ({_format_size(given)})" if isinstance(given, int) else ""
    yield "file", f"<b>{escape(attributes.get('input', 'unknown'))}</b>{size}"
    if attributes.get("dataset"):
        yield "dataset", escape(attributes["dataset"])
    yield (
        "channels",
        f"{len(data.model.channels)}" + (f", {len(marked)} of them reference channels" if marked else ""),
    )
    yield from _list_left_out(data.facts)
    yield "rate", f"{rate:g} Hz" if rate else "unknown"
    yield "samples", f"{data.sources.n_samples:,}"
    yield "duration", f"{format_length(data)}" + (", without gaps" if data.n_missing else "")
    yield "unit", escape(format_unit(data.model.unit)) or "unknown"
    yield (
        "gaps",
        f"{len(data.gaps)}" + (f", {data.n_missing:,} samples missing" if data.gaps else ""),
    )
    if data.sources.t0 is not None:
        yield "first sample", format_date(data.sources.t0)
    yield from _list_events(data)
    yield "places on maps", escape(_describe_places(data))
    for note in data.facts.notes:
        yield "note", escape(note)
    wanted = ((data.facts.job or {}).get("wanted") or {}).get("channels")
    if wanted:
        yield "selected channels", escape(wanted)


def _list_events(data: ReportData) -> Iterator[tuple[str, str]]:
    if data.events:
        yield "events", f"{len(data.events):,}: {escape(format_counts(data.events.count_labels(), 20))}"


def _describe_places(data: ReportData) -> str:
    found = locate_channels(data.model.channels, data.model.positions)
    if not len(found.channels):
        return f"none: {found.reason}"
    note = f" ({found.reason})" if found.reason else ""
    return f"{len(found.channels)} of {len(data.model.channels)} channels, by {found.source}{note}"


def _list_left_out(facts: OutputFacts) -> Iterator[tuple[str, str]]:
    """List the channels that were left out, and the samples that nothing was learned from."""
    for names, reason in (facts.bad, "left out as bad"), (facts.flat, "left out as flat"):
        if names:
            yield reason, escape(", ".join(names))
    if facts.n_bad_samples:
        n, rate = facts.n_bad_samples, facts.rate
        length = format_duration(n / rate) if rate else f"{n:,} samples"
        yield "not learned from", f"{length} that the recording marks as bad"


def _write_channels(data: ReportData, marked: Sequence[int], not_separated: Sequence[str]) -> str:
    names = [
        f'<b class="marked">{escape(name)}</b>' if i in marked else escape(name)
        for i, name in enumerate(data.model.channels[:1024])
    ]
    more = f" and {len(data.model.channels) - 1024} more" if len(data.model.channels) > 1024 else ""
    others = ", ".join(f'<b class="marked">{escape(name)}</b>' for name in not_separated)
    not_separated_note = f" Reference channels that were not separated: {others}." if not_separated else ""
    note = ' Reference channels are <b class="marked">in this colour</b>.' if marked else ""
    order = f'<span class="soft">In the order of the recording:</span> {", ".join(names)}{more}.'
    return f"<p>{order}{not_separated_note}{note}</p>"


def write_gaps(data: ReportData) -> str:
    """Return a table of the gaps, and a statement on the other samples."""
    if data.stream is not None and not data.gaps:
        return "<p>No samples are missing.</p>"
    job = (data.facts.job or {}).get("settings") or {}
    flat = (
        " Flat channels, if any, were dropped (<code>--drop-flat</code>)." if job.get("drop_flat") else ""
    )
    if not data.gaps:
        return (
            "<p>The recording has no gaps. All samples are finite: <code>batch</code> rejects others."
            f"{flat}</p>"
        )
    rate = data.sources.rate or 1.0
    unit = "s" if data.sources.rate else "samples"
    rows = []
    for gap in data.gaps[:_MAX_GAPS]:
        length = format_number(gap.n_samples / rate, 4) if gap.n_samples else "unknown"
        rows.append((format_number(gap.start / rate, 7), length, f"{gap.n_samples:,}", escape(gap.reason)))
    more = len(data.gaps) - len(rows)
    return (
        "<h3>Gaps</h3>"
        + render_table((f"from ({unit})", f"length ({unit})", "samples", "reason"), rows, (0, 1, 2))
        + (f"<p>{more} more are in <code>/gaps</code> of the output.</p>" if more else "")
        + f"<p>Reddish bands in the traces are gaps. Other samples are finite.{flat}</p>"
    )


def _format_size(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    power = min((len(str(size)) - 1) // 3, 3)
    return f"{format_number(size / 1000**power)} {('kB', 'MB', 'GB')[power - 1]}"
