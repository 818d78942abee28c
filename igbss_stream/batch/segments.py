"""One large recording done in segments, by as many workers as there are: the same sources to the bit.

The model is learned first, by one pass over the whole recording, as without segments, and put into a file.
Each segment is then a job of its own, which applies that model to its rows. At last the output is made:
its samples are those of the parts, by HDF5's virtual layout, and not copied::

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
from igbss_stream.batch.channels import Channels, Progress, flat_channels, prepared
from igbss_stream.batch.job import (
    DONE,
    FAILED,
    Do,
    Job,
    Result,
    Tell,
    Watch,
    earlier_outcome,
    made_of,
    result_of,
    told,
)
from igbss_stream.batch.kept import kept, make_folder
from igbss_stream.batch.models import KnownModel, known_model
from igbss_stream.batch.output_writer import (
    of_cleaned,
    of_sources,
    write_excluded,
    write_gaps,
    write_model,
    write_origin,
)
from igbss_stream.batch.prepare_separator import starting
from igbss_stream.batch.segment_context import ATTRIBUTE, FirstPass
from igbss_stream.batch.separate import Outcome
from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.files.open import open_file_of_any_kind
from igbss_stream.files.recording import Recording
from igbss_stream.files.results.output import facts_of
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.write_errors import check_new
from igbss_stream.preparation.settings import Preparation
from igbss_stream.separation.engine import CLOSED_FORM, Separator

MOST = 10_000  # segments of a recording


Doer = Callable[[Iterable[Job], Watch | None, Do], Iterator[Result]]
"""Does jobs, in any order, and yields what came of each; `in_turn` and `Workers.run` are such."""


@dataclass
class _Whole:
    """A recording whose segments are being done."""

    job: Job
    learned: Result
    spans: list[tuple[int, int]]
    failures: list[str] = field(default_factory=list)


def parts_of(output: Path) -> Path:
    """Return the folder of the parts of an output.

    Parameters
    ----------
    output : Path

    Returns
    -------
    Path
    """
    return output.with_name(f"{output.name}.parts")


def _model_of(job: Job) -> Path:
    return parts_of(job.output) / "model.h5"


def in_segments(
    jobs: Iterable[Job], watch: Watch | None = None, *, runner: Doer, seconds: float
) -> Iterator[Result]:
    """Do jobs in segments, and yield what came of each recording.

    Parameters
    ----------
    jobs : iterable of Job
    watch : callable, optional
        Called with each job as it begins; returns what is told how far it is.
    runner : Doer
        Does the segments.
    seconds : float
        Length of a segment.

    Yields
    ------
    Result
    """
    began, wholes = time.perf_counter(), dict[Path, _Whole]()
    for result in runner(jobs, watch, partial(_learn, seconds=seconds)):
        if result.status == DONE and result.outcome is not None:
            spans = _spans(result.outcome.n_samples, result.outcome.rate, seconds)
            wholes[result.job.output] = _Whole(result.job, result, spans)
        else:
            yield result
    parts = {part.output: whole for whole in wholes.values() for part in _parts(whole)}
    for result in runner([part for whole in wholes.values() for part in _parts(whole)], watch, result_of):
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
        told_before = wholes[result.job.output].learned
        yield replace(
            result,
            seconds=time.perf_counter() - began,
            notes=told_before.notes,
            warnings=told_before.warnings,
        )


def _parts(whole: _Whole) -> list[Job]:
    """Return the jobs of the segments; parts of an earlier run that are others give way."""
    folder = parts_of(whole.job.output)
    return [
        replace(
            whole.job, output=folder / f"{n:04d}.h5", model=_model_of(whole.job), rows=span, overwrite=True
        )
        for n, span in enumerate(whole.spans)
    ]


def _spans(n_samples: int, rate: float | None, seconds: float) -> list[tuple[int, int]]:
    """Return the rows of each segment."""
    if rate is None:
        raise ParameterError(
            "--segment is in seconds, and the recording does not say its rate; pass --rate."
        )
    length = round(min(seconds * rate, n_samples))
    if length < 1 or n_samples > MOST * length:
        raise ParameterError(
            f"--segment must make 1 to {MOST} segments: at least {n_samples / rate / MOST:g} s here. Got "
            f"{seconds:g} s instead."
        )
    return list(pairwise([*range(0, n_samples, length), n_samples]))


def _learn(job: Job, progress: Progress | None = None, *, seconds: float) -> Result:
    """Learn the model of a recording and write it beside the parts, unless the output is complete."""
    return told(job, earlier_outcome, partial(_learned, progress=progress, seconds=seconds))


def _learned(job: Job, tell: Tell, *, progress: Progress | None, seconds: float) -> Outcome:
    known = None if job.model is None else known_model(job.model)
    path = _model_of(job)
    with open_file_of_any_kind(job.input, job.wanted) as recording:
        for note in recording.notes:
            tell(note)
        if job.make_folders:
            make_folder(job.output)
        check_new(job.output, overwrite=job.overwrite, source=recording.path)
        _check_preparation(job.settings.preparation)
        _spans(recording.n_samples, recording.rate, seconds)
        made_from = made_of(job, known)
        if not (job.resume and path.exists() and kept(path, made_from, overwrite=True)):
            _look(job, recording, known, json.dumps(made_from), progress or _tell_nothing)
        model = known_model(path)
        for notice in FirstPass.read(path).notices:  # here, as segments are not asked what they say
            warnings.warn(f"{notice}.", IgbssWarning, stacklevel=2)
        facts = recording.n_samples, len(model.channels), model.separator.stage.n_sources
        return Outcome(*facts, recording.rate, model.separator.solver)


def _look(
    job: Job, recording: Recording, known: KnownModel | None, made_from: str, progress: Progress
) -> None:
    """Find what takes all samples to say, and write it: flat channels, the model, sources to take out."""
    preparation = job.settings.preparation
    flat = flat_channels(recording, progress) if job.settings.drop_flat else []
    recording, keep = prepared(recording, preparation, flat)
    if known is not None:
        keep = keep[known.positions([recording.channels[i] for i in keep], recording.unit)]
    source = Channels(recording, keep)
    with compute_pool() as pool:
        start = starting(source, job.settings, known, pool)
        _check_solver(start.solver)
        separator = start.look(source, progress)
    found = FirstPass.of(flat, separator.cleaner)
    make_folder(_model_of(job))
    with Hdf5Sink(_model_of(job), overwrite=True) as sink:
        write_model(sink, source.names, recording.unit, separator, preparation)
        sink.set_attrs(job=made_from, **{ATTRIBUTE: found.to_json()})


def _tell_nothing(*_: object) -> None:
    pass


def _check_preparation(preparation: Preparation) -> None:
    if not preparation.is_rowwise:
        raise ParameterError(
            "filters and another rate do not go with --segment: they take the recording from its start. "
            "Leave --segment out, or filter and resample the recording into a file of its own first."
        )


def _check_solver(solver: str) -> None:
    if solver != CLOSED_FORM:
        raise ParameterError(
            "--segment goes with sources that are found sample by sample (solver 'closed-form'). Got "
            f"solver '{solver}' instead, which fits windows; leave --segment out."
        )


def _join(job: Job, progress: Progress | None = None) -> Result:
    """Make the output of parts that are complete."""
    return told(job, earlier_outcome, _joined)


def _joined(job: Job, tell: Tell) -> Outcome:
    known = None if job.model is None else known_model(job.model)
    model, found = known_model(_model_of(job)), FirstPass.read(_model_of(job))
    separator = found.separator(model, job.settings.cleaning)
    with (
        open_file_of_any_kind(job.input, job.wanted) as stored,
        Hdf5Sink(job.output, overwrite=job.overwrite, source=stored.path, virtual=True) as sink,
    ):
        recording, _ = prepared(stored, job.settings.preparation, found.flat)
        _join_samples(sink, _pieces(job, recording.n_samples), recording, separator, model.channels)
        write_gaps(sink, recording)
        write_model(sink, model.channels, recording.unit, separator, job.settings.preparation)
        write_origin(sink, recording, known, job=json.dumps(made_of(job, known)))
        if separator.cleaner is not None:
            write_excluded(sink, separator.cleaner)
        return Outcome(
            n_samples=recording.n_samples,
            n_channels=len(model.channels),
            n_sources=separator.stage.n_sources,
            rate=recording.rate,
            solver=separator.solver,
            left_out=tuple(stored.channels[i] for i in found.flat),
            taken_out=None if separator.cleaner is None else str(separator.cleaner),
        )


def _pieces(job: Job, n_samples: int) -> list[tuple[str, int]]:
    """Return the parts, as the output names them, and how many rows each has."""
    folder, pieces, row = parts_of(job.output), list[tuple[str, int]](), 0
    while row < n_samples:
        part = folder / f"{len(pieces):04d}.h5"
        pieces.append((f"{folder.name}/{part.name}", facts_of(part).n_samples))
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
    sink.join("sources", shape, pieces=pieces, **of_sources(recording, separator))
    if separator.cleaning is not None:
        shape = n_samples, len(channels)
        sink.join("cleaned", shape, pieces=pieces, **of_cleaned(recording, channels))
