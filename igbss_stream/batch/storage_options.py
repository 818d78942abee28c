"""The options of `batch` that say how its output is stored."""

from collections.abc import Callable

import click


def storage_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how samples are stored."""
    return click.option(
        "--compression",
        default="none",
        show_default=True,
        help="How sources are stored: none, gzip (smaller by a seventh to a quarter, ten times slower to "
        "write), or lz4, which readers need hdf5plugin for.",
    )(command)
