"""Errors, progress bars, tables and options that commands share.

Everything that commands print passes through `say`, `warn` and `show_table`, which escape control
characters: names of files, streams and channels come from elsewhere, and could otherwise control the
terminal or forge a line.
"""

import functools
import logging
import os
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from igbss_stream._util.progress import Progress
from igbss_stream.errors import ConfigError, IgbssError, IgbssWarning, printable, printable_lines

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
_NO_CURSOR = ("dumb", "unknown")  # terminals that cannot redraw a line
_TIE = "\N{NO-BREAK SPACE}"
_LEAST_NAME = 8  # characters of a file name that are shown at least
_LEAST_TEXT = 15  # minimum width of a text column in a table

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""Completes the value of an option from its beginning."""
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator of commands, such as `click.option` returns."""


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command to print an `IgbssError` as one line and exit with code 2; add `--debug`."""

    @click.option("--debug", is_flag=True, help="Show a traceback when something is wrong.")
    @functools.wraps(command)
    def wrapped(debug: bool, **options: Any) -> None:
        level = logging.WARNING if options.get("quiet") else logging.INFO
        logging.basicConfig(format="%(message)s", level=level, handlers=[_WarningHandler()])
        warnings.showwarning = _show_warning
        try:
            command(**options)
        except IgbssError as error:
            if debug:
                traceback.print_exc()
            show = warn_lines if isinstance(error, ConfigError) else warn  # which has a line per mistake
            show(f"Error: {error}")
            sys.exit(EXIT_MISTAKE)
        except KeyboardInterrupt:
            warn("Interrupted; no incomplete output is left.")
            sys.exit(EXIT_INTERRUPTED)

    return wrapped


def add_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, listed in this order.

    Parameters
    ----------
    *options : callable
        See `Decorator`.

    Returns
    -------
    callable
    """

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        """Add the options to a command."""
        return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)

    return add


def complete_from(*values: str, files: bool = False) -> Completion:
    """Return the tab completion of an option; the command itself checks the value.

    Parameters
    ----------
    *values : str
    files : bool
        Whether the option may also be a file name.

    Returns
    -------
    callable
        For `click.option` as `shell_complete`.
    """

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        found = [CompletionItem(value) for value in values if value.startswith(typed)]
        return found or ([CompletionItem(typed, type="file")] if files else [])

    return complete


reading_options = add_options(
    click.option("--dataset", help="Dataset that contains the samples.  [default: found by the layout]"),
    click.option(
        "--axis",
        type=int,
        help="Axis of the dataset that counts samples, 0 or 1; in MATLAB files, 0 if rows are samples.  "
        "[default: by the layout, or 0]",
    ),
    click.option("--rate", type=float, help="Sampling rate in Hz, if missing or wrong in the file."),
    click.option(
        "--channels",
        help="Channels to use, separated by commas: names, positions from 0, ranges such as 0-7.  "
        "[default: all measured channels]",
    ),
    click.option(
        "--factor",
        type=float,
        help="Multiply stored numbers by this instead of the scale in the file.",
    ),
    click.option("--unit", help="Unit of the samples, if missing or wrong in the file."),
    click.option(
        "--events",
        metavar="NAME,...",
        help="Columns of text, trigger channels or marker streams whose events are read.  [default: "
        "annotations, trigger channels and marker streams that the file states]",
    ),
    click.option(
        "--montage",
        metavar="NAME|FILE",
        help="Positions of the channels: a table with the columns name, x, y, z, another file that MNE "
        "reads, or the name of a montage of MNE.  [default: of the file, or electrodes.tsv of BIDS]",
    ),
    click.option(
        "--missing",
        metavar="NUMBER",
        type=float,
        help="Stored number that means that a sample is missing, such as -200; it becomes NaN.",
    ),
)

key_options = add_options(
    click.option(
        "--server-key", metavar="KEY", help="Public key of an encrypting publisher, in single quotes."
    ),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        help="File with the secret key of this client, as written by `make-keys`.  [default: a new key, "
        "sufficient if the publisher accepts everyone]",
    ),
)


class _WarningHandler(logging.Handler):
    """Print log records as warnings."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())
        if record.exc_info:
            warn_lines(logging.Formatter().formatException(record.exc_info))


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgbssWarning):
        warn(f"Warning: {message}")
    else:
        warn_lines(warnings.formatwarning(message, category, *where[:2]))


def _can_show_bars(quiet: bool) -> bool:
    """Return whether progress bars can be shown: on a terminal that can redraw lines, unless quiet."""
    can_go_back = sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in _NO_CURSOR
    return not quiet and can_go_back and not _is_in_background()


def _is_in_background() -> bool:
    """Return whether the process runs in the background, where bars would disturb the terminal."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) != os.getpgrp()
    except (OSError, AttributeError):  # no controlling terminal, or a system without process groups
        return False


