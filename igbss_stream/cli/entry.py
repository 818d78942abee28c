"""The command group `igbss-stream`, and the commands `inspect` and `demo`.

Commands import what they need when they run, so that `--help` answers immediately.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from igbss_stream._util.version import __version__
from igbss_stream.cli.batch import batch
from igbss_stream.cli.choose import choose
from igbss_stream.cli.console import progress_bar, reading_options, report_errors, say, say_lines, warn
from igbss_stream.cli.daemon_commands import check, init, run, schema
from igbss_stream.cli.export import export
from igbss_stream.cli.feed_commands import listen, replay, simulate
from igbss_stream.cli.make_keys import make_keys
from igbss_stream.cli.report import report
from igbss_stream.cli.view import view
from igbss_stream.errors import ParameterError, RecordingError

_LEAST_DEMO = 50  # samples: fewer do not show a square wave and a sawtooth
_EXAMPLES = """\b
Examples:
  igbss-stream demo
  igbss-stream batch eeg.h5 --output sources.h5
  igbss-stream batch --help

\b
Exit codes:
  0    done
  1    a fault of the program; a traceback is printed
  2    a mistake in the options, a file or the samples; the message says what to do
  130  interrupted by Ctrl-C (`run` exits with 0 on Ctrl-C and on SIGTERM)

\b
Completion by the tab key; add to the start-up file of your shell:
  bash  eval "$(_IGBSS_STREAM_COMPLETE=bash_source igbss-stream)"
  zsh   eval "$(_IGBSS_STREAM_COMPLETE=zsh_source igbss-stream)"
  fish  _IGBSS_STREAM_COMPLETE=fish_source igbss-stream | source"""
_INSPECT_EXAMPLES = """\b
Examples:
  igbss-stream inspect eeg.h5
  igbss-stream inspect night.edf --fast
  igbss-stream inspect probe.h5 --dataset /raw/adc --axis 1 --json"""
_DEMO_EXAMPLES = """\b
Examples:
  igbss-stream demo
  igbss-stream demo --seed 3 --samples 5000
  igbss-stream demo --json"""


@click.group(
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100}, epilog=_EXAMPLES
)
@click.version_option(__version__, prog_name="igbss-stream")
def main() -> None:
    """Separate the sources behind the channels of recordings and live streams."""
    # Threads of linear algebra wait for each other by spinning, which costs a daemon beside another, or
    # beside its own learner, more than it gains. With one thread, sums are also the same on every machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


for _command in (
    batch,
    report,
    export,
    run,
    replay,
    simulate,
    listen,
    view,
    choose,
    check,
    init,
    schema,
    make_keys,
):
    main.add_command(_command)


@main.command(epilog=_INSPECT_EXAMPLES)
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@reading_options
@click.option(
    "--fast",
    is_flag=True,
    help="Do not read the samples; skips NaN, flat channels, rank and gaps of counters.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--strict", is_flag=True, help="Exit with code 1 if there is a note, or the file is not read."
)
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@report_errors
def inspect(path: Path, fast: bool, as_json: bool, strict: bool, quiet: bool, **wanted: Any) -> None:
    """Describe how a file is read, what its samples are like, and which datasets it has."""
    from igbss_stream.files import inspection as examining
    from igbss_stream.files.open import is_hdf5
    from igbss_stream.files.read_options import ReadOptions
    from igbss_stream.files.readers.hdf5.listing import describe_file, format_description
    from igbss_stream.files.results.learned_models import LearnedModel, read_learned_models

    options = ReadOptions(**wanted)
    description = describe_file(path) if is_hdf5(path) else None
    models: Sequence[LearnedModel] = ()
    if description is not None:
        try:
            models = read_learned_models(path)
        except RecordingError as error:  # of a damaged file, the rest is described all the same
            warn(str(error))
    with progress_bar(quiet) as progress:
        found = examining.examine(path, options, read=not fast, progress=progress)
    if as_json:
        say(examining.as_json(path, found, description, models))
    elif description is None:
        say_lines(examining.as_text(found))
    else:
        say_lines(f"{format_description(description)}\n\n{examining.as_text(found, models)}")
    if strict and (isinstance(found, examining.Refusal) or found.notes):
        sys.exit(1)


@main.command(epilog=_DEMO_EXAMPLES)
@click.option("--seed", default=0, show_default=True, help="Seed of the mixing matrix.")
@click.option("--samples", default=500, show_default=True, help="Length of the mixture.")
@click.option("--json", "json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@report_errors
def demo(seed: int, samples: int, json: bool, quiet: bool) -> None:
    """Separate a mixture with known sources, and print scores."""
    from igbss_stream.cli.demo import as_json, render, run

    if samples < _LEAST_DEMO:
        raise ParameterError(f"--samples must be at least {_LEAST_DEMO}. Got {samples} instead.")
    if seed < 0:
        raise ParameterError(f"--seed must be a whole number >= 0. Got {seed} instead.")
    with progress_bar(quiet) as progress:
        scores = run(seed, samples, progress)
    say_lines(as_json(scores, seed, samples) if json else render(scores, samples))
