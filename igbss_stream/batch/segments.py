"""Separate one large recording in segments, in parallel, with the same sources to the bit.

First, the model is learned by one pass over the whole recording, as without segments, and written to a
file. Each segment is then a separate job that applies this model to its rows. Finally the output is
written; its samples refer to those of the parts by HDF5's virtual layout and are not copied::

    out.h5              /sources and /cleaned (virtual), /mixing, /unmixing, ... as without segments
    out.h5.parts/       model.h5, 0000.h5, 0001.h5, ...
"""

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from igbss_stream._util.compute_pool import compute_pool
from igbss_stream.batch.channels import Progress, choose_channels, find_left_out
from igbss_stream.batch.job import (
    DONE,
    FAILED,
    Job,
    Notify,
    Result,
    RunJob,
    Watch,
    capture_result,
    find_earlier_outcome,
    fingerprint_job,
    run_safely,
)
from igbss_stream.batch.models import KnownModel, load_model
from igbss_stream.batch.output_writer import (
    describe_cleaned,
    describe_sources,
    name_left_out,
    write_events,
    write_gaps,
    write_left_out,
    write_origin,
    write_positions,
)
from igbss_stream.batch.prepare_separator import prepare_separator
from igbss_stream.batch.resume import find_earlier_output, make_folder
from igbss_stream.batch.segment_context import ATTRIBUTE, FirstPass
from igbss_stream.batch.separate import Outcome
from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.files.bad_rows import count_rows
from igbss_stream.files.open import open_with_options
from igbss_stream.files.recording import Recording
from igbss_stream.files.results.output import read_output_facts
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.model_file import write_excluded, write_model
from igbss_stream.files.writers.write_errors import check_new_output
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import CLOSED_FORM, Separator

MOST = 10_000  # maximum number of segments of a recording


JobRunner = Callable[[Iterable[Job], Watch | None, RunJob], Iterator[Result]]
"""Does jobs, in any order, and yields what came of each; `run_sequentially` and `Workers.run` are such."""


@dataclass
class _SegmentedJob:
    """A recording whose segments are being separated."""

    job: Job
    learned: Result
    spans: list[tuple[int, int]]
    failures: list[str] = field(default_factory=list)


def get_parts_folder(output: Path) -> Path:
    """Return the folder of the parts of an output.

    Parameters
    ----------
    output : Path

    Returns
    -------
    Path
    """
    return output.with_name(f"{output.name}.parts")


def _get_model_path(job: Job) -> Path:
    return get_parts_folder(job.output) / "model.h5"


def run_in_segments(
    jobs: Iterable[Job], watch: Watch | None = None, *, runner: JobRunner, seconds: float
) -> Iterator[Result]:
    """Run jobs in segments, and yield the result of each recording.

    Parameters
    ----------
    jobs : iterable of Job
    watch : callable, optional
        Called with each job when it starts; returns the callable that receives its progress.
    runner : Doer
        Runs the jobs of the segments.
    seconds : float
        Length of a segment.

    Yields
    ------
    Result
    """
    began, wholes = time.perf_counter(), dict[Path, _SegmentedJob]()
    for result in runner(jobs, watch, partial(_learn, seconds=seconds)):
        if result.status == DONE and result.outcome is not None:
            spans = _split_rows(result.outcome.n_samples, result.outcome.rate, seconds)
            wholes[result.job.output] = _SegmentedJob(result.job, result, spans)
        else:
            yield result
    parts = {part.output: whole for whole in wholes.values() for part in _make_parts(whole)}
    for result in runner(
        [part for whole in wholes.values() for part in _make_parts(whole)], watch, run_safely
    ):
        if result.status == FAILED:
            first, stop = result.job.rows or (0, 0)
            parts[result.job.output].failures.append(f"rows {first} to {stop}: {result.message}")
    for whole in wholes.values():
        if whole.failures:
            more = f" (and {len(whole.failures) - 1} more segments)" if len(whole.failures) > 1 else ""
            yield replace(
                whole.learned, status=FAILED, outcome=None, error=sorted(whole.failures)[0] + more
            )
    good = [whole.job for whole in wholes.values() if not whole.failures]
    for result in runner(good, watch, _join):
        learned = wholes[result.job.output].learned
        yield replace(
            result,
            seconds=time.perf_counter() - began,
            notes=learned.notes,
            warnings=learned.warnings,
        )


def _make_parts(whole: _SegmentedJob) -> list[Job]:
    """Return the jobs of the segments; outdated parts of earlier runs are replaced."""
    folder = get_parts_folder(whole.job.output)
    return [
        replace(
            whole.job,
            output=folder / f"{n:04d}.h5",
            model=_get_model_path(whole.job),
            rows=span,
            overwrite=True,
        )
        for n, span in enumerate(whole.spans)
    ]


def _split_rows(n_samples: int, rate: float | None, seconds: float) -> list[tuple[int, int]]:
    """Return the rows of each segment."""
    if rate is None:
        raise ParameterError(
            "--segment is in seconds, but the recording has no sampling rate; pass --rate."
        )
    length = round(min(seconds * rate, n_samples))
    if length < 1 or n_samples > MOST * length:
        raise ParameterError(
            f"--segment must give 1 to {MOST} segments: at least {n_samples / rate / MOST:g} s here. Got "
            f"{seconds:g} s instead."
        )
    return list(pairwise([*range(0, n_samples, length), n_samples]))


