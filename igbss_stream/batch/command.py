"""The command `batch`: recordings in, their sources out."""

import functools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igbss_stream.batch.cleaning_options import cleaning_of, cleaning_options
from igbss_stream.batch.many_options import many_options
from igbss_stream.batch.preparing import preparation_from, preparation_options
from igbss_stream.batch.storing import storage_options
from igbss_stream.console import progress_bar, reading_options, reports_mistakes
from igbss_stream.errors import ParameterError, printable

if TYPE_CHECKING:
    from igbss_stream.batch.job import Job
    from igbss_stream.batch.separate import Outcome
    from igbss_stream.batch.settings import BatchSettings
    from igbss_stream.config import ModelSettings


def model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the parameters of the estimator as options."""
    options = [
        click.option("--n-sources", type=int, help="Number of sources.  [default: as many as channels]"),
        click.option(
            "--structure",
            default="learned",
            show_default=True,
            help="Which sources reach which channels: learned (from the samples), systematic, cyclic, "
            "random, or a file (.npy, .csv, .txt) with a matrix of weights, channels by sources.",
        ),
        click.option(
            "--order", default=1, show_default=True, help="Largest number of sources that interact."
        ),
        click.option(
            "--transform",
            default="exp",
            show_default=True,
            help="How samples become probabilities: exp, min-max or sum.",
        ),
        click.option("--scale", type=float, help="Scale of transform exp, in the unit of the recording."),
        click.option("--margin", type=float, help="Margin of transform min-max, as a share of the range."),
        click.option(
            "--closure",
            default="strict",
            show_default=True,
            help="strict or full: what lies above a mixing node.",
        ),
        click.option(
            "--solver",
            default="auto",
            show_default=True,
            help="auto, closed-form, joint, blocked or gradient.",
        ),
        click.option(
            "--latent-mass", default=0.0, show_default=True, help="Share of mass on latent states."
        ),
        click.option("--init", default="zero", show_default=True, help="Start of a fit: zero or random."),
        click.option(
            "--tol", default=1e-10, show_default=True, help="Relative gradient at which a fit is done."
        ),
        click.option("--max-iter", default=1000, show_default=True, help="Largest number of iterations."),
        click.option("--random-state", type=int, help="Seed of structure random and of init random."),
        click.option(
            "--scaling",
            default="unit-variance",
            show_default=True,
            help="Scale of learned sources: unit-variance, or back-projected to their strongest channel.",
        ),
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), command)


_BATCH_EXAMPLES = """\b
Examples:
  igbss-stream batch eeg.h5 --output sources.h5
  igbss-stream batch probe.h5 --dataset /raw/adc --axis 1 --rate 1000 -o sources.h5
  igbss-stream batch eeg.edf --bandpass 1:40 --notch 50 --reference average -o sources.h5
  igbss-stream batch night.nwb --channels 0-31 -o sources.h5
  igbss-stream batch eeg.h5 --exclude-like EOG1:0.5 --exclude 7 -o cleaned.h5
  igbss-stream batch eeg.h5 --n-sources 8 --scaling back-projected -o sources.h5 --overwrite
  igbss-stream batch night/ 'day/**/*.edf' -o 'out/{path}.h5' --summary out.csv --resume
  igbss-stream batch later.h5 --model sources.h5 -o later-sources.h5"""


@click.command(epilog=_BATCH_EXAMPLES)
@click.argument("inputs", metavar="INPUT...", nargs=-1)
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="FILE",
    help="HDF5 file to write; a folder, with / at its end; or a template, 'out/{stem}.h5'.",
)
@many_options
@reading_options
@preparation_options
@model_options
@cleaning_options
@click.option("--window", type=float, help="Seconds that are fitted together, where a fit is needed.")
@click.option("--drop-flat", is_flag=True, help="Leave out channels that are constant.")
@storage_options
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")
@reports_mistakes
def batch(
    inputs: tuple[str, ...],
    output: str,
    listed: str | None,
    resume: bool,
    summary: Path | None,
    model: Path | None,
    model_per: str,
    dataset: str | None,
    axis: int | None,
    rate: float | None,
    channels: str | None,
    factor: float | None,
    unit: str | None,
    window: float | None,
    drop_flat: bool,
    exclude: str | None,
    exclude_like: tuple[str, ...],
    compression: str,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Separate recordings and write their sources.

    INPUT is a file, a folder, which is searched with all below it, or a glob in quotes. Of many recordings
    every one is tried; a table at the end tells what came of each, and the exit code is 2 if any failed.
    """
    from igbss_stream.batch.inputs import find, is_one_file
    from igbss_stream.batch.job import Job
    from igbss_stream.batch.outputs import is_template, place_all
    from igbss_stream.batch.settings import BatchSettings
    from igbss_stream.ingest.wanted import Wanted

    if not inputs and listed is None:
        raise click.UsageError("Missing argument 'INPUT...'.")
    method = _method(model, model_per, **options)
    cleaning = cleaning_of(exclude, exclude_like)
    settings = BatchSettings(
        window=window, drop_flat=drop_flat, cleaning=cleaning, compression=compression, **method
    )
    _give_back_compiler(settings)
    wanted = Wanted(dataset, axis, rate, channels, factor, unit)
    job = partial(Job, settings=settings, wanted=wanted, overwrite=overwrite, resume=resume, model=model)
    one = is_one_file(inputs, listed)
    if one and not is_template(output) and summary is None and model_per == "file":
        _separate_one(job(input=Path(inputs[0]), output=Path(output)), quiet)
        return
    found = find(inputs, listed)
    places = place_all(output, found, model)
    jobs = [
        job(input=item.path, output=place, make_folders=True)
        for item, place in zip(found, places, strict=True)
    ]
    if one and summary is None and model_per == "file":
        _separate_one(jobs[0], quiet)
        return
    _separate_many(jobs, output, summary, model_per, quiet)


