"""Sections on what went in, and on how it was separated."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from igbss_stream.pages.plotting.scales import pretty
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.convergence import convergence
from igbss_stream.pages.report.markup import duration, facts, number, table, text
from igbss_stream.pages.report.versions import versions

_MOST_GAPS = 30  # that a table lists
_PLAIN = ("filter_order", "notch_width")  # that do nothing on their own


def went_in(contents: Contents, marked: Sequence[int], beside: Sequence[str] = ()) -> str:
    """Return the section on the recording.

    Parameters
    ----------
    contents : Contents
    marked : sequence of int
        Reference channels.
    beside : sequence of str
        Those that were not separated.
    """
    return (
        '<section id="input"><h2>What went in</h2>'
        + facts(_of_recording(contents, marked))
        + _channels(contents, marked, beside)
        + bad_stretches(contents)
        + "</section>"
    )


def was_separated(contents: Contents) -> str:
    """Return the section on settings, model and convergence."""
    return (
        '<section id="method"><h2>How it was separated</h2>'
        + facts(_of_method(contents))
        + versions(contents)
        + convergence(contents)
        + "<details><summary>All settings</summary>"
        + table(("setting", "value"), _settings(contents))
        + "</details></section>"
    )


def length_of(contents: Contents) -> str:
    """Return how long the recording is, as text."""
    rate, n = contents.sources.rate, contents.sources.n_samples
    return duration(n / rate) if rate else f"{n:,} samples"


def _of_recording(contents: Contents, marked: Sequence[int]) -> Iterator[tuple[str, str]]:
    told, rate = contents.attributes, contents.sources.rate
    given = ((contents.facts.job or {}).get("input") or {}).get("size")
    size = f" ({_bytes(given)})" if isinstance(given, int) else ""
    yield "file", f"<b>{text(told.get('input', 'not told'))}</b>{size}"
    if told.get("dataset"):
        yield "dataset", text(told["dataset"])
    yield (
        "channels",
        f"{len(contents.model.channels)}" + (f", {len(marked)} of them references" if marked else ""),
    )
    yield "rate", f"{rate:g} Hz" if rate else "not known"
    yield "samples", f"{contents.sources.n_samples:,}"
    yield "duration", f"{length_of(contents)}" + (", gaps not counted" if contents.n_missing else "")
    yield "unit", text(pretty(contents.model.unit)) or "not known"
    yield (
        "gaps",
        f"{len(contents.gaps)}" + (f", {contents.n_missing:,} samples missing" if contents.gaps else ""),
    )
    wanted = ((contents.facts.job or {}).get("wanted") or {}).get("channels")
    if wanted:
        yield "channels asked for", text(wanted)


def _channels(contents: Contents, marked: Sequence[int], beside: Sequence[str]) -> str:
    names = [
        f'<b class="marked">{text(name)}</b>' if i in marked else text(name)
        for i, name in enumerate(contents.model.channels[:1024])
    ]
    more = f" and {len(contents.model.channels) - 1024} more" if len(contents.model.channels) > 1024 else ""
    others = ", ".join(f'<b class="marked">{text(name)}</b>' for name in beside)
    apart = f" Compared with, but not separated: {others}." if beside else ""
    note = ' Reference channels are <b class="marked">in this colour</b>.' if marked else ""
    return f'<p><span class="soft">In their order:</span> {", ".join(names)}{more}.{apart}{note}</p>'


def bad_stretches(contents: Contents) -> str:
    """Return where samples are missing, as a table, and that the others are good."""
    if contents.stream is not None and not contents.gaps:
        return "<p>No samples are missing.</p>"
    job = (contents.facts.job or {}).get("settings") or {}
    flat = (
        " Flat channels, if there were any, were left out (<code>--drop-flat</code>)."
        if job.get("drop_flat")
        else ""
    )
    if not contents.gaps:
        return (
            "<p>The recording tells of no missing samples. Samples that are not finite are refused by "
            f"<code>batch</code>: there are none.{flat}</p>"
        )
    rate = contents.sources.rate or 1.0
    unit = "s" if contents.sources.rate else "samples"
    rows = []
    for gap in contents.gaps[:_MOST_GAPS]:
        length = number(gap.n_samples / rate, 4) if gap.n_samples else "not known"
        rows.append((number(gap.start / rate, 7), length, f"{gap.n_samples:,}", text(gap.reason)))
    more = len(contents.gaps) - len(rows)
    return (
        "<h3>Where samples are missing</h3>"
        + table((f"from ({unit})", f"length ({unit})", "samples", "reason"), rows, (0, 1, 2))
        + (f"<p>{more} more are in <code>/gaps</code> of the output.</p>" if more else "")
        + f"<p>Pink bands in the traces are gaps. Other samples are finite.{flat}</p>"
    )


def _of_method(contents: Contents) -> Iterator[tuple[str, str]]:
    settings, told = contents.model.settings, contents.attributes
    yield "sources", f"{contents.sources.n_channels} from {len(contents.model.channels)} channels"
    yield "structure", text(_short(settings.get("structure", "not told")))
    yield "order of interaction", text(settings.get("order", 1))
    yield "transform", text(contents.model.transform.get("name", "not told"))
    yield "solver", text(contents.facts.solver)
    yield "sources in", text(pretty(contents.sources.unit)) or _no_unit(contents)
    yield "prepared", _prepared(contents.model.preparation)
    yield "cleaned", "no" if contents.cleaned is None else "yes, see below"
    yield "made by", f"igbss_stream {text(told.get('igbss_stream_version', ''))}"


def _no_unit(contents: Contents) -> str:
    learned = contents.model.settings.get("structure") == "learned"
    return "standard deviations (SD)" if learned and contents.model.mean is not None else "no known unit"


def unit_of(contents: Contents) -> str:
    """Return the unit of the sources as it is printed in plots."""
    return pretty(contents.sources.unit) or ("SD" if "(SD)" in _no_unit(contents) else "1")


def _prepared(preparation: dict[str, Any]) -> str:
    used = {
        name: value
        for name, value in preparation.items()
        if value not in (None, [], "") and name not in _PLAIN
    }
    return "; ".join(f"{text(name)} {text(_short(value))}" for name, value in used.items()) or "as recorded"


def _settings(contents: Contents) -> Iterator[tuple[str, str]]:
    for group in ("settings", "preparation", "cleaning"):
        for name, value in (contents.attributes.get(group) or {}).items():
            yield f"{group}: {text(name)}", f"<code>{text(_short(value))}</code>"
    job = (contents.facts.job or {}).get("settings") or {}
    for name in ("window", "drop_flat", "compression"):
        if name in job:
            yield f"batch: {name}", f"<code>{text(_short(job[name]))}</code>"


def _short(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bytes(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    power = min((len(str(size)) - 1) // 3, 3)
    return f"{number(size / 1000**power)} {('kB', 'MB', 'GB')[power - 1]}"
