"""One model for many recordings: who shares it, what it is learned from, and the file it is kept in.

All recordings are read once before, so that one that is damaged or holds NaN is left out of what is
learned; the others are surveyed one after the other, as if they were one recording.
"""

import itertools
import json
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import report_to
from igbss_stream.batch.channels import Channels, Progress, flat_channels, prepared
from igbss_stream.batch.fingerprint import digest, of_file
from igbss_stream.batch.job import FAILED, Job, Result, Watch
from igbss_stream.batch.kept import kept, make_folder
from igbss_stream.batch.models import unlike
from igbss_stream.batch.output_writer import write_model
from igbss_stream.batch.settled import learned_from, settled
from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.open import open_file_of_any_kind
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.locking import partial_of, remove_left_over
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.statistics import Survey

GROUP, ALL = "group", "all"


@dataclass(frozen=True, eq=False)
class Member:
    """A recording that can be learned from.

    Parameters
    ----------
    job : Job
    channels : tuple of str
        Those that are separated.
    keep : ndarray of int
        Their positions, in the recording as it is separated.
    flat : sequence of int
        Channels of the file that are left out.
    rate : float or None
    unit : str or None
    dtype : dtype
    n_samples : int
    breaks : tuple of int
        Rows that follow a gap.
    """

    job: Job
    channels: tuple[str, ...]
    keep: NDArray[np.int_]
    flat: Sequence[int]
    rate: float | None
    unit: str | None
    dtype: np.dtype[Any]
    n_samples: int
    breaks: tuple[int, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What members of a group have in common; channels in any order, if their names are unique."""
        unique = len(set(self.channels)) == len(self.channels)
        return tuple(sorted(self.channels)) if unique else self.channels, self.rate, self.unit


def with_shared_models(
    jobs: Iterable[Job], per: str, folder: Path, watch: Watch | None = None
) -> tuple[list[Job], list[Result]]:
    """Learn the models that jobs share, and write each to a file of its own.

    Parameters
    ----------
    jobs : iterable of Job
        With the same settings.
    per : {"group", "all"}
        A model for the recordings of the same channels, rate and unit, or one for all.
    folder : Path
        Where models are written, ``model-GROUP.h5`` or ``model-all.h5``.
    watch : callable, optional
        Called with a job whose recording is read; returns what is told how far it is.

    Returns
    -------
    jobs : list of Job
        With their model.
    failed : list of Result
        Those that have none.
    """
    jobs, ready, failed = list(jobs), list[Job](), list[Result]()
    done = settled(jobs, _earlier(folder, per)) if jobs and jobs[0].resume else {}
    members = _members(jobs, done, watch, failed)
    joined = {_file(folder, per, member) for member in members} & set(done)
    if joined:  # what is new belongs to models that were learned without it
        done = {path: of_model for path, of_model in done.items() if path not in joined}
        failed.clear()
        members = _members(jobs, done, watch, failed)
    for path, of_model in done.items():
        remove_left_over(partial_of(path))
        ready += [replace(job, model=path) for job in of_model]
    for group in _groups(members, per, failed):
        path, of_group = _file(folder, per, group[0]), [member.job for member in group]
        with _noted(of_group, failed):
            _learn(path, group, watch)
            ready += [replace(job, model=path) for job in of_group]
    place = {job.output: n for n, job in enumerate(jobs)}
    return sorted(ready, key=lambda job: place[job.output]), failed


def _members(
    jobs: Sequence[Job], done: dict[Path, list[Job]], watch: Watch | None, failed: list[Result]
) -> list[Member]:
    """Read the recordings of all jobs that have no model yet."""
    have = {job.output for of_model in done.values() for job in of_model}
    members = []
    for job in jobs:
        if job.output not in have:
            with _noted([job], failed):
                members.append(_checked(job, watch))
    return members


@contextmanager
def _noted(jobs: Sequence[Job], failed: list[Result]) -> Iterator[None]:
    """Note that jobs have failed if what they need cannot be done."""
    began, trace = time.perf_counter(), None
    try:
        yield
        return
    except IgbssError as mistake:
        error = str(mistake)
    except Exception as fault:  # of one group: the recordings of others are still to be had
        error, trace = f"{type(fault).__name__}: {fault}", traceback.format_exc()
    seconds = time.perf_counter() - began
    failed += [Result(job=job, status=FAILED, seconds=seconds, error=error, trace=trace) for job in jobs]


def _groups(members: Sequence[Member], per: str, failed: list[Result]) -> list[list[Member]]:
    """Return who shares a model; those that cannot share the one of all have failed."""
    groups: dict[tuple[Any, ...], list[Member]] = {}
    for member in members:
        if per == GROUP or not groups or member.key in groups:
            groups.setdefault(member.key, []).append(member)
        else:
            first = next(iter(groups.values()))[0]
            error = _why_not_one(member, first)
            failed.append(Result(job=member.job, status=FAILED, seconds=0.0, error=error))
    return list(groups.values())


def _file(folder: Path, per: str, member: Member) -> Path:
    """Name a model by what a group has in common, so that its name does not depend on who else is there."""
    if per == ALL:
        return folder / f"model-{ALL}.h5"
    rate = "" if member.rate is None else f"-{member.rate:g}hz"
    return folder / f"model-{len(member.channels)}ch{rate}-{digest(member.key)[:8]}.h5"


def _earlier(folder: Path, per: str) -> list[Path]:
    """Return the files that may be models of an earlier run."""
    return sorted(folder.glob(f"model-{ALL}.h5" if per == ALL else "model-*ch*-*.h5"))


def _why_not_one(member: Member, first: Member) -> str:
    what = f"cannot share the model of '{first.job.input}'"
    remedy = "pass --model-per group for a model for each kind of recording"
    if member.key[0] != first.key[0]:
        return f"{what}: {unlike(member.channels, first.channels)}; {remedy}"
    for name, here, there in ("rate", member.rate, first.rate), ("unit", member.unit, first.unit):
        if here != there:
            return f"{what}: its {name} is {here}, not {there}; {remedy}"
    raise AssertionError("recordings that have all in common are in one group")


def _checked(job: Job, watch: Watch | None) -> Member:
    """Read a recording to its end; refuse it if it cannot be learned from."""
    tell = _teller(job, watch)
    with open_file_of_any_kind(job.input, job.wanted) as stored:
        flat = flat_channels(stored, tell) if job.settings.drop_flat else []
        recording, keep = prepared(stored, job.settings.preparation, flat)
        if not job.settings.drop_flat:  # else this pass has been made
            _check_finite(Channels(recording, keep), tell)
        facts = recording.rate, recording.unit, recording.dtype, recording.n_samples
        breaks = tuple(get_gap_rows(recording.gaps))
        return Member(job, tuple(recording.channels[i] for i in keep), keep, flat, *facts, breaks)


def _check_finite(source: Channels, tell: Progress) -> None:
    survey = Survey(source.names, source.dtype, source.n_samples)
    for _, block in source.read_blocks(source.block_length, tell, "checking"):
        survey.update(block)
    if survey.n_bad:
        survey.check()


def _learn(path: Path, group: Sequence[Member], watch: Watch | None) -> None:
    """Write the model of a group, or keep the one that an earlier run learned from the same."""
    first = group[0]
    jobs = [member.job for member in group]
    made_from = learned_from(jobs, [of_file(job.input) for job in jobs])
    if first.job.resume and path.exists() and kept(path, made_from, overwrite=first.job.overwrite):
        return
    make_folder(path)
    with Hdf5Sink(path, overwrite=first.job.overwrite) as sink:
        separator = _prepared(group, watch)
        write_model(sink, first.channels, first.unit, separator, first.job.settings.preparation)
        sink.set_attrs(
            job=json.dumps(made_from),
            learned_from=[file["name"] for file in made_from["input"]],
        )


def _prepared(group: Sequence[Member], watch: Watch | None) -> Separator:
    """Return a separator that has surveyed all recordings of a group."""
    first = group[0]
    dtype = np.result_type(*(member.dtype for member in group))
    plan = SeparationPlan(first.job.settings.model, len(first.channels))
    starts = [0, *itertools.accumulate(member.n_samples for member in group)]
    breaks = [
        start + row for start, member in zip(starts, group, strict=False) for row in (0, *member.breaks)
    ]
    survey = plan.make_survey(first.channels, dtype, starts[-1], breaks=breaks)
    for member in group:
        with open_file_of_any_kind(member.job.input, member.job.wanted) as stored:
            recording, _ = prepared(stored, member.job.settings.preparation, member.flat)
            source = Channels(recording, _in_order_of(first, member))
            tell = _teller(member.job, watch)
            for _, block in source.read_blocks(source.block_length, tell, "surveying"):
                survey.update(block.astype(dtype, copy=False))
    with report_to(_teller(first.job, watch)):
        return plan.prepare(survey, remedy=" with --drop-flat")


def _in_order_of(first: Member, member: Member) -> NDArray[np.int_]:
    """Return where the channels of the first member are in the file of another."""
    if member.channels == first.channels:
        return member.keep
    return member.keep[[member.channels.index(name) for name in first.channels]]


def _teller(job: Job, watch: Watch | None) -> Progress:
    return (watch(job) if watch else None) or (lambda *_: None)
