"""Reports beside the outputs of `batch --report`."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from igbss_stream._util.progress import Progress
from igbss_stream.batch.job import DONE, FAILED, Job, Result
from igbss_stream.errors import IgbssError, ParameterError, RecordingError
from igbss_stream.pages.report.write import WrittenReport, get_report_path, write_report


def check_reports(jobs: Sequence[Job]) -> None:
    """Check that all reports can be written, before anything is separated.

    Parameters
    ----------
    jobs : sequence of Job

    Raises
    ------
    IgbssError
        If the path of a report is taken.
    """
    taken: dict[Path, Path] = {}
    for job in jobs:
        place = get_report_path(job.output)
        if place in (job.output, job.input):
            raise ParameterError(
                f"the report on '{job.output}' would be written to '{place}' itself; use the extension .h5 "
                "for --output"
            )
        if place in taken:
            raise ParameterError(
                f"the reports on '{taken[place]}' and '{job.output}' would both be written to '{place}'; "
                "give the outputs names that differ in more than the extension"
            )
        if os.path.lexists(place) and not (job.overwrite or job.resume):
            raise RecordingError(
                f"'{place}' already exists; pass --overwrite to replace it or choose another output"
            )
        taken[place] = job.output


def write_job_report(job: Job, progress: Progress | None = None) -> WrittenReport:
    """Write the report on the output of a job.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Called with the progress.

    Raises
    ------
    IgbssError
        If the report cannot be written.
    """
    return write_report(job.output, get_report_path(job.output), progress=progress)


def add_report(result: Result, progress: Progress | None = None) -> Result:
    """Write the report on a result, unless the job failed, or was skipped and has a report.

    Parameters
    ----------
    result : Result
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    Result
        With a warning if the report could not be written; the output is complete all the same.
    """
    if result.status == FAILED or (result.status != DONE and get_report_path(result.job.output).exists()):
        return result
    try:
        write_job_report(result.job, progress)
    except IgbssError as error:
        return replace(result, warnings=(*result.warnings, f"the report was not written: {error}"))
    return result
