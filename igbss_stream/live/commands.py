"""The commands about the configuration of `igbss-stream run`: `run`, `check`, `init` and `schema`."""

import os
from pathlib import Path

import click

from igbss_stream.console import reports_mistakes
from igbss_stream.errors import RecordingError
from igbss_stream.whole_file import write_whole


@click.command()
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@reports_mistakes
def check(path: Path) -> None:
    """Say what is wrong with a configuration, and where; else what it would run."""
    from igbss_stream.live.cautions import cautions, summary
    from igbss_stream.live.load import load

    config = load(path)
    click.echo(summary(config, path))
    for text in cautions(config, path):
        click.echo(f"Warning: {text}.", err=True)


@click.command()
@click.argument("path", metavar="[PATH]", default="igbss.yaml", type=click.Path(path_type=Path))
@click.option(
    "--source",
    default="zmq",
    show_default=True,
    type=click.Choice(["zmq", "openephys", "lsl", "hdf5"]),
    help="Where samples come from.",
)
@click.option(
    "--sink",
    default="zmq",
    show_default=True,
    type=click.Choice(["zmq", "hdf5", "lsl"]),
    help="Where sources go.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@reports_mistakes
def init(path: Path, source: str, sink: str, overwrite: bool) -> None:
    """Write a commented configuration, by default igbss.yaml."""
    from igbss_stream.live.reference import template

    if os.path.lexists(path) and not overwrite:
        raise RecordingError(f"'{path}' exists; pass --overwrite to replace it")
    try:
        write_whole(path, lambda file: file.write(template(source, sink).encode()))
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {error.strerror}") from None
    click.echo(f"{path} is written; `igbss-stream check {path}` tells what it would run.")


@click.command()
@click.option("--markdown", is_flag=True, help="Print the reference for people instead.")
@reports_mistakes
def schema(markdown: bool) -> None:
    """Print the JSON Schema of configurations, for editors."""
    import json

    from igbss_stream.live import reference

    click.echo(reference.page() if markdown else json.dumps(reference.schema(), indent=2), nl=not markdown)


@click.command()
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@reports_mistakes
def run(path: Path) -> None:
    """Separate live streams until told to stop; `check` tells what would run."""
    from igbss_stream.live.daemon import run as run_daemon

    run_daemon(path)
