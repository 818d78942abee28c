"""What commands share: how they tell that something is wrong, and how far they are."""

import functools
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from igbss_stream.errors import IgbssError, IgbssWarning

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

Progress = Callable[[str, int, int | None], None]
"""What is being done, how much of it is, and how much there is to do, if that is known."""
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""What `click.option` returns: adds to a command."""


def reports_mistakes(command: Callable[..., None]) -> Callable[..., None]:
    """Print an `IgbssError` as one line and exit with code 2; `--debug` shows where it came from."""

    @click.option("--debug", is_flag=True, help="Show a traceback when something is wrong.")
    @functools.wraps(command)
    def wrapped(debug: bool, **options: Any) -> None:
        logging.basicConfig(format="%(message)s", level=logging.INFO)
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


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgbssWarning):
        click.echo(f"Warning: {message}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, *where[:2]), err=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """Show what is done, how fast and how long it will take, on a terminal; nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many a second, once that is known."""

        def render(self, task: Any) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f}/s", style="progress.data.speed")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(doing: str, done: int, total: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=total)
            bar.update(tasks[doing], completed=done)

        yield progress


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

    def __init__(self, total: int, bar: Any) -> None:
        super().__init__(total)
        self._bar = bar
        self._files = bar.add_task("recordings", total=total)
        self._current = bar.add_task("", total=None, visible=False)

    def begin(self, name: str) -> Progress | None:
        from rich.markup import escape

        def progress(doing: str, done: int, total: int | None) -> None:
            self._bar.update(
                self._current,
                description=escape(f"{name}: {doing}"),
                completed=done,
                total=total,
                visible=True,
            )

        return progress

    def end(self, text: str) -> None:
        self.done += 1
        self._bar.update(self._files, completed=self.done)


@contextmanager
def files_progress(quiet: bool, total: int) -> Iterator[FilesProgress]:
    """Show how far a run over many files is: bars on a terminal, a line a file elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield FilesProgress(total, quiet=quiet)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _FileBars(total, bar)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], text: Sequence[str]) -> None:
    """Print a table that fits the terminal, or plain text in columns elsewhere.

    Parameters
    ----------
    header : sequence of str
    rows : sequence of sequence of str
    text : sequence of str
        Columns that hold text: the others are numbers, to the right.
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

    shown = Table(box=None, pad_edge=False)
    for name in header:
        shown.add_column(name, justify="left" if name in text else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))  # names of files are text, never markup
    Console().print(shown)


def say(text: str) -> None:
    """Print a line for the user."""
    click.echo(text)


def warn(text: str) -> None:
    """Print a line on what went wrong."""
    click.echo(text, err=True)
