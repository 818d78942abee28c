"""One recording: what comes of it is told in sentences, and what is wrong with it ends the run."""

import shlex
import time
from pathlib import Path

from igbss_stream.batch.job import Job, earlier_outcome, run_job
from igbss_stream.batch.separate import Outcome
from igbss_stream.cli.console import progress_bar, say, warn
from igbss_stream.errors import InputError, printable


def separate_one(job: Job, *, report: bool, quiet: bool) -> None:
    """Separate one recording, and tell of it.

    Parameters
    ----------
    job : Job
    report : bool
        Whether a page on the result is written beside it.
    quiet : bool
        Whether nothing is printed but errors and warnings.

    Raises
    ------
    IgbssError
        If it cannot be separated, or what came of it not be written.
    """
    if report:
        _check_report(job)
    began = time.perf_counter()
    if earlier_outcome(job) is not None:
        if not quiet:
            say(f"skipped: {job.output} is complete")
        if report:
            _report(job, quiet, again=False)
        return
    outcome = _separated(job, quiet)
    if not quiet:
        say(_summary(outcome, job.output, time.perf_counter() - began))
    if outcome.n_failed:
        warn(
            f"Warning: {outcome.n_failed} of {outcome.n_windows} windows did not converge; /fits in the "
            "output says which. Raise --max-iter or --latent-mass."
        )
    if report:
        _report(job, quiet)


def _separated(job: Job, quiet: bool) -> Outcome:
    try:
        with progress_bar(quiet) as progress:
            return run_job(job, progress, None if quiet else _note)
    except InputError as error:
        name = shlex.quote(printable(str(job.input)))
        raise InputError(f"{str(error).rstrip('.')}; `igbss-stream inspect {name}` tells more") from error


# What draws the pages takes a second to load, and is wanted by few.


def _check_report(job: Job) -> None:
    from igbss_stream.batch.reports import check_reports

    check_reports([job])


def _report(job: Job, quiet: bool, *, again: bool = True) -> None:
    """Write the report on an output; if not again, only where there is none."""
    from igbss_stream.batch.reports import report_on
    from igbss_stream.pages.report.write import report_place

    if not again and report_place(job.output).exists():
        return
    with progress_bar(quiet) as progress:
        written = report_on(job, progress)
    if not quiet:
        say(f"report: {written.path} ({written.size / 1e6:.1f} MB)")


def _note(note: str) -> None:
    warn(f"Note: {printable(note)}.")


def _summary(outcome: Outcome, output: Path, seconds: float) -> str:
    length = f" ({outcome.n_samples / outcome.rate:.1f} s at {outcome.rate:g} Hz)" if outcome.rate else ""
    flat = ", ".join(map(printable, outcome.left_out))
    left_out = f"; left out as flat: {flat}" if flat else ""
    if outcome.taken_out is not None:
        left_out += f"; taken out of /cleaned: {outcome.taken_out}"
    return (
        f"{outcome.n_channels} channels x {outcome.n_samples} samples{length} -> {outcome.n_sources} "
        f"sources by {outcome.solver} in {seconds:.2f} s: {output}{left_out}"
    )
