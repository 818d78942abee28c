"""How a command tells that something is wrong: one line, and an exit code."""

import functools
import logging
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import click

from igbss_stream.errors import IgbssError, IgbssWarning

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


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


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    if issubclass(category, IgbssWarning):
        click.echo(f"Warning: {message}", err=True)
    else:
        click.echo(warnings.formatwarning(message, category, *where[:2]), err=True)
