"""Separate many recordings, and print a table of the results."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from igbss_stream.batch import summary
from igbss_stream.batch.job import FAILED, Job, Result, Watch, run_sequentially
from igbss_stream.batch.shared_models import assign_shared_models
from igbss_stream.cli.console import (
    FilesProgress,
    files_progress,
    say,
    say_lines,
    show_table,
    warn,
    warn_lines,
)
from igbss_stream.errors import printable

PER_FILE = "file"
_COLUMNS = ("file", "status", "channels", "samples", "sources", "seconds", "x real time", "message")
_TEXT = ("file", "status", "message")

Runner = Callable[[Sequence[Job], Watch | None], Iterator[Result]]
"""Runs jobs in any order and yields their results; see `run_sequentially`."""


@dataclass(frozen=True, kw_only=True)
class ManyRun:
    """A run over many recordings.

    Parameters
    ----------
    jobs : sequence of Job
    model_per : {"file", "group", "all"}
        Which recordings share a model.
    folder : Path
        Folder for shared models.
    summary : Path or None
        Summary file.
    report : bool
        Whether a report is written beside each output.
    quiet : bool
        Whether only errors are printed.
    as_json : bool
        Whether results are printed as JSON lines instead of a table.
    """

    jobs: Sequence[Job]
    model_per: str
    folder: Path
    summary: Path | None = None
    report: bool = False
    quiet: bool = False
    as_json: bool = False


def separate_many(many: ManyRun, runner: Runner = run_sequentially) -> int:
    """Separate recordings, print the results, and return the exit code.

    Parameters
    ----------
    many : Many
    runner : callable
        Runs the jobs.

    Returns
    -------
    int

    Raises
    ------
    IgbssError
        If the summary or a report cannot be written, or its path is taken.
    KeyboardInterrupt
        If the user interrupts; results so far have been printed.
    """
    _check(many)
    began, results = time.perf_counter(), list[Result]()
    try:
        with files_progress(many.quiet, len(many.jobs)) as progress:
            for found in _run_jobs(many, runner, progress):
                result = _add_report(found, progress) if many.report else found
                results.append(result)
                progress.end(f"{printable(str(result.job.input))}: {_format_result(result)}")
    finally:
        place = {job.output: n for n, job in enumerate(many.jobs)}
        results.sort(key=lambda result: place[result.job.output])
        _print_results(many, results, time.perf_counter() - began)
    return summary.get_exit_code(results)


def _check(many: ManyRun) -> None:
    """Check that everything can be written, before anything is separated."""
    if many.summary is not None:
        replace = many.jobs[0].overwrite or many.jobs[0].resume
        summary.check_summary_path(many.summary, [job.input for job in many.jobs], replace=replace)
    if many.report:
        from igbss_stream.batch.reports import check_reports

        check_reports(many.jobs)


def _run_jobs(many: ManyRun, runner: Runner, progress: FilesProgress) -> Iterator[Result]:
    def watch(job: Job) -> Callable[[str, int, int], None] | None:
        return progress.begin(printable(job.input.name))

    jobs = many.jobs
    if many.model_per != PER_FILE:
        jobs, failed = assign_shared_models(jobs, many.model_per, many.folder, watch)
        yield from failed
    yield from runner(jobs, watch)


def _add_report(result: Result, progress: FilesProgress) -> Result:
    from igbss_stream.batch.reports import add_report

    return add_report(result, progress.begin(printable(result.job.input.name)))


def _format_result(result: Result) -> str:
    return f"{result.status}{f', {result.message}' if result.message else ''} ({result.seconds:.2f} s)"


def _print_results(many: ManyRun, results: Sequence[Result], seconds: float) -> None:
    with suppress(BrokenPipeError):
        if many.as_json:
            say_lines(summary.format_json_lines([result.row() for result in results]).rstrip("\n"))
        elif not many.quiet:
            show_table(_COLUMNS, [_make_row(result) for result in results], text=_TEXT)
            say(summary.format_totals(results, len(many.jobs), seconds))
        for result in results:
            if result.trace is not None:
                warn_lines(f"Fault of the program in '{printable(str(result.job.input))}':\n{result.trace}")
            elif many.quiet and not many.as_json and result.status == FAILED:
                warn(f"Error: {printable(str(result.job.input))}: {result.message}")
    if many.summary is not None:
        summary.write_summary(many.summary, results)


def _make_row(result: Result) -> tuple[str, ...]:
    outcome = result.outcome
    counts = ("n_channels", "n_samples", "n_sources")
    return (
        printable(str(result.job.input)),
        result.status,
        *("-" if outcome is None else str(getattr(outcome, name)) for name in counts),
        f"{result.seconds:.2f}",
        "-" if result.speed is None else f"{result.speed:.1f}",
        result.message or "-",
    )
