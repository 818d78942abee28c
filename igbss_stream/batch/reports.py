"""Reports beside the outputs of `batch --report`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from igbss_stream._util.progress import Progress
from igbss_stream.batch.job import DONE, FAILED, Job, Result
from igbss_stream.errors import IgbssError, ParameterError, RecordingError
from igbss_stream.pages.report.write import Written, report_place, write_report


def check_reports(jobs: Sequence[Job]) -> None:
    """Refuse reports that cannot be, before anything is separated.

    Parameters
    ----------
    jobs : sequence of Job

    Raises
    ------
    IgbssError
        If a report would be written to a place that something else has.
    """
    taken: dict[Path, Path] = {}
    for job in jobs:
        place = report_place(job.output)
        if place in (job.output, job.input):
            raise ParameterError(
                f"the report on '{job.output}' would be written to '{place}' itself; end --output in .h5"
            )
        if place in taken:
            raise ParameterError(
                f"the reports on '{taken[place]}' and '{job.output}' would both be written to '{place}'; "
                "tell the outputs apart in more than their ending"
            )
        if os.path.lexists(place) and not (job.overwrite or job.resume):
            raise RecordingError(
                f"'{place}' already exists; pass --overwrite to replace it or choose another output"
            )
        taken[place] = job.output


def report_on(job: Job, tell: Progress | None = None) -> Written:
    """Write the report on what a job made.

    Parameters
    ----------
    job : Job
    tell : callable, optional
        Told how far it is.

    Raises
    ------
    IgbssError
        If it cannot be written.
    """
    return write_report(job.output, report_place(job.output), tell=tell)


def reported(result: Result, tell: Progress | None = None) -> Result:
    """Write the report on what came of a job, unless it failed, or was skipped and has one.

    Parameters
    ----------
    result : Result
    tell : callable, optional
        Told how far it is.

    Returns
    -------
    Result
        With a warning if there could be no report: the output is there all the same.
    """
    if result.status == FAILED or (result.status != DONE and report_place(result.job.output).exists()):
        return result
    try:
        report_on(result.job, tell)
    except IgbssError as error:
        return replace(result, warnings=(*result.warnings, f"there is no report: {error}"))
    return result
