"""Commands for the configuration of the daemon: `run`, `check`, `init` and `schema`."""

import atexit
import gc
import os
import sys
from pathlib import Path

import click

from igbss_stream._util.atomic_write import write_atomically
from igbss_stream._util.signals import DaemonSignals
from igbss_stream.cli.console import EXIT_MISTAKE, report_errors, say, say_lines
from igbss_stream.errors import ConfigError, RecordingError

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
@click.option("--json", is_flag=True, help="Print one JSON object, even if there are mistakes.")
@report_errors
def check(path: Path, json: bool) -> None:
    """Report the mistakes in a configuration and their places, or else what it would run.

    Whatever `run` would refuse on this machine is reported, such as a folder that does not exist; only
    addresses are not tried.
    """
    from igbss_stream.daemon.check import check_as_json, find_obstacles, find_warnings
    from igbss_stream.daemon.config.load import load
    from igbss_stream.daemon.config.summary import summarize

    if json:
        text, is_valid = check_as_json(path)
        say(text)
        sys.exit(0 if is_valid else EXIT_MISTAKE)
    config = load(path)
    say_lines(summarize(config, path))
    for text in find_warnings(config, path):
        say(f"Warning: {text}.", err=True)
    obstacles = find_obstacles(config)
    if obstacles:
        raise ConfigError("\n".join(f"{path}: {text}" for text in obstacles))


@click.command(epilog=_INIT_EXAMPLES)
@click.argument("path", metavar="[PATH]", default="igbss.yaml", type=click.Path(path_type=Path))
@click.option(
    "--source",
    default="zmq",
    show_default=True,
    type=click.Choice(["zmq", "openephys", "lsl", "file"]),
    help="Kind of the source of samples.",
)
@click.option(
    "--sink",
    default="zmq",
    show_default=True,
    type=click.Choice(["zmq", "hdf5", "lsl"]),
    help="Kind of the sink of sources.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")
@report_errors
def init(path: Path, source: str, sink: str, overwrite: bool) -> None:
    """Write a commented configuration, by default igbss.yaml."""
    from igbss_stream.daemon.config.reference import build_template

    if os.path.lexists(path) and not overwrite:
        raise RecordingError(f"'{path}' exists; pass --overwrite to replace it")
    try:
        write_atomically(path, lambda file: file.write(build_template(source, sink).encode()))
    except OSError as error:
        raise RecordingError(f"'{path}' cannot be written: {error.strerror}; choose another path") from None
    say(f"{path} is written; `igbss-stream check {path}` shows what it would run.")


@click.command(epilog=_SCHEMA_EXAMPLES)
@click.option("--markdown", is_flag=True, help="Print the reference as Markdown instead.")
@report_errors
def schema(markdown: bool) -> None:
    """Print the JSON Schema of configurations, for editors."""
    import json

    from igbss_stream.daemon.config.reference import build_page, build_schema

    say_lines(build_page().rstrip("\n") if markdown else json.dumps(build_schema(), indent=2))


@click.command(epilog=_RUN_EXAMPLES)
@click.argument("path", metavar="CONFIG", type=click.Path(path_type=Path))
@report_errors
def run(path: Path) -> None:
    """Separate live streams until stopped; `check` shows what would run."""
    signals = DaemonSignals()
    signals.install()  # before the imports, which take a second or two
    from igbss_stream.daemon.daemon import run as run_daemon

    atexit.register(gc.freeze)  # else the collections at the end of the process take up to 2 s
    run_daemon(path, signals)