def _separate_one(job: "Job", quiet: bool) -> None:
    """Separate one recording; what is wrong with it ends the run."""
    from igbss_stream.batch.job import earlier_outcome, run_job

    began = time.perf_counter()
    if earlier_outcome(job) is not None:
        if not quiet:
            click.echo(f"skipped: {job.output} is complete")
        return
    with progress_bar(quiet) as progress:
        outcome = run_job(job, progress, None if quiet else _tell)
    if not quiet:
        click.echo(_summary(outcome, job.output, time.perf_counter() - began))
    if outcome.n_failed:
        click.echo(
            f"Warning: {outcome.n_failed} of {outcome.n_windows} windows did not converge; /fits in the "
            "output says which. Raise --max-iter or --latent-mass.",
            err=True,
        )


def _separate_many(
    jobs: list["Job"], output: str, summary: Path | None, model_per: str, quiet: bool
) -> None:
    """Separate every recording that can be, tell of all, and end with the exit code that says so."""
    from igbss_stream.batch.many import Many, separate_many
    from igbss_stream.batch.outputs import folder_of
    from igbss_stream.batch.summary import check_place

    if summary is not None:
        check_place(summary, [job.input for job in jobs], replace=jobs[0].overwrite or jobs[0].resume)
    many = Many(jobs=jobs, model_per=model_per, folder=folder_of(output), summary=summary, quiet=quiet)
    code = separate_many(many)
    if code:
        sys.exit(code)


def _tell(note: str) -> None:
    click.echo(f"Note: {printable(note)}.", err=True)


_FIELDS = {  # of settings that options go into, where they are called otherwise
    "scale": ("transform",),
    "margin": ("transform",),
    "bandpass": ("highpass", "lowpass"),
}


def _method(model: Path | None, model_per: str, **options: Any) -> dict[str, Any]:
    """Return model and preparation: of the options, or of a model, which they may not contradict."""
    from igbss_stream.batch.models import known_model, refuse_products

    given = [option for option in options if _is_given(option)]
    preparation = preparation_from(options)
    settings = _settings(**options)
    if model_per != "file":
        if model is not None:
            raise ParameterError(f"--model-per {model_per} learns a model; leave it out or --model")
        refuse_products(settings, f"--model-per {model_per} with structure 'learned'")
    if model is None:
        return {"model": settings, "preparation": preparation}
    known = known_model(model)
    asked = json.loads(settings.to_json()) | json.loads(preparation.to_json())
    there = json.loads(known.settings.to_json()) | json.loads(known.preparation.to_json())
    for option in given:
        for field in _FIELDS.get(option, (option,)):
            if asked[field] != there[field]:
                raise ParameterError(
                    f"--{option.replace('_', '-')} does not go with the model in '{model}', which has "
                    f"{field} {there[field]!r}; leave the option out"
                )
    return {"model": known.settings, "preparation": known.preparation}


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


def _give_back_compiler(settings: "BatchSettings") -> None:
    """Load the kernels that are needed, and take the code that compiled them out of memory."""
    from igbss_stream.live.resident import give_back_library

    if settings.model.is_learned:
        import igbss_stream.learned  # noqa: F401 # its kernels
    give_back_library("llvmlite")


def _settings(
    structure: str, transform: str, scale: float | None, margin: float | None, **options: Any
) -> "ModelSettings":
    from igbss_stream.config import ModelSettings
    from igbss_stream.transform import Exp, MinMax, Transform

    chosen: str | Transform = transform
    if scale is not None:
        _belongs("--scale", "exp", transform)
        chosen = Exp(scale=scale)
    if margin is not None:
        _belongs("--margin", "min-max", transform)
        chosen = MinMax(margin=margin)
    return ModelSettings(structure=_structure(structure), transform=chosen, **options)


def _belongs(option: str, name: str, transform: str) -> None:
    if transform != name:
        raise ParameterError(f"{option} belongs to transform {name}. Got transform {transform} instead.")


def _structure(structure: str) -> Any:
    """Return the name of a structure, or the matrix in the file of that name."""
    from igbss_stream.matrix_file import MATRIX_FILES, read_matrix

    path = Path(structure)
    is_file = path.suffix in MATRIX_FILES or path.is_file()
    return read_matrix(path, "--structure") if is_file else structure


def _summary(outcome: "Outcome", output: Path, seconds: float) -> str:
    length = f" ({outcome.n_samples / outcome.rate:.1f} s at {outcome.rate:g} Hz)" if outcome.rate else ""
    flat = ", ".join(map(printable, outcome.left_out))
    left_out = f"; left out as flat: {flat}" if flat else ""
    if outcome.taken_out is not None:
        left_out += f"; taken out of /cleaned: {outcome.taken_out}"
    return (
        f"{outcome.n_channels} channels x {outcome.n_samples} samples{length} -> {outcome.n_sources} "
        f"sources by {outcome.solver} in {seconds:.2f} s: {output}{left_out}"
    )
