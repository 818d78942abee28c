"""What commands share: how they tell that something is wrong, and how far they are."""

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
from igbss_stream.errors import IgbssError, IgbssWarning

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130
_NO_CURSOR = ("dumb", "unknown")  # terminals on which a bar would be a line for each of its changes
_TIE = "\N{NO-BREAK SPACE}"
_LEAST_NAME = 8  # characters of the name of a file that are shown
_LEAST_TEXT = 15  # characters of a text that a table has beside each other, where there are as many

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""What completes the value of an option: given what is typed of it."""
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What `click.option` returns: adds to a command."""


def reports_mistakes(command: Callable[..., None]) -> Callable[..., None]:
    """Print an `IgbssError` as one line and exit with code 2; `--debug` shows where it came from."""

    @click.option("--debug", is_flag=True, help="Show a traceback when something is wrong.")
    @functools.wraps(command)
    def wrapped(debug: bool, **options: Any) -> None:
        level = logging.WARNING if options.get("quiet") else logging.INFO
        logging.basicConfig(format="%(message)s", level=level, handlers=[_Above()])
        warnings.showwarning = _show_warning
        try:
            command(**options)
        except IgbssError as error:
            if debug:
                traceback.print_exc()
            click.echo(f"Error: {error}", err=True)
            sys.exit(EXIT_MISTAKE)
        except KeyboardInterrupt:
            click.echo("Interrupted; no incomplete output is left.", err=True)
            sys.exit(EXIT_INTERRUPTED)

    return wrapped


def with_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds options to a command, which lists them in this order.

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


def completes(*values: str, files: bool = False) -> Completion:
    """Return what completes an option by the tab key; the command itself says which values it refuses.

    Parameters
    ----------
    *values : str
    files : bool
        Whether the option may be the name of a file as well.

    Returns
    -------
    callable
        For `click.option` as `shell_complete`.
    """

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        found = [CompletionItem(value) for value in values if value.startswith(typed)]
        return found or ([CompletionItem(typed, type="file")] if files else [])

    return complete


reading_options = with_options(
    click.option("--dataset", help="Dataset that holds the samples.  [default: found by the layout]"),
    click.option(
        "--axis",
        type=int,
        help="Axis of the dataset that runs over samples, 0 or 1.  [default: by the layout, or 0]",
    ),
    click.option("--rate", type=float, help="Samples a second, if the file does not say or says it wrong."),
    click.option(
        "--channels",
        help="Channels to take, with commas between: names, positions from 0, ranges such as 0-7.  "
        "[default: all that are measured]",
    ),
    click.option(
        "--factor",
        type=float,
        help="Multiply stored numbers by this, in place of the scale of the file.",
    ),
    click.option("--unit", help="Unit of the samples, if the file does not say or says it wrong."),
)

key_options = with_options(
    click.option(
        "--server-key", metavar="KEY", help="Public key of a publisher that encrypts, in single quotes."
    ),
    click.option(
        "--key-file",
        type=click.Path(path_type=Path),
        help="File with the secret key of this end, as `make-keys` writes it.  [default: a new key, "
        "which is enough where everybody is let in]",
    ),
)


class _Above(logging.Handler):
    """Tells of what is logged as `warn` does."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(self.format(record))


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgbssWarning):
        warn(f"Warning: {message}")
    else:
        warn(warnings.formatwarning(message, category, *where[:2]))


def _shows_bars(quiet: bool) -> bool:
    """Tell whether bars can be shown: on a terminal that can go back to a line, if they are wanted."""
    can_go_back = sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in _NO_CURSOR
    return not quiet and can_go_back and not _is_in_background()


def _is_in_background() -> bool:
    """Tell whether the shell has begun this with `&`: bars would go over what else is typed and told."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) != os.getpgrp()
    except (OSError, AttributeError):  # no terminal of ours, or a system that has no such thing
        return False


@contextmanager
def _bars() -> "Iterator[Bars]":
    """Show rows with what is done, how much of it, how fast, and how long it will take."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second, once that is known."""

        def render(self, task: Any) -> Text:
            return Text(_rate(task.speed), style="progress.data.speed")

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
    """Show what is done, how fast and how long it will take, on a terminal; nothing elsewhere."""
    if not _shows_bars(quiet):
        yield None
        return
    with _bars() as bars:
        tasks: dict[str, Any] = {}

        def progress(doing: str, done: int, total: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total)
            bars.update(tasks[doing], completed=done, total=total)

        yield progress


