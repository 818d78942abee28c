"""The command `batch`: recordings in, their sources out."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from igbss_stream.batch.preparing import preparation_from, preparation_options
from igbss_stream.console import progress_bar, reading_options, reports_mistakes
from igbss_stream.errors import ParameterError, printable

if TYPE_CHECKING:
    from igbss_stream.batch.separate import Outcome
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
  igbss-stream batch eeg.h5 --n-sources 8 --scaling back-projected -o sources.h5 --overwrite"""


@click.command(epilog=_BATCH_EXAMPLES)
@click.argument("recording", metavar="INPUT", type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="HDF5 file to write.")
@reading_options
@preparation_options
@model_options
@click.option("--window", type=float, help="Seconds that are fitted together, where a fit is needed.")
@click.option("--drop-flat", is_flag=True, help="Leave out channels that are constant.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")
@reports_mistakes
def batch(
    recording: Path,
    output: Path,
    dataset: str | None,
    axis: int | None,
    rate: float | None,
    channels: str | None,
    factor: float | None,
    unit: str | None,
    window: float | None,
    drop_flat: bool,
    overwrite: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Separate a recording and write its sources."""
    from igbss_stream.batch.job import Job, run_job
    from igbss_stream.batch.settings import BatchSettings
    from igbss_stream.ingest.wanted import Wanted

    preparation = preparation_from(options)
    settings = BatchSettings(
        model=_settings(**options), preparation=preparation, window=window, drop_flat=drop_flat
    )
    wanted = Wanted(dataset, axis, rate, channels, factor, unit)
    job = Job(input=recording, output=output, settings=settings, wanted=wanted, overwrite=overwrite)
    began = time.perf_counter()
    with progress_bar(quiet) as progress:
        outcome = run_job(job, progress, None if quiet else _tell)
    if not quiet:
        click.echo(_summary(outcome, output, time.perf_counter() - began))
    if outcome.n_failed:
        click.echo(
            f"Warning: {outcome.n_failed} of {outcome.n_windows} windows did not converge; /fits in the "
            "output says which. Raise --max-iter or --latent-mass.",
            err=True,
        )


def _tell(note: str) -> None:
    click.echo(f"Note: {printable(note)}.", err=True)


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
    return (
        f"{outcome.n_channels} channels x {outcome.n_samples} samples{length} -> {outcome.n_sources} "
        f"sources by {outcome.solver} in {seconds:.2f} s: {output}{left_out}"
    )
