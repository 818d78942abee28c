"""Options of `batch` that say where the work is done, and what does it."""

import functools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from igbss_stream.cli.console import with_options
from igbss_stream.errors import ParameterError

if TYPE_CHECKING:
    from igbss_stream.batch.segments import Doer
    from igbss_stream.cli.batch_many import Runner


worker_options = with_options(
    click.option("--workers", type=int, help="Work in so many processes of this machine (Dask)."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Do it on the workers of this Dask scheduler: tcp://..., tls://... or its scheduler file.",
    ),
    click.option(
        "--segment",
        type=float,
        metavar="SECONDS",
        help="Do each recording in segments of this length, into parts that OUTPUT joins.",
    ),
)


@contextmanager
def runner_of(
    workers: int | None, scheduler: str | None, segment: float | None = None
) -> Iterator["Runner"]:
    """Yield what does the jobs: this process, unless others are asked for.

    Parameters
    ----------
    workers : int or None
    scheduler : str or None
    segment : float or None
        Seconds of a segment.

    Yields
    ------
    Runner
    """
    from igbss_stream.batch.job import result_of

    if segment is not None and not (math.isfinite(segment) and segment > 0):
        raise ParameterError(f"--segment must be a number of seconds above 0. Got {segment} instead.")
    with _doer(workers, scheduler) as doer:
        if segment is None:
            yield lambda jobs, watch: doer(jobs, watch, result_of)
        else:
            from igbss_stream.batch.segments import in_segments

            yield functools.partial(in_segments, runner=doer, seconds=segment)


@contextmanager
def _doer(workers: int | None, scheduler: str | None) -> Iterator["Doer"]:
    from igbss_stream.batch.job import in_turn

    if workers is None and scheduler is None:
        yield in_turn
        return
    try:
        from igbss_stream.batch.dask_runner import Workers
    except ImportError as error:
        raise ParameterError(
            f"--workers and --scheduler need Dask, which cannot be imported ({error}); install it with: "
            "pip install 'igbss-stream[dask]'"
        ) from error
    with Workers(workers, scheduler) as there:
        yield there.run
