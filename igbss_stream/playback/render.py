"""Print reports on a stream: as a live table, as lines of text, or as JSON."""

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from igbss_stream.errors import printable
from igbss_stream.playback.monitoring import Report

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

Show = Callable[[Report], None]

_IN_LINE = 8  # sources that a line names
_PAIR = 20  # approximate width of a source and its amplitude
_SPARE = 2  # lines: the header of the table and the line of the cursor
_SILENT = 1.5  # seconds of silence from which on they are shown


@contextmanager
def open_display(*, quiet: bool, as_json: bool) -> Iterator[Show]:
    """Open the display of reports.

    Parameters
    ----------
    quiet : bool
        Print nothing; JSON is printed all the same.
    as_json : bool
        Print one JSON object a line. Otherwise show a table on a terminal, and print lines elsewhere.

    Returns
    -------
    context manager of a callable that takes a `Report`
    """
    if as_json:
        yield lambda report: print(encode_json(report), flush=True)
    elif quiet:
        yield lambda report: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(auto_refresh=False, redirect_stderr=sys.stderr.isatty()) as live:
            yield lambda report: live.update(format_screen(report, *live.console.size), refresh=True)
    else:
        yield lambda report: print(printable(format_line(report)), flush=True)


def encode_json(report: Report) -> str:
    """Return a report as a JSON object in one line, without characters that could control a terminal."""
    text = msgspec.json.encode(report).decode()  # escapes the control characters of ASCII only
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def format_line(report: Report) -> str:
    """Return a report as one line."""
    parts = [f"{key} {value}" for key, value in list_figures(report)]
    named = list(report.rms.items())
    sizes = ", ".join(f"{printable(name)} {_format_number(rms)}" for name, rms in named[:_IN_LINE])
    more = f" and {len(named) - _IN_LINE} more" if len(named) > _IN_LINE else ""
    if named:
        parts.append(f"rms {sizes}{more}{_format_unit(report)}")
    if report.new_events:
        last = report.new_events[-_IN_LINE:]
        more = "... " if len(report.new_events) > len(last) else ""
        parts.append(f"new {more}{', '.join(f'{printable(one.label)}@{one.index:.12g}' for one in last)}")
    return "  ".join(parts)


def format_screen(report: Report, width: int, height: int) -> "Group":
    """Return a report for a terminal of this size: figures of the stream above a table of its sources.

    Parameters
    ----------
    report : Report
    width, height : int
        In characters.

    Returns
    -------
    rich.console.Group
    """
    from rich.console import Group
    from rich.text import Text

    facts = Text("   ".join(f"{key} {value}" for key, value in list_figures(report)))
    if not report.rms:
        return Group(facts)
    n_lines = 1 if len(facts) <= width else 2 + len(facts) // width  # Rich does not break words
    return Group(facts, _make_table(report, max(1, height - n_lines - _SPARE), max(1, width // _PAIR)))


def _make_table(report: Report, n_rows: int, most: int) -> "Table":
    """Return the table of sources and amplitudes, in several columns if there are many sources."""
    from rich.table import Table
    from rich.text import Text

    named = list(report.rms.items())
    n_pairs = min(most, math.ceil(len(named) / n_rows))
    out = Table(box=None)
    for _ in range(n_pairs):
        out.add_column("source")
        out.add_column(Text(f"rms{_format_unit(report)}"), justify="right")
    length = math.ceil(len(named) / n_pairs)
    for row in range(length):
        cells = [
            Text(text)
            for name, rms in named[row::length]
            for text in (printable(name), _format_number(rms))
        ]
        out.add_row(*cells)  # names come from the network: plain text, never markup
    return out


def list_figures(report: Report) -> list[tuple[str, str]]:
    """Return the figures of the stream as pairs of label and text.

    Parameters
    ----------
    report : Report

    Returns
    -------
    list of (str, str)
    """
    if report.index is None and report.stream is None:
        return [("waiting", f"{report.seconds:.0f} s"), *_describe_connection(report)]
    nominal = "" if report.nominal_rate is None else f" of {report.nominal_rate:g}"
    pairs: list[tuple[str, Any]] = [
        ("stream", printable(report.stream or "not described")),
        ("index", "-" if report.index is None else report.index),
        ("rate", f"{_format_number(report.rate)}{nominal} Hz"),
        ("delay", "-" if report.delay is None else f"{1e3 * report.delay:.0f} ms"),
        ("model", "-" if report.model is None else report.model),
        ("gaps", f"{report.gaps} ({report.samples_lost} samples)"),
        ("drops", f"{report.drops} ({report.samples_dropped} samples)"),
        ("restarts", report.restarts),
    ]
    if report.events or report.events_lost:
        lost = f" ({report.events_lost} lost)" if report.events_lost else ""
        pairs.append(("events", f"{report.events}{lost}"))
    if report.ended:
        pairs.append(("ended", "yes"))
    elif report.silence > _SILENT:
        pairs.append(("silent", f"{report.silence:.0f} s"))
    elif report.missing:
        pairs.append(("missing", printable(report.missing)))
    return [(key, str(value)) for key, value in [*pairs, *_describe_connection(report)]]


def _describe_connection(report: Report) -> list[tuple[str, str]]:
    """Return figures of the connection: other streams at the address, and a refusal."""
    pairs = []
    if report.others:
        pairs.append(("others", f"{', '.join(map(printable, report.others))} (--topic NAME)"))
    if report.refusal:
        pairs.append(("refused", report.refusal))
    return pairs


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _format_unit(report: Report) -> str:
    return f" {printable(report.unit)}" if report.unit else ""
