"""Reports on a stream, for people and for programs: a table that stays in place, lines, or JSON."""

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
_PAIR = 20  # columns for a source and its size, about
_SPARE = 2  # lines: the heading of the table, and the one that the cursor is in
_SILENT = 1.5  # seconds without anything that are worth telling


@contextmanager
def shown(*, quiet: bool, json: bool) -> Iterator[Show]:
    """Return how reports are shown.

    Parameters
    ----------
    quiet : bool
        Not at all, unless as JSON, which is what was asked for.
    json : bool
        One JSON object a line. Otherwise a table on a terminal, and lines of text elsewhere.

    Returns
    -------
    context manager that gives a callable
    """
    if json:
        yield lambda report: print(msgspec.json.encode(report).decode(), flush=True)
    elif quiet:
        yield lambda report: None
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(auto_refresh=False, redirect_stderr=sys.stderr.isatty()) as live:
            yield lambda report: live.update(screen(report, *live.console.size), refresh=True)
    else:
        yield lambda report: print(line(report), flush=True)


def line(report: Report) -> str:
    """Return a report as one line."""
    parts = [f"{key} {value}" for key, value in figures(report)]
    named = list(report.rms.items())
    sizes = ", ".join(f"{printable(name)} {_number(rms)}" for name, rms in named[:_IN_LINE])
    more = f" and {len(named) - _IN_LINE} more" if len(named) > _IN_LINE else ""
    if named:
        parts.append(f"rms {sizes}{more}{_unit(report)}")
    return "  ".join(parts)


def screen(report: Report, width: int, height: int) -> "Group":
    """Return a report for a terminal of this size: what holds for all above a table of the sources.

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

    facts = Text("   ".join(f"{key} {value}" for key, value in figures(report)))
    if not report.rms:
        return Group(facts)
    n_lines = 1 if len(facts) <= width else 2 + len(facts) // width  # words are not broken
    return Group(facts, _table(report, max(1, height - n_lines - _SPARE), max(1, width // _PAIR)))


def _table(report: Report, n_rows: int, most: int) -> "Table":
    """Return the sources and their sizes, one below the other; side by side where these are too many."""
    from rich.table import Table
    from rich.text import Text

    named = list(report.rms.items())
    n_pairs = min(most, math.ceil(len(named) / n_rows))
    out = Table(box=None)
    for _ in range(n_pairs):
        out.add_column("source")
        out.add_column(Text(f"rms{_unit(report)}"), justify="right")
    length = math.ceil(len(named) / n_pairs)
    for row in range(length):
        cells = [Text(text) for name, rms in named[row::length] for text in (printable(name), _number(rms))]
        out.add_row(*cells)  # names come from the network: text, never markup
    return out


def figures(report: Report) -> list[tuple[str, str]]:
    """Return what holds for the stream as a whole, in words and numbers.

    Parameters
    ----------
    report : Report

    Returns
    -------
    list of (str, str)
    """
    if report.index is None and report.stream is None:
        return [("waiting", f"{report.seconds:.0f} s"), *_beside(report)]
    nominal = "" if report.nominal_rate is None else f" of {report.nominal_rate:g}"
    pairs: list[tuple[str, Any]] = [
        ("stream", printable(report.stream or "not described")),
        ("index", "-" if report.index is None else report.index),
        ("rate", f"{_number(report.rate)}{nominal} Hz"),
        ("delay", "-" if report.delay is None else f"{1e3 * report.delay:.0f} ms"),
        ("model", "-" if report.model is None else report.model),
        ("gaps", f"{report.gaps} ({report.samples_lost} samples)"),
        ("drops", f"{report.drops} ({report.samples_dropped} samples)"),
        ("restarts", report.restarts),
    ]
    if report.ended:
        pairs.append(("ended", "yes"))
    elif report.silence > _SILENT:
        pairs.append(("silent", f"{report.silence:.0f} s"))
    elif report.missing:
        pairs.append(("missing", printable(report.missing)))
    return [(key, str(value)) for key, value in [*pairs, *_beside(report)]]


def _beside(report: Report) -> list[tuple[str, str]]:
    """Return what is not of the stream itself, but between it and who listens."""
    pairs = []
    if report.others:
        pairs.append(("others", f"{', '.join(map(printable, report.others))} (--topic NAME)"))
    if report.refusal:
        pairs.append(("refused", report.refusal))
    return pairs


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _unit(report: Report) -> str:
    return f" {printable(report.unit)}" if report.unit else ""
