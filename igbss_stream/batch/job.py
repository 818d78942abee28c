"""Separate one recording as a job: plain data that travels between processes, and its result.

A `Job` contains paths and settings but no open file, so it can be pickled and run anywhere that sees the
same files. `run_job` raises errors; `run_safely` returns them, so that one bad file does not stop others;
`run_sequentially` runs many.
"""

import json
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igbss_stream.batch.channels import Progress
from igbss_stream.batch.models import KnownModel, load_model
from igbss_stream.batch.resume import (
    Fingerprint,
    find_earlier_output,
    fingerprint_file,
    make_fingerprint,
    make_folder,
    to_plain,
)
from igbss_stream.batch.segment_context import FirstPass, Segment
from igbss_stream.batch.separate import Outcome, separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import IgbssError, IgbssWarning, printable
from igbss_stream.files.montage import find_montage_files
from igbss_stream.files.open import open_with_options
from igbss_stream.files.read_options import ReadOptions

DONE, SKIPPED, FAILED = "done", "skipped", "failed"

Notify = Callable[[str], object]
"""Called with a note of the reader, a sentence without its full stop."""
RunJob = Callable[["Job", Progress | None], "Result"]
"""Run a job, report progress, and return the result."""
Watch = Callable[["Job"], Progress | None]
"""Called with a job that starts; returns the callable that receives its progress."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A recording to separate into a file.

    Parameters
    ----------
    input, output : Path
    settings : BatchSettings
    wanted : ReadOptions
        Options for reading the input.
    overwrite : bool
        Whether an existing output is replaced.
    resume : bool
        Whether an existing output is kept if an earlier run wrote it from the same recording and settings.
    make_folders : bool
        Whether missing folders of the output are created.
    model : Path or None
        Model file to use instead of the model of the settings.
    rows : (int, int) or None
        First row to separate and the row after the last. The model file then contains the results of the
        first pass, see `igbss_stream.batch.segments`.
    """

    input: Path
    output: Path
    settings: BatchSettings
    wanted: ReadOptions = field(default_factory=ReadOptions)
    overwrite: bool = False
    resume: bool = False
    make_folders: bool = False
    model: Path | None = None
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """The result of a job.

    Parameters
    ----------
    job : Job
    status : {"done", "skipped", "failed"}
    seconds : float
        Duration.
    outcome : Outcome or None
        None if the job failed; that of the earlier run if it was skipped.
    error : str or None
        Error message, if the job failed.
    trace : str or None
        Traceback, if the job failed by a fault of the program.
    notes, warnings : tuple of str
        Decisions of the reader, and warnings.
    """

    job: Job
    status: str
    seconds: float
    outcome: Outcome | None = None
    error: str | None = None
    trace: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def speed(self) -> float | None:
        """Seconds of recording per second of work; None if nothing was done or the rate is unknown."""
        if self.status != DONE or self.outcome is None or not self.outcome.rate or not self.seconds:
            return None
        return self.outcome.n_samples / self.outcome.rate / self.seconds

    @property
    def message(self) -> str:
        """The error, or else the warnings, in one line."""
        if self.error is not None:
            return printable(self.error)
        facts = []
        if self.outcome is not None:
            facts = self.outcome.exclusions
            if self.outcome.n_failed:
                facts.append(
                    f"{self.outcome.n_failed} of {self.outcome.n_windows} windows did not converge"
                )
        return printable("; ".join([*self.warnings, *facts]))

    def row(self) -> dict[str, Any]:
        """Return the result as a row of JSON or CSV: text, numbers and None, always with the same keys."""
        outcome = self.outcome
        facts = ("n_channels", "n_samples", "rate", "n_sources", "solver", "n_windows", "n_failed")
        flat, bad = ((), ()) if outcome is None else (outcome.flat, outcome.bad)
        return {
            "input": _decode_path(self.job.input),
            "output": _decode_path(self.job.output),
            "status": self.status,
            # readers may return NumPy numbers, which JSON does not support
            **{name: None if outcome is None else to_plain(getattr(outcome, name)) for name in facts},
            "left_out": None if outcome is None else ", ".join(flat + bad),
            "bad": None if outcome is None else ", ".join(bad),
            "n_bad_samples": None if outcome is None else outcome.n_bad_samples,
            "seconds": round(self.seconds, 6),
            "speed": None if self.speed is None else round(float(self.speed), 3),
            "fault": self.trace is not None,
            "message": self.message,
            "notes": printable("; ".join(self.notes)),
        }


