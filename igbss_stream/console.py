"""What commands share: how they tell that something is wrong, and how far they are."""

import functools
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from igbss_stream.errors import IgbssError, IgbssWarning

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130

Progress = Callable[[str, int, int | None], None]
"""What is being done, how much of it is, and how much there is to do, if that is known."""


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


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which samples of a file are meant, and what the file does not say."""
    options = [
        click.option("--dataset", help="Dataset that holds the samples.  [default: found by the layout]"),
        click.option(
            "--axis",
            type=int,
            help="Axis of the dataset that runs over samples, 0 or 1.  [default: by the layout, or 0]",
        ),
        click.option(
            "--rate", type=float, help="Samples a second, if the file does not say or says it wrong."
        ),
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
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgbssWarning):
        click.echo(f"Warning: {message}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, *where[:2]), err=True)


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress | None]:
    """Show a bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def progress(doing: str, done: int, total: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = bar.add_task(doing, total=total)
            bar.update(tasks[doing], completed=done)

        yield progress
