"""One recording to separate, as plain data that travels between processes, and what came of it.

A `Job` holds paths and settings, no open file: it may be pickled and run anywhere that sees the same files.
`run_job` does it and raises what is wrong; `result_of` does it and tells what is wrong, so that one bad
file stops no other; `in_turn` does many.
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
from igbss_stream.batch.fingerprint import Fingerprint, described, fingerprint, of_file
from igbss_stream.batch.kept import kept, make_folder
from igbss_stream.batch.models import KnownModel, known_model
from igbss_stream.batch.segment_context import FirstPass, Segment
from igbss_stream.batch.separate import Outcome, separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import IgbssError, IgbssWarning, printable
from igbss_stream.files.open import open_file_of_any_kind
from igbss_stream.files.read_options import Wanted

DONE, SKIPPED, FAILED = "done", "skipped", "failed"

Tell = Callable[[str], object]
"""Called with a note of the reader, a sentence without its point."""
Do = Callable[["Job", Progress | None], "Result"]
"""Does a job, tells how far it is, and returns what came of it."""
Watch = Callable[["Job"], Progress | None]
"""Called with a job that begins; returns what is told how far it is."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A recording to separate into a file.

    Parameters
    ----------
    input, output : Path
    settings : BatchSettings
    wanted : Wanted
        What is read of the input.
    overwrite : bool
        Whether an output that exists is replaced.
    resume : bool
        Whether an output that an earlier run made of the same recording, in the same way, is kept.
    make_folders : bool
        Whether folders of the output that are missing are made.
    model : Path or None
        A file with the model that separates, in place of the settings' model.
    rows : (int, int) or None
        The first row to separate and the one after the last, by a model in whose file there is what the
        first pass found; see `igbss_stream.batch.segments`.
    """

    input: Path
    output: Path
    settings: BatchSettings
    wanted: Wanted = field(default_factory=Wanted)
    overwrite: bool = False
    resume: bool = False
    make_folders: bool = False
    model: Path | None = None
    rows: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """What came of a job.

    Parameters
    ----------
    job : Job
    status : {"done", "skipped", "failed"}
    seconds : float
        That it took.
    outcome : Outcome or None
        None if it failed; of an earlier run if it was skipped.
    error : str or None
        Why it failed.
    trace : str or None
        Where a fault of the program came from, if it failed by one rather than by the file or the options.
    notes, warnings : tuple of str
        What the reader decided, and what may not be as one expects.
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
        """Seconds of the recording a second of work; None where nothing was done or the rate is unknown."""
        if self.status != DONE or self.outcome is None or not self.outcome.rate or not self.seconds:
            return None
        return self.outcome.n_samples / self.outcome.rate / self.seconds

    @property
    def message(self) -> str:
        """The error, or else what may not be as one expects, in one line."""
        if self.error is not None:
            return printable(self.error)
        fits = []
        if self.outcome is not None and self.outcome.n_failed:
            fits = [f"{self.outcome.n_failed} of {self.outcome.n_windows} windows did not converge"]
        return printable("; ".join([*self.warnings, *fits]))

    def row(self) -> dict[str, Any]:
        """Return the result as JSON and CSV know it: text, numbers and None, under the same keys always."""
        outcome = self.outcome
        facts = ("n_channels", "n_samples", "rate", "n_sources", "solver", "n_windows", "n_failed")
        return {
            "input": _text(self.job.input),
            "output": _text(self.job.output),
            "status": self.status,
            # Readers may hand over numbers of NumPy, which JSON does not know.
            **{name: None if outcome is None else described(getattr(outcome, name)) for name in facts},
            "left_out": None if outcome is None else ", ".join(outcome.left_out),
            "seconds": round(self.seconds, 6),
            "speed": None if self.speed is None else round(float(self.speed), 3),
            "fault": self.trace is not None,
            "message": self.message,
            "notes": printable("; ".join(self.notes)),
        }


