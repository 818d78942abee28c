"""One recording to separate, as plain data that travels between processes, and what came of it.

A `Job` holds paths and settings, no open file: it may be pickled and run anywhere that sees the same files.
`run_job` does it and raises what is wrong; `result_of` does it and tells what is wrong, so that one bad
file stops no other; `in_turn` does many.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igbss_stream.batch.separate import Outcome, Progress, separate_recording
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.errors import IgbssError, IgbssWarning, RecordingError, printable
from igbss_stream.ingest.files import open_file_of_any_kind
from igbss_stream.ingest.wanted import Wanted

DONE, SKIPPED, FAILED = "done", "skipped", "failed"

Tell = Callable[[str], object]
"""Called with a note of the reader, a sentence without its point."""


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
    make_folders : bool
        Whether folders of the output that are missing are made.
    """

    input: Path
    output: Path
    settings: BatchSettings
    wanted: Wanted = field(default_factory=Wanted)
    overwrite: bool = False
    make_folders: bool = False


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
        None if it failed.
    error : str or None
        Why it failed.
    unexpected : bool
        Whether it failed by a fault of the program, rather than of the file or the options.
    notes, warnings : tuple of str
        What the reader decided, and what may not be as one expects.
    """

    job: Job
    status: str
    seconds: float
    outcome: Outcome | None = None
    error: str | None = None
    unexpected: bool = False
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
        """The error, or else the warnings, in one line."""
        return printable(self.error if self.error is not None else "; ".join(self.warnings))

    def row(self) -> dict[str, Any]:
        """Return the result as JSON and CSV know it: text, numbers and None, under the same keys always."""
        outcome = self.outcome
        facts = ("n_channels", "n_samples", "rate", "n_sources", "solver", "n_windows", "n_failed")
        return {
            "input": _text(self.job.input),
            "output": _text(self.job.output),
            "status": self.status,
            **{name: None if outcome is None else getattr(outcome, name) for name in facts},
            "left_out": None if outcome is None else ", ".join(outcome.left_out),
            "seconds": round(self.seconds, 6),
            "speed": None if self.speed is None else round(self.speed, 3),
            "unexpected": self.unexpected,
            "message": self.message,
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
    with open_file_of_any_kind(job.input, job.wanted) as source:
        if tell is not None:
            for note in source.notes:
                tell(note)
        if job.make_folders:
            _make_folder(job.output)
        return separate_recording(
            source, job.output, job.settings, overwrite=job.overwrite, progress=progress
        )


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
    began, notes = time.perf_counter(), list[str]()
    outcome, error, unexpected = None, None, False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IgbssWarning)
        try:
            outcome = run_job(job, progress, notes.append)
        except IgbssError as mistake:
            error = str(mistake)
        except Exception as fault:  # of one file: the others are still to be had
            error, unexpected = f"{type(fault).__name__}: {fault}", True
    return Result(
        job=job,
        status=FAILED if error is not None else DONE,
        seconds=time.perf_counter() - began,
        outcome=outcome,
        error=error,
        unexpected=unexpected,
        notes=tuple(notes),
        warnings=_texts(caught),
    )


def in_turn(jobs: Iterable[Job], progress: Progress | None = None) -> Iterator[Result]:
    """Do one job after the other, and yield what came of each.

    Parameters
    ----------
    jobs : iterable of Job
    progress : callable, optional
        Told how far each is.

    Yields
    ------
    Result
    """
    for job in jobs:
        yield result_of(job, progress)


def _make_folder(output: Path) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingError(
            f"'{output}' cannot be written: its folder cannot be made ({error.strerror}); choose another "
            "output"
        ) from error


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
