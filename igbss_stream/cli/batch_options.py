"""Options of `batch` beside those of the model and of the preparation."""

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import add_options, complete_from
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.batch.segments import JobRunner
    from igbss_stream.cli.batch_many import Runner
    from igbss_stream.separation.cleaning import Cleaning


many_options = add_options(
    click.option(
        "--list", "listed", metavar="FILE", help="File with more inputs, one per line; - for stdin."
    ),
    click.option("--resume", is_flag=True, help="Skip recordings that an earlier run completed."),
    click.option(
        "--summary",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Write the results to a file: .csv, .json or .jsonl.",
    ),
    click.option(
        "--model",
        "model",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Use the model in this output of batch instead of learning one.",
    ),
    click.option(
        "--model-per",
        type=click.Choice(["file", "group", "all"]),
        default="file",
        show_default=True,
        help="Learn one model per file, per group of files with the same channels, rate and unit, or "
        "one for all.",
    ),
)

worker_options = add_options(
    click.option("--workers", type=int, help="Number of local worker processes (Dask)."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Use the workers of this Dask scheduler: tcp://..., tls://... or its scheduler file.",
    ),
    click.option(
        "--segment",
        type=float,
        metavar="SECONDS",
        help="Separate each recording in segments of this length; OUTPUT joins the parts.",
    ),
)

cleaning_options = add_options(
    click.option(
        "--exclude",
        metavar="N,...",
        help="Numbers of sources to remove, from 0, separated by commas; write the cleaned channels.",
    ),
    click.option(
        "--exclude-like",
        multiple=True,
        metavar="CHANNEL[:R]",
        help="Remove sources whose absolute correlation with this channel is at least R; may be "
        "repeated.  [default of R: 0.5]",
    ),
    click.option(
        "--exclude-labelled",
        metavar="LABEL[:S],...",
        help="Remove sources with a score of at least S for a label: eye, heart, muscle, line, channel.  "
        "[default of S: 0.8]",
    ),
)

bad_channel_options = add_options(
    click.option(
        "--bad-channels",
        metavar="auto|off|NAME,...",
        default="off",
        show_default=True,
        help="Leave out channels: auto for those that are bad by their samples, as `inspect` names them; "
        "or names, separated by commas.",
    ),
    click.option(
        "--keep-bad",
        is_flag=True,
        help="Separate channels that the file marks as bad, and learn from samples that it marks.",
    ),
    click.option(
        "--interpolate-bads",
        is_flag=True,
        help="Add bad channels to the cleaned channels, interpolated from the others by spherical splines.",
    ),
)

storage_options = click.option(
    "--compression",
    default="none",
    shell_complete=complete_from("none", "gzip", "lz4"),
    show_default=True,
    help="Compression of the output: none, gzip (14 to 25 % smaller, ten times slower to write), or lz4 "
    "(readers need hdf5plugin).",
)


def parse_cleaning(
    exclude: str | None, exclude_like: tuple[str, ...], exclude_labelled: str | None = None
) -> "Cleaning | None":
    """Return the cleaning that the options request; None if none is given.

    Parameters
    ----------
    exclude : str, optional
        Such as ``"0,3"``.
    exclude_like : tuple of str
        Each such as ``"EOG1"`` or ``"EOG1:0.5"``.
    exclude_labelled : str, optional
        Such as ``"eye,heart:0.7"``.

    Raises
    ------
    ParameterError
        If an option is invalid.
    """
    if exclude is None and not exclude_like and exclude_labelled is None:
        return None
    from igbss_stream.separation.cleaning import Cleaning

    return Cleaning(
        exclude=() if exclude is None else parse_numbers(exclude, "--exclude"),
        exclude_like=tuple(map(_parse_like, exclude_like)),
        exclude_labelled=_parse_labels(exclude_labelled),
    )


def parse_bad_channels(text: str) -> str | tuple[str, ...]:
    """Return ``"auto"``, ``"off"``, or the names of channels.

    Parameters
    ----------
    text : str
        Such as ``"auto"`` or ``"T8,Fp2"``.

    Raises
    ------
    ParameterError
        If a name is empty.
    """
    if text in ("auto", "off"):
        return text
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ParameterError(
            "--bad-channels must be auto, off, or names of channels separated by commas, such as T8,Fp2. "
            f"Got {text!r} instead."
        )
    return names


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Return the numbers of sources in an option, such as ``"0,3"``.

    Raises
    ------
    ParameterError
        If there is anything else.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise ParameterError(
                f"{option} must be numbers of sources separated by commas, such as 0,3. Got {text!r} "
                "instead."
            )
    return tuple(map(int, words))


def _parse_labels(text: str | None) -> tuple[tuple[str, float], ...]:
    if text is None:
        return ()
    from igbss_stream.separation.cleaning import MIN_SCORE

    found = []
    for word in text.split(","):
        label, colon, number = word.strip().lower().replace("-", " ").replace("_", " ").partition(":")
        try:
            found.append((label, float(number) if colon else MIN_SCORE))
        except ValueError:
            raise ParameterError(
                "--exclude-labelled must be labels separated by commas, each with a colon and the minimum "
                f"score if needed, such as eye,heart:0.7. Got {text!r} instead."
            ) from None
    return tuple(found)


def _parse_like(text: str) -> tuple[str, float]:
    """Split a channel name, which may contain colons, from the minimum correlation."""
    from igbss_stream.separation.cleaning import MIN_CORRELATION

    name, colon, number = text.rpartition(":")
    if not colon:
        return text, MIN_CORRELATION
    try:
        return name, float(number)
    except ValueError:
        raise ParameterError(
            "--exclude-like must be a channel, a colon and the minimum correlation, such as EOG1:0.5. "
            f"Got {text!r} instead."
        ) from None


@contextmanager
def open_runner(
    workers: int | None, scheduler: str | None, segment: float | None = None
) -> Iterator["Runner"]:
    """Yield the runner of the jobs: this process by default, or Dask.

    Parameters
    ----------
    workers : int or None
    scheduler : str or None
    segment : float or None
        Length of a segment in seconds.

    Yields
    ------
    Runner
    """
    from igbss_stream.batch.job import run_safely

    if segment is not None and not (math.isfinite(segment) and segment > 0):
        raise ParameterError(f"--segment must be a number of seconds above 0. Got {segment} instead.")
    with _open_job_runner(workers, scheduler) as doer:
        if segment is None:
            yield lambda jobs, watch: doer(jobs, watch, run_safely)
        else:
            from igbss_stream.batch.segments import run_in_segments

            yield functools.partial(run_in_segments, runner=doer, seconds=segment)


@contextmanager
def _open_job_runner(workers: int | None, scheduler: str | None) -> Iterator["JobRunner"]:
    from igbss_stream.batch.job import run_sequentially

    if workers is None and scheduler is None:
        yield run_sequentially
        return
    try:
        from igbss_stream.batch.dask_runner import DaskRunner
    except ImportError as error:
        raise ParameterError(
            f"--workers and --scheduler need Dask, which cannot be imported ({error}); install it with: "
            "pip install 'igbss-stream[dask]'"
        ) from error
    with DaskRunner(workers, scheduler) as there:
        yield there.run