def _rate(speed: float | None) -> str:
    """Return a rate as it is shown: slow steps have a fraction."""
    if speed is None:
        return ""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s"


class FilesProgress:
    """Tells how far a run over many files is: a line a file; nothing if quiet.

    Parameters
    ----------
    total : int
        How many files there are.
    quiet : bool
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total, self.done, self._quiet = total, 0, quiet

    def begin(self, name: str) -> Progress | None:
        """Note that a file begins; return what is told how far it is."""
        return None

    def end(self, text: str) -> None:
        """Note that a file is done, and what came of it."""
        self.done += 1
        if not self._quiet:
            click.echo(f"{self.done} of {self.total}: {text}", err=True)


class _FileBars(FilesProgress):
    """Tells it by two bars: how many files are done, and how far the current one is."""

    def __init__(self, total: int, bars: "Bars") -> None:
        super().__init__(total)
        self._bars = bars
        self._files = bars.add_task(self._said(), total=total)
        self._current = bars.add_task("", total=None, visible=False)
        self._doing = ""

    def begin(self, name: str) -> Progress | None:
        def progress(doing: str, done: int, total: int | None) -> None:
            shown = _named(name, doing, self._bars.console.width // 2)
            if shown != self._doing:  # rate and time left are of this alone
                self._bars.reset(self._current, description=shown, total=total, visible=True)
                self._doing = shown
            self._bars.update(self._current, completed=done, total=total)

        return progress

    def end(self, text: str) -> None:
        self.done += 1
        self._bars.update(self._files, completed=self.done, description=self._said())

    def _said(self) -> str:
        return f"recordings {self.done} of {self.total}"


def _named(name: str, doing: str, room: int) -> str:
    """Return what is done with a file; of a name that is too long, its begin and its end."""
    room = max(_LEAST_NAME, room - len(doing))
    if len(name) > room:
        name = f"{name[: room // 2 - 1]}..{name[len(name) - room // 2 + 1 :]}"
    return f"{name}: {doing}"


@contextmanager
def files_progress(quiet: bool, total: int) -> Iterator[FilesProgress]:
    """Show how far a run over many files is: bars on a terminal, a line a file elsewhere."""
    if not _shows_bars(quiet):
        yield FilesProgress(total, quiet=quiet)
        return
    with _bars() as bars:
        yield _FileBars(total, bars)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> None:
    """Print a table that fits the terminal, or plain text in columns elsewhere.

    A terminal too narrow for columns has a paragraph for each row.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    text : sequence of str
        Columns that hold text, the first one among them: the others are numbers, to the right.
    """
    if not sys.stdout.isatty():
        table = [header, *rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for row in table:
            click.echo("  ".join(map(str.ljust, row, widths)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if console.width < _least_width(header, rows, text):
        for row in rows:
            click.echo(_paragraph(header, row, text, console.width))
        return
    shown = Table(box=None, pad_edge=False)
    for name in header:
        is_text = name in text
        shown.add_column(name, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        shown.add_row(*map(Text, row))  # names of files are text, never markup
    console.print(shown)


def _least_width(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> int:
    """Return the columns of a terminal that a table needs at least: its text may fold, its numbers not."""
    longest = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    folded = [max(len(name), min(n, _LEAST_TEXT)) for name, n in zip(header, longest, strict=True)]
    needed = [least if name in text else n for name, n, least in zip(header, longest, folded, strict=True)]
    return sum(needed) + 2 * (len(needed) - 1)


def _paragraph(header: Sequence[str], row: Sequence[str], text: Sequence[str], width: int) -> str:
    """Return a row as lines: its name, below it the rest."""
    cells = dict(zip(header, row, strict=True))
    told = [f"{name} {cell}" for name, cell in cells.items() if name not in text and cell != "-"]
    together = "  ".join(told).replace(" ", _TIE).replace(2 * _TIE, "  ")
    first, *others = (cells[name] for name in text if cells[name] != "-")
    lines = [line for part in (*others, together) for line in textwrap.wrap(part, max(20, width - 2))]
    return "\n".join([first, *(f"  {line.replace(_TIE, ' ')}" for line in lines)])


def say(text: str) -> None:
    """Print a line for the user."""
    click.echo(text)


def warn(text: str) -> None:
    """Print a line on standard error: above the bars, which stand in for it while there are any."""
    print(text, file=sys.stderr, flush=True)
