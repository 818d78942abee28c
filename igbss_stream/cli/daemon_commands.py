"""The commands about the configuration of `igbss-stream run`: `run`, `check`, `init` and `schema`."""

import os
import sys
from pathlib import Path

import click

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream.cli.console import EXIT_MISTAKE, reports_mistakes
from igbss_stream.errors import RecordingError

_CHECK_EXAMPLES = """\b
Examples:
  igbss-stream check eeg.yaml
  igbss-stream check eeg.yaml --json"""
_INIT_EXAMPLES = """\b
Examples:
  igbss-stream init
  igbss-stream init eeg.yaml --source lsl --sink hdf5
  igbss-stream init replay.yaml --source file --overwrite"""
_SCHEMA_EXAMPLES = """\b
Examples:
  igbss-stream schema > schema.json
  igbss-stream schema --markdown"""
_RUN_EXAMPLES = """\b
Examples:
  igbss-stream run eeg.yaml
  igbss-stream run eeg.yaml 2>> eeg.log"""


@click.command(epilog=_CHECK_EXAMPLES)
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--json", is_flag=True, help="Print one JSON object, also if something is wrong.")
@reports_mistakes
def check(path: Path, json: bool) -> None:
    """Say what is wrong with a configuration, and where; else what it would run."""
    from igbss_stream.daemon.config.lint import as_json, cautions, summary
    from igbss_stream.daemon.config.load import load

    if json:
        text, good = as_json(path)
        click.echo(text)
        sys.exit(0 if good else EXIT_MISTAKE)
    config = load(path)
    click.echo(summary(config, path))
    for text in cautions(config, path):
        click.echo(f"Warning: {text}.", err=True)


@click.command(epilog=_INIT_EXAMPLES)
@click.argument("path", metavar="[PATH]", default="igbss.yaml", type=click.Path(path_type=Path))
@click.option(
    "--source",
    default="zmq",
    show_default=True,
    type=click.Choice(["zmq", "openephys", "lsl", "file"]),
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
    from igbss_stream.daemon.config.reference import template

    if os.path.lexists(path) and not overwrite:
        raise RecordingError(f"'{path}' exists; pass --overwrite to replace it")
    try:
        write_atomically(path, lambda file: file.write(template(source, sink).encode()))
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {error.strerror}") from None
    click.echo(f"{path} is written; `igbss-stream check {path}` tells what it would run.")


@click.command(epilog=_SCHEMA_EXAMPLES)
@click.option("--markdown", is_flag=True, help="Print the reference for people instead.")
@reports_mistakes
def schema(markdown: bool) -> None:
    """Print the JSON Schema of configurations, for editors."""
    import json

    from igbss_stream.daemon.config import reference

    click.echo(reference.page() if markdown else json.dumps(reference.schema(), indent=2), nl=not markdown)


@click.command(epilog=_RUN_EXAMPLES)
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@reports_mistakes
def run(path: Path) -> None:
    """Separate live streams until told to stop; `check` tells what would run."""
    from igbss_stream.daemon.daemon import run as run_daemon

    run_daemon(path)
