"""The options of `batch` that say how its output is stored."""

import click

from igbss_stream.cli.console import completes

storage_options = click.option(
    "--compression",
    default="none",
    shell_complete=completes("none", "gzip", "lz4"),
    show_default=True,
    help="How sources are stored: none, gzip (smaller by a seventh to a quarter, ten times slower to "
    "write), or lz4, which readers need hdf5plugin for.",
)