def run_job(job: Job, progress: Progress | None = None, tell: Tell | None = None) -> Outcome:
    """Separate the recording of a job and write its sources.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Told how far it is.
    tell : callable, optional
        Told what the reader decided, before the first sample is separated.

    Returns
    -------
    Outcome

    Raises
    ------
    IgbssError
        If the recording cannot be read or separated, or the output cannot be written.
    """
    model = None if job.model is None else known_model(job.model)
    with open_file_of_any_kind(job.input, job.wanted) as source:
        if tell is not None:
            for note in source.notes:
                tell(note)
        made_from = made_of(job, model)
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


def earlier_outcome(job: Job) -> Outcome | None:
    """Return what an earlier run made of the same recording in the same way, if the job resumes and it did.

    Parameters
    ----------
    job : Job

    Returns
    -------
    Outcome or None

    Raises
    ------
    RecordingError
        If the output is there, is another, and may not be replaced.
    """
    if not job.resume or not os.path.lexists(job.output):
        return None
    now = made_of(job, None if job.model is None else known_model(job.model))
    earlier = kept(job.output, now, overwrite=job.overwrite)
    if earlier is None:
        return None
    facts = ("n_samples", "n_channels", "n_sources", "rate", "solver", "n_windows", "n_failed")
    return Outcome(**{name: getattr(earlier, name) for name in facts})


def result_of(job: Job, progress: Progress | None = None) -> Result:
    """Do a job, and return what came of it; only interrupts are raised.

    Parameters
    ----------
    job : Job
    progress : callable, optional
        Told how far it is.

    Returns
    -------
    Result

    Notes
    -----
    Warnings are gathered for the whole process: do one job at a time in each.
    """
    return told(job, earlier_outcome, lambda job, tell: run_job(job, progress, tell))


def told(
    job: Job, earlier: Callable[[Job], Outcome | None], work: Callable[[Job, Tell], Outcome]
) -> Result:
    """Do some work for a job, and return what came of it; only interrupts are raised.

    Parameters
    ----------
    job : Job
    earlier : callable
        Returns what an earlier run made of it, if it did and the job resumes.
    work : callable
        Does it otherwise; told what to tell.

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
        except Exception as fault:  # of one file: the others are still to be had
            error, trace = f"{type(fault).__name__}: {fault}", traceback.format_exc()
    return Result(
        job=job,
        status=FAILED if error is not None else status,
        seconds=time.perf_counter() - began,
        outcome=outcome,
        error=error,
        trace=trace,
        notes=tuple(notes),
        warnings=_texts(caught),
    )


def in_turn(jobs: Iterable[Job], watch: Watch | None = None, do: Do = result_of) -> Iterator[Result]:
    """Do one job after the other, and yield what came of each.

    Parameters
    ----------
    jobs : iterable of Job
    watch : callable, optional
        Called with each job as it begins; returns what is told how far it is.
    do : callable
        What is done with each.

    Yields
    ------
    Result
    """
    for job in jobs:
        yield do(job, None if watch is None else watch(job))


def made_of(job: Job, model: KnownModel | None) -> Fingerprint:
    """Return what the output of a job depends on.

    Parameters
    ----------
    job : Job
    model : KnownModel or None
        That of the job.

    Returns
    -------
    dict
    """
    return fingerprint(
        input=of_file(job.input),
        wanted=job.wanted,
        settings=job.settings,
        model=None if model is None else model.digest,
        **({} if job.rows is None else {"rows": job.rows}),
    )


def _texts(caught: Iterable[warnings.WarningMessage]) -> tuple[str, ...]:
    """Return what this package warned of; the warnings of others are shown as ever."""
    ours = []
    for warning in caught:
        if issubclass(warning.category, IgbssWarning):
            ours.append(str(warning.message))
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return tuple(dict.fromkeys(ours))


def _text(path: Path) -> str:
    """Return a path as UTF-8 knows it; names of files may be any bytes."""
    return os.fsencode(path).decode(errors="replace")
