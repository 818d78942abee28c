"""Options of `batch` that are about many recordings, and about models that exist."""

from pathlib import Path

import click

from igbss_stream.cli.console import with_options

many_options = with_options(
    click.option("--list", "listed", metavar="FILE", help="More inputs, one a line; - for standard input."),
    click.option(
        "--resume", is_flag=True, help="Skip what an earlier run has made of the same, and go on."
    ),
    click.option(
        "--summary",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write what came of each recording: .csv, .json or .jsonl.",
    ),
    click.option(
        "--model",
        "model",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Take the model in this output of batch, and learn none.",
    ),
    click.option(
        "--model-per",
        type=click.Choice(["file", "group", "all"]),
        default="file",
        show_default=True,
        help="Learn a model from each file, from all files of the same channels, rate and unit "
        "together, or one from all.",
    ),
)