@contextmanager
def _open_bars() -> "Iterator[Bars]":
    """Show rows of step, progress, speed and remaining time."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Rate(ProgressColumn):
        """Units per second, once known."""

        def render(self, task: Any) -> Text:
            return Text(_format_rate(task.speed), style="progress.data.speed")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield bars


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    if not _can_show_bars(quiet):
        yield None
        return
    with _open_bars() as bars:
        tasks: dict[str, Any] = {}

        def progress(doing: str, done: int, total: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total)
            bars.update(tasks[doing], completed=done, total=total)

        yield progress


def _format_rate(speed: float | None) -> str:
    """Format a speed; slow steps have a fraction."""
    if speed is None:
        return ""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"


class FilesProgress:
    """Report the progress of a run over many files: one line per file; nothing if quiet.

    Parameters
    ----------
    total : int
        Number of files.
    quiet : bool
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total, self.done, self._quiet = total, 0, quiet

    def begin(self, name: str) -> Progress | None:
        """Note that a file starts; return the callable that receives its progress."""
        return None

    def end(self, text: str) -> None:
        """Note that a file is done, with its result."""
        self.done += 1
        if not self._quiet:
            warn(f"{self.done} of {self.total}: {text}")


class _FileBars(FilesProgress):
    """Report it by two bars: the files done, and the progress of the current file."""

    def __init__(self, total: int, bars: "Bars") -> None:
        super().__init__(total)
        self._open_bars = bars
        self._files = bars.add_task(self._format_count(), total=total)
        self._current = bars.add_task("", total=None, visible=False)
        self._doing = ""

    def begin(self, name: str) -> Progress | None:
        def progress(doing: str, done: int, total: int | None) -> None:
            shown = _shorten(name, doing, self._open_bars.console.width // 2)
            if shown != self._doing:  # speed and remaining time refer to this step
                self._open_bars.reset(self._current, description=shown, total=total, visible=True)
                self._doing = shown
            self._open_bars.update(self._current, completed=done, total=total)

        return progress

    def end(self, text: str) -> None:
        self.done += 1
        self._open_bars.update(self._files, completed=self.done, description=self._format_count())

    def _format_count(self) -> str:
        return f"recordings {self.done} of {self.total}"


def _shorten(name: str, doing: str, room: int) -> str:
    """Return the step and the file; long names are shortened in the middle."""
    name, room = printable(name), max(_LEAST_NAME, room - len(doing))
    if len(name) > room:
        name = f"{name[: room // 2 - 1]}..{name[len(name) - room // 2 + 1 :]}"
    return f"{name}: {doing}"


@contextmanager
def files_progress(quiet: bool, total: int) -> Iterator[FilesProgress]:
    """Show the progress of a run over many files: bars on a terminal, lines elsewhere."""
    if not _can_show_bars(quiet):
        yield FilesProgress(total, quiet=quiet)
        return
    with _open_bars() as bars:
        yield _FileBars(total, bars)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> None:
    """Print a table that fits the terminal, or plain text in columns elsewhere.

    A terminal that is too narrow shows a paragraph per row.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    text : sequence of str
        Names of the text columns, including the first; the others contain numbers, aligned to the right.
    """
    rows = [list(map(printable, row)) for row in rows]
    if not sys.stdout.isatty():
        table = [header, *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            say("  ".join(map(str.ljust, row, widths)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if console.width < _get_min_width(header, rows, text):
        for row in rows:
            say_lines(_format_paragraph(header, row, text, console.width))
        return
    shown = Table(box=None, pad_edge=False)
    for name in header:
        is_text = name in text
        shown.add_column(name, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        shown.add_row(*map(Text, row))  # file names are plain text, never markup
    console.print(shown)


def _get_min_width(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> int:
    """Return the minimum width of a table: text may fold, numbers may not."""
    longest = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    folded = [max(len(name), min(n, _LEAST_TEXT)) for name, n in zip(header, longest, strict=True)]
    needed = [least if name in text else n for name, n, least in zip(header, longest, folded, strict=True)]
    return sum(needed) + 2 * (len(needed) - 1)


def _format_paragraph(header: Sequence[str], row: Sequence[str], text: Sequence[str], width: int) -> str:
    """Format a row as a paragraph: the name, and below it the rest."""
    cells = dict(zip(header, row, strict=True))
    numbers = [f"{name} {cell}" for name, cell in cells.items() if name not in text and cell != "-"]
    together = "  ".join(numbers).replace(" ", _TIE).replace(2 * _TIE, "  ")
    first, *others = (cells[name] for name in text if cells[name] != "-")
    lines = [line for part in (*others, together) for line in textwrap.wrap(part, max(20, width - 2))]
    return "\n".join([first, *(f"  {line.replace(_TIE, ' ')}" for line in lines)])


def say(text: str, *, err: bool = False) -> None:
    """Print a line for the user, by default on standard output."""
    click.echo(printable(text), err=err)


def say_lines(text: str) -> None:
    """Print several lines for the user."""
    click.echo(printable_lines(text))


def warn(text: str) -> None:
    """Print a line on standard error; active bars redirect it above themselves."""
    print(printable(text), file=sys.stderr, flush=True)


def warn_lines(text: str) -> None:
    """Print several lines on standard error."""
    print(printable_lines(text), file=sys.stderr, flush=True)