def run_job(job: Job, progress: Progress | None = None, notify: Notify | None = None) -> Outcome:
    """Separate the recording of a job and write its sources.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Called with the progress.
    notify : callable, optional
        Called with each note of the reader, before the first sample is separated.

    Returns
    -------
    Outcome

    Raises
    ------
    IgbssError
        If the recording cannot be read or separated, or the output cannot be written.
    """
    model = None if job.model is None else load_model(job.model)
    with open_with_options(job.input, job.wanted) as source:
        if notify is not None:
            for note in source.notes:
                notify(note)
        made_from = fingerprint_job(job, model)
        if job.make_folders:
            make_folder(job.output)
        return separate_recording(
            source,
            job.output,
            job.settings,
            model=model,
            segment=_segment(job),
            attrs={"job": json.dumps(made_from)},
            overwrite=job.overwrite,
            progress=progress,
        )


def _segment(job: Job) -> Segment | None:
    if job.rows is None or job.model is None:
        return None
    return Segment(job.rows, FirstPass.read(job.model))


def find_earlier_outcome(job: Job) -> Outcome | None:
    """Return the outcome of an earlier run with the same fingerprint, if the job resumes.

    Parameters
    ----------
    job : Job

    Returns
    -------
    Outcome or None

    Raises
    ------
    RecordingError
        If the output exists with another fingerprint and may not be replaced.
    """
    if not job.resume or not os.path.lexists(job.output):
        return None
    now = fingerprint_job(job, None if job.model is None else load_model(job.model))
    earlier = find_earlier_output(job.output, now, overwrite=job.overwrite)
    if earlier is None:
        return None
    facts = ("n_samples", "n_channels", "n_sources", "rate", "solver", "n_windows", "n_failed")
    left_out = ("flat", "bad", "n_bad_samples")
    return Outcome(**{name: getattr(earlier, name) for name in (*facts, *left_out)})


def run_safely(job: Job, progress: Progress | None = None) -> Result:
    """Run a job and return its result; only interrupts are raised.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    Result

    Notes
    -----
    Warnings are collected for the whole process, so run one job at a time in each.
    """
    return capture_result(job, find_earlier_outcome, lambda job, notify: run_job(job, progress, notify))


def capture_result(
    job: Job, earlier: Callable[[Job], Outcome | None], work: Callable[[Job, Notify], Outcome]
) -> Result:
    """Run a function for a job and return the result; only interrupts are raised.

    Parameters
    ----------
    job : Job
    earlier : callable
        Returns the outcome of an earlier run, or None.
    work : callable
        Does the work otherwise; takes the job and a function that receives notes.

    Returns
    -------
    Result
    """
    began, notes = time.perf_counter(), list[str]()
    outcome, status, error, trace = None, SKIPPED, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IgbssWarning)
        try:
            outcome = earlier(job)
            if outcome is None:
                outcome, status = work(job, notes.append), DONE
        except IgbssError as mistake:
            error = str(mistake)
        except Exception as fault:  # a fault with one file must not stop the others
            error, trace = f"{type(fault).__name__}: {fault}", traceback.format_exc()
    return Result(
        job=job,
        status=FAILED if error is not None else status,
        seconds=time.perf_counter() - began,
        outcome=outcome,
        error=error,
        trace=trace,
        notes=tuple(notes),
        warnings=_collect_warnings(caught),
    )


def run_sequentially(
    jobs: Iterable[Job], watch: Watch | None = None, do: RunJob = run_safely
) -> Iterator[Result]:
    """Run jobs one after the other, and yield their results.

    Parameters
    ----------
    jobs : iterable of Job
    watch : callable, optional
        Called with each job when it starts; returns the callable that receives its progress.
    do : callable
        Runs a job.

    Yields
    ------
    Result
    """
    for job in jobs:
        yield do(job, None if watch is None else watch(job))


def fingerprint_job(job: Job, model: KnownModel | None) -> Fingerprint:
    """Return the fingerprint of the output of a job.

    Parameters
    ----------
    job : Job
    model : KnownModel or None
        Model of the job.

    Returns
    -------
    dict
    """
    return make_fingerprint(
        input=fingerprint_file(job.input, find_montage_files(job.input, job.wanted.montage)),
        wanted=job.wanted,
        settings=job.settings,
        model=None if model is None else model.digest,
        **({} if job.rows is None else {"rows": job.rows}),
    )


def _collect_warnings(caught: Iterable[warnings.WarningMessage]) -> tuple[str, ...]:
    """Return the warnings of this package, and show those of other packages as usual."""
    ours = []
    for warning in caught:
        if issubclass(warning.category, IgbssWarning):
            ours.append(str(warning.message))
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return tuple(dict.fromkeys(ours))


def _decode_path(path: Path) -> str:
    """Return a path as valid UTF-8; file names may contain arbitrary bytes."""
    return os.fsencode(path).decode(errors="replace")
