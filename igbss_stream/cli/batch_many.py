"""Many recordings: every one is tried, all are told of at the end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from igbss_stream.batch import summary
from igbss_stream.batch.job import FAILED, Job, Result, Watch, in_turn
from igbss_stream.batch.shared_models import with_shared_models
from igbss_stream.cli.console import FilesProgress, files_progress, say, show_table, warn
from igbss_stream.errors import printable

PER_FILE = "file"
_COLUMNS = ("file", "status", "channels", "samples", "sources", "seconds", "x real time", "message")
_TEXT = ("file", "status", "message")

Runner = Callable[[Sequence[Job], Watch | None], Iterator[Result]]
"""Does jobs, in any order, and yields what came of each; see `in_turn`."""


@dataclass(frozen=True, kw_only=True)
class Many:
    """What is done with many recordings.

    Parameters
    ----------
    jobs : sequence of Job
    model_per : {"file", "group", "all"}
        Who shares a model.
    folder : Path
        Where shared models are written.
    summary : Path or None
        A file for programs.
    report : bool
        Whether a page on each result is written beside it.
    quiet : bool
        Whether nothing is printed but errors.
    as_json : bool
        Whether what came of them is printed as lines of JSON rather than as a table.
    """

    jobs: Sequence[Job]
    model_per: str
    folder: Path
    summary: Path | None = None
    report: bool = False
    quiet: bool = False
    as_json: bool = False


def separate_many(many: Many, runner: Runner = in_turn) -> int:
    """Separate recordings, tell of each, and return the exit code.

    Parameters
    ----------
    many : Many
    runner : callable
        What does the jobs.

    Returns
    -------
    int

    Raises
    ------
    IgbssError
        If the summary or a report would take the place of something else, or cannot be written.
    KeyboardInterrupt
        If the user interrupts; what was done until then has been told.
    """
    _check(many)
    began, results = time.perf_counter(), list[Result]()
    try:
        with files_progress(many.quiet, len(many.jobs)) as progress:
            for found in _results(many, runner, progress):
                result = _reported(found, progress) if many.report else found
                results.append(result)
                progress.end(f"{printable(str(result.job.input))}: {_said(result)}")
    finally:
        place = {job.output: n for n, job in enumerate(many.jobs)}
        results.sort(key=lambda result: place[result.job.output])
        _tell(many, results, time.perf_counter() - began)
    return summary.exit_code(results)


def _check(many: Many) -> None:
    """Refuse what could not be written in the end, before anything is separated."""
    if many.summary is not None:
        replace = many.jobs[0].overwrite or many.jobs[0].resume
        summary.check_place(many.summary, [job.input for job in many.jobs], replace=replace)
    if many.report:
        from igbss_stream.batch.reports import check_reports

        check_reports(many.jobs)


def _results(many: Many, runner: Runner, progress: FilesProgress) -> Iterator[Result]:
    def watch(job: Job) -> Callable[[str, int, int], None] | None:
        return progress.begin(printable(job.input.name))

    jobs = many.jobs
    if many.model_per != PER_FILE:
        jobs, failed = with_shared_models(jobs, many.model_per, many.folder, watch)
        yield from failed
    yield from runner(jobs, watch)


def _reported(result: Result, progress: FilesProgress) -> Result:
    from igbss_stream.batch.reports import reported

    return reported(result, progress.begin(printable(result.job.input.name)))


def _said(result: Result) -> str:
    return f"{result.status}{f', {result.message}' if result.message else ''} ({result.seconds:.2f} s)"


def _tell(many: Many, results: Sequence[Result], seconds: float) -> None:
    with suppress(BrokenPipeError):
        if many.as_json:
            say(summary.as_lines([result.row() for result in results]).rstrip("\n"))
        elif not many.quiet:
            show_table(_COLUMNS, [_cells(result) for result in results], text=_TEXT)
            say(summary.totals(results, len(many.jobs), seconds))
        for result in results:
            if result.trace is not None:
                warn(f"Fault of the program in '{printable(str(result.job.input))}':\n{result.trace}")
            elif many.quiet and not many.as_json and result.status == FAILED:
                warn(f"Error: {printable(str(result.job.input))}: {result.message}")
    if many.summary is not None:
        summary.write(many.summary, results)


def _cells(result: Result) -> tuple[str, ...]:
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
