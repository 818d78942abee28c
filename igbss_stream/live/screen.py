"""Reports on a stream, for people and for programs: a table that stays in place, lines, or JSON."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from igbss_stream.errors import printable
from igbss_stream.live.monitor import Report

if TYPE_CHECKING:
    from rich.console import Group

Show = Callable[[Report], None]

_IN_LINE = 8  # sources that a line names
_SILENT = 1.5  # seconds without anything that are worth telling


@contextmanager
def shown(*, quiet: bool, json: bool) -> Iterator[Show]:
    """Return how reports are shown.

    Parameters
    ----------
    quiet : bool
        Not at all.
    json : bool
        One JSON object a line. Otherwise a table on a terminal, and lines of text elsewhere.

    Returns
    -------
    context manager that gives a callable
    """
    if quiet:
        yield lambda report: None
    elif json:
        yield lambda report: print(msgspec.json.encode(report).decode(), flush=True)
    elif sys.stdout.isatty():
        from rich.live import Live

        with Live(auto_refresh=False) as live:
            yield lambda report: live.update(table(report), refresh=True)
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


def table(report: Report) -> "Group":
    """Return a report as a table: a row for each source, below what holds for all."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    facts = "   ".join(f"{key} {value}" for key, value in figures(report))
    out = Table(box=None)
    out.add_column("source")
    out.add_column(Text(f"rms{_unit(report)}"), justify="right")
    for name, rms in report.rms.items():  # names come from the network: text, never markup
        out.add_row(Text(printable(name)), Text(_number(rms)))
    return Group(Text(facts), out)  # a title would wrap at the width of the table


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