def _learn(job: Job, progress: Progress | None = None, *, seconds: float) -> Result:
    """Learn the model of a recording and write it to the folder of parts, unless the output is complete."""
    return capture_result(
        job, find_earlier_outcome, partial(_learn_model, progress=progress, seconds=seconds)
    )


def _learn_model(job: Job, notify: Notify, *, progress: Progress | None, seconds: float) -> Outcome:
    known = None if job.model is None else load_model(job.model)
    path = _get_model_path(job)
    with open_with_options(job.input, job.wanted) as recording:
        for note in recording.notes:
            notify(note)
        if job.make_folders:
            make_folder(job.output)
        check_new_output(job.output, overwrite=job.overwrite, source=recording.path)
        _check_preparation(job.settings.preparation)
        _split_rows(recording.n_samples, recording.rate, seconds)
        made_from = fingerprint_job(job, known)
        if not (job.resume and path.exists() and find_earlier_output(path, made_from, overwrite=True)):
            _look(job, recording, known, json.dumps(made_from), progress or _ignore)
        model = load_model(path)
        for notice in FirstPass.read(path).notices:  # reported here once, not by each segment
            warnings.warn(f"{notice}.", IgbssWarning, stacklevel=2)
        facts = recording.n_samples, len(model.channels), model.separator.stage.n_sources
        return Outcome(*facts, recording.rate, model.separator.solver)


def _look(
    job: Job, recording: Recording, known: KnownModel | None, made_from: str, progress: Progress
) -> None:
    """Find the channels to leave out, the model and the sources to remove, and write them."""
    left_out = find_left_out(recording, job.settings, progress)
    source = choose_channels(recording, job.settings, left_out, known)
    with compute_pool() as pool:
        start = prepare_separator(source, job.settings, known, pool)
        _check_solver(start.solver)
        separator = start.look(source, progress)
    found = FirstPass.of(left_out, start.excluded, separator.cleaner)
    make_folder(_get_model_path(job))
    with Hdf5Sink(_get_model_path(job), overwrite=True, checksum=True) as sink:
        unit = source.recording.unit
        write_model(sink, source.names, unit, separator, job.settings.preparation.to_json())
        sink.set_attrs(job=made_from, **{ATTRIBUTE: found.to_json()})


def _ignore(*_: object) -> None:
    pass


def _check_preparation(preparation: Preparation) -> None:
    if not preparation.is_rowwise:
        raise ParameterError(
            "--segment cannot be combined with filters or resampling, which need the recording from its "
            "start. Omit --segment, or filter and resample the recording into a separate file first."
        )


def _check_solver(solver: str) -> None:
    if solver != CLOSED_FORM:
        raise ParameterError(
            "--segment needs a solver that separates sample by sample ('closed-form'). Got "
            f"solver '{solver}' instead, which fits windows; omit --segment."
        )


def _join(job: Job, progress: Progress | None = None) -> Result:
    """Write the output from complete parts."""
    return capture_result(job, find_earlier_outcome, _join_parts)


def _join_parts(job: Job, notify: Notify) -> Outcome:
    known = None if job.model is None else load_model(job.model)
    model, found = load_model(_get_model_path(job)), FirstPass.read(_get_model_path(job))
    separator = found.separator(model, job.settings.cleaning)
    with (
        open_with_options(job.input, job.wanted) as stored,
        Hdf5Sink(job.output, overwrite=job.overwrite, source=stored.path, virtual=True) as sink,
    ):
        named = name_left_out(stored, found.left_out)
        source = choose_channels(stored, job.settings, found.left_out, model)
        recording, channels = source.recording, source.cleaned_names
        _join_samples(sink, _list_parts(job, recording.n_samples), recording, separator, channels)
        write_gaps(sink, recording)
        write_events(sink, recording)
        write_positions(sink, stored, channels)
        write_model(sink, model.channels, recording.unit, separator, job.settings.preparation.to_json())
        write_origin(sink, recording, known, job=json.dumps(fingerprint_job(job, known)))
        write_left_out(sink, named, found.excluded_rows, interpolated=source.interpolation is not None)
        if separator.cleaner is not None:
            write_excluded(sink, separator.cleaner)
        return Outcome(
            n_samples=recording.n_samples,
            n_channels=len(model.channels),
            n_sources=separator.stage.n_sources,
            rate=recording.rate,
            solver=separator.solver,
            flat=named.flat,
            bad=named.bad,
            n_bad_samples=count_rows(found.excluded_rows),
            taken_out=None if separator.cleaner is None else str(separator.cleaner),
            learning=None if separator.learning is None else str(separator.learning),
        )


def _list_parts(job: Job, n_samples: int) -> list[tuple[str, int]]:
    """Return the paths of the parts relative to the output, and their numbers of rows."""
    folder, pieces, row = get_parts_folder(job.output), list[tuple[str, int]](), 0
    while row < n_samples:
        part = folder / f"{len(pieces):04d}.h5"
        pieces.append((f"{folder.name}/{part.name}", read_output_facts(part).n_samples))
        row += pieces[-1][1]
    return pieces


def _join_samples(
    sink: Hdf5Sink,
    pieces: list[tuple[str, int]],
    recording: Recording,
    separator: Separator,
    channels: Sequence[str],
) -> None:
    n_samples = recording.n_samples
    shape = n_samples, separator.stage.n_sources
    sink.join("sources", shape, pieces=pieces, **describe_sources(recording, separator))
    if separator.cleaning is not None:
        shape = n_samples, len(channels)
        sink.join("cleaned", shape, pieces=pieces, **describe_cleaned(recording, channels))
