"""Separate one recording, and print the outcome."""

import shlex
import time
from pathlib import Path

from igbss_stream.batch.job import Job, find_earlier_outcome, run_job
from igbss_stream.batch.separate import Outcome
from igbss_stream.cli.console import progress_bar, say, warn
from igbss_stream.errors import InputError, printable


def separate_one(job: Job, *, report: bool, quiet: bool) -> None:
    """Separate one recording, and print the outcome.

    Parameters
    ----------
    job : Job
    report : bool
        Whether a report is written beside the output.
    quiet : bool
        Whether only errors and warnings are printed.

    Raises
    ------
    IgbssError
        If the recording cannot be separated, or the output cannot be written.
    """
    if report:
        _check_report(job)
    began = time.perf_counter()
    if find_earlier_outcome(job) is not None:
        if not quiet:
            say(f"skipped: {job.output} is complete")
        if report:
            _write_report(job, quiet, again=False)
        return
    outcome = _separate(job, quiet)
    if not quiet:
        say(_format_outcome(outcome, job.output, time.perf_counter() - began))
        if outcome.learning is not None:
            say(f"learned from {outcome.learning}")
    if outcome.n_failed:
        warn(
            f"Warning: {outcome.n_failed} of {outcome.n_windows} windows did not converge, see /fits in "
            "the output; raise --max-iter or --latent-mass."
        )
    if report:
        _write_report(job, quiet)


def _separate(job: Job, quiet: bool) -> Outcome:
    try:
        with progress_bar(quiet) as progress:
            return run_job(job, progress, None if quiet else _print_note)
    except InputError as error:
        name = shlex.quote(printable(str(job.input)))
        raise InputError(f"{str(error).rstrip('.')}; see `igbss-stream inspect {name}`") from error


# Reports take a second to import, and few runs write them.


def _check_report(job: Job) -> None:
    from igbss_stream.batch.reports import check_reports

    check_reports([job])


def _write_report(job: Job, quiet: bool, *, again: bool = True) -> None:
    """Write the report on an output; unless `again`, only if there is none."""
    from igbss_stream.batch.reports import write_job_report
    from igbss_stream.pages.report.write import get_report_path

    if not again and get_report_path(job.output).exists():
        return
    with progress_bar(quiet) as progress:
        written = write_job_report(job, progress)
    if not quiet:
        say(f"report: {written.path} ({written.size / 1e6:.1f} MB)")


def _print_note(note: str) -> None:
    warn(f"Note: {printable(note)}.")


def _format_outcome(outcome: Outcome, output: Path, seconds: float) -> str:
    length = f" ({outcome.n_samples / outcome.rate:.1f} s at {outcome.rate:g} Hz)" if outcome.rate else ""
    flat = ", ".join(map(printable, outcome.flat))
    left_out = "".join(f"; {what}" for what in outcome.exclusions)
    left_out += f"; left out as flat: {flat}" if flat else ""
    if outcome.taken_out is not None:
        left_out += f"; removed from /cleaned: {outcome.taken_out}"
    return (
        f"{outcome.n_channels} channels x {outcome.n_samples} samples{length} -> {outcome.n_sources} "
        f"sources by {outcome.solver} in {seconds:.2f} s: {output}{left_out}"
    )
