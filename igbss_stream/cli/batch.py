"""The command `batch`: separate recordings."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from igbss_stream.cli.batch_options import (
    bad_channel_options,
    cleaning_options,
    many_options,
    open_runner,
    parse_bad_channels,
    parse_cleaning,
    storage_options,
    worker_options,
)
from igbss_stream.cli.console import reading_options, report_errors
from igbss_stream.cli.model_options import model_options
from igbss_stream.cli.preparation_options import preparation_options

_BATCH_EXAMPLES = """\b
Examples:
  igbss-stream batch eeg.h5 --output sources.h5
  igbss-stream batch probe.h5 --dataset /raw/adc --axis 1 --rate 1000 -o sources.h5
  igbss-stream batch eeg.edf --bandpass 1:40 --notch 50 --reference average -o sources.h5
  igbss-stream batch night.nwb --channels 0-31 -o sources.h5
  igbss-stream batch eeg.h5 --exclude-like EOG1:0.5 --exclude 7 -o cleaned.h5
  igbss-stream batch eeg.edf --highpass 1 --exclude-labelled eye,heart:0.7 -o cleaned.h5
  igbss-stream batch eeg.h5 --n-sources 8 --scaling back-projected -o sources.h5 --overwrite
  igbss-stream batch night/ 'day/**/*.edf' -o 'out/{path}.h5' --summary out.csv --resume
  igbss-stream batch later.h5 --model sources.h5 -o later-sources.h5
  igbss-stream batch eeg.h5 -o sources.h5 --json | jq .n_sources"""


@click.command(epilog=_BATCH_EXAMPLES)
@click.argument("inputs", metavar="INPUT...", nargs=-1, type=click.Path())
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="HDF5 file to write, a folder (with a trailing /), or a template such as 'out/{stem}.h5'.",
)
@many_options
@worker_options
@reading_options
@preparation_options
@model_options
@cleaning_options
@click.option("--window", type=float, help="Window length in seconds, for solvers that fit windows.")
@click.option("--drop-flat", is_flag=True, help="Leave out flat (constant) channels.")
@bad_channel_options
@storage_options
@click.option(
    "--report",
    is_flag=True,
    help="Write a report beside the output, see `igbss-stream report`.",
)
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object per recording, as --summary FILE.jsonl.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings.")
@report_errors
def batch(
    inputs: tuple[str, ...],
    output: str,
    listed: str | None,
    resume: bool,
    summary: Path | None,
    model: Path | None,
    model_per: str,
    workers: int | None,
    scheduler: str | None,
    segment: float | None,
    dataset: str | None,
    axis: int | None,
    rate: float | None,
    channels: str | None,
    factor: float | None,
    unit: str | None,
    events: str | None,
    montage: str | None,
    missing: float | None,
    window: float | None,
    drop_flat: bool,
    bad_channels: str,
    keep_bad: bool,
    interpolate_bads: bool,
    exclude: str | None,
    exclude_like: tuple[str, ...],
    exclude_labelled: str | None,
    compression: str,
    report: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Separate recordings and write their sources.

    INPUT is a file, a folder (searched recursively), or a quoted glob. All recordings are tried; a table at
    the end lists the results, and the exit code is 2 if any failed.
    """
    from igbss_stream.batch.inputs import find_recordings, is_one_file
    from igbss_stream.batch.job import Job
    from igbss_stream.batch.outputs import check_ending, get_output_folder, is_template, plan_outputs
    from igbss_stream.batch.settings import BatchSettings
    from igbss_stream.cli.batch_many import ManyRun, separate_many
    from igbss_stream.cli.batch_single import separate_one
    from igbss_stream.cli.method import choose_method
    from igbss_stream.files.read_options import ReadOptions

    if not inputs and listed is None:
        raise click.UsageError("Missing argument 'INPUT...'.")
    given = [name for name in options if _is_given(name)]
    model_settings, preparation = choose_method(model, model_per, options, given)
    settings = BatchSettings(
        model=model_settings,
        preparation=preparation,
        window=window,
        drop_flat=drop_flat,
        bad_channels=parse_bad_channels(bad_channels),
        keep_bad=keep_bad,
        interpolate_bads=interpolate_bads,
        cleaning=parse_cleaning(exclude, exclude_like, exclude_labelled),
        compression=compression,
    )
    wanted = ReadOptions(dataset, axis, rate, channels, factor, unit, events, montage, missing)
    job = partial(Job, settings=settings, wanted=wanted, overwrite=overwrite, resume=resume, model=model)
    plain = summary is None and model_per == "file" and (workers, scheduler, segment) == (None,) * 3
    alone = is_one_file(inputs, listed) and plain and not as_json
    if alone and not is_template(output):
        check_ending(Path(output))
        jobs = [job(input=Path(inputs[0]), output=Path(output))]
    else:
        found = find_recordings(inputs, listed)
        jobs = [
            job(input=item.path, output=place, make_folders=True)
            for item, place in zip(found, plan_outputs(output, found, model), strict=True)
        ]
    if alone:
        separate_one(jobs[0], report=report, quiet=quiet)
        return
    many = ManyRun(
        jobs=jobs,
        model_per=model_per,
        folder=get_output_folder(output),
        summary=summary,
        report=report,
        quiet=quiet,
        as_json=as_json,
    )
    with open_runner(workers, scheduler, segment) as runner:
        code = separate_many(many, runner)
    if code:
        sys.exit(code)


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT
