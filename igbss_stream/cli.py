"""The command `igbss-stream`.

What a command needs is imported when it runs, so that `--help` answers at once.
"""

import os
from pathlib import Path
from typing import Any

import click

from igbss_stream import __version__
from igbss_stream.batch.command import batch
from igbss_stream.console import reading_options, reports_mistakes
from igbss_stream.errors import ParameterError
from igbss_stream.export.command import export
from igbss_stream.live.commands import check, init, run, schema
from igbss_stream.live.feed_commands import listen, replay, simulate
from igbss_stream.report.command import report
from igbss_stream.view.command import view

_LEAST_DEMO = 50  # samples: fewer do not show a square wave and a sawtooth


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="igbss-stream")
def main() -> None:
    """Separate the sources behind the channels of recordings and feeds."""
    # The threads of linear algebra wait for each other by spinning: a daemon beside another, or beside its
    # own learner, loses far more by them than it gains. With one, sums are also the same on every machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


for _command in (batch, report, export, run, replay, simulate, listen, view, check, init, schema):
    main.add_command(_command)


@main.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@reading_options
@click.option("--fast", is_flag=True, help="Do not read the samples: no NaN, flat channels and rank.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@reports_mistakes
def inspect(path: Path, fast: bool, as_json: bool, **wanted: Any) -> None:
    """Say how a file is read and what its samples are like, and list its datasets."""
    from igbss_stream import examine as examining
    from igbss_stream.ingest.files import is_hdf5
    from igbss_stream.ingest.wanted import Wanted
    from igbss_stream.inspect import describe, render

    options = Wanted(**wanted)
    description = describe(path) if is_hdf5(path) else None
    found = examining.examine(path, options, read=not fast)
    if as_json:
        click.echo(examining.as_json(path, found, description))
    elif description is None:
        click.echo(examining.as_text(found))
    else:
        click.echo(f"{render(description)}\n\n{examining.as_text(found)}")


@main.command()
@click.option("--seed", default=0, show_default=True, help="Seed of the mixing matrix.")
@click.option("--samples", default=500, show_default=True, help="Length of the mixture.")
@reports_mistakes
def demo(seed: int, samples: int) -> None:
    """Separate a mixture whose sources are known, and print how well they came back."""
    from igbss_stream.demo import render, run

    if samples < _LEAST_DEMO:
        raise ParameterError(f"--samples must be at least {_LEAST_DEMO}. Got {samples} instead.")
    if seed < 0:
        raise ParameterError(f"--seed must be a whole number >= 0. Got {seed} instead.")
    click.echo(render(run(seed, samples), samples))
