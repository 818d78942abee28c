"""Learn one model for many recordings: group them, learn, and write the model file.

All recordings are read once before learning, so that damaged ones and those with NaN are left out. The
others are surveyed one after the other, as if they were one recording.
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
from igbss_stream.batch.channels import (
    Channels,
    LeftOut,
    Progress,
    find_left_out,
    get_excluded_rows,
    prepare_recording,
)
from igbss_stream.batch.job import FAILED, Job, Result, Watch
from igbss_stream.batch.models import describe_channel_differences
from igbss_stream.batch.output_writer import name_left_out, write_excluded_rows
from igbss_stream.batch.prepare_separator import mention_excluded
from igbss_stream.batch.resume import (
    Fingerprint,
    digest,
    find_earlier_output,
    fingerprint_file,
    make_fingerprint,
    make_folder,
)
from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.open import open_with_options
from igbss_stream.files.results.output import read_output_facts
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.locking import get_partial_path, remove_leftover
from igbss_stream.files.writers.model_file import write_model
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.statistics import Survey

GROUP, ALL = "group", "all"


@dataclass(frozen=True, eq=False)
class GroupMember:
    """A recording that can be learned from.

    Parameters
    ----------
    job : Job
    channels : tuple of str
        Channels that are separated.
    keep : ndarray of int
        Positions of the channels in the prepared recording.
    left_out : LeftOut
        Channels of the file that are left out.
    bad : tuple of str
        Names of those that the file marks as bad.
    rate : float or None
    unit : str or None
    dtype : dtype
    n_samples : int
    breaks : tuple of int
        Rows that follow a gap.
    excluded_rows : tuple of (int, int)
        Rows that nothing is learned from.
    """

    job: Job
    channels: tuple[str, ...]
    keep: NDArray[np.int_]
    left_out: LeftOut
    bad: tuple[str, ...]
    rate: float | None
    unit: str | None
    dtype: np.dtype[Any]
    n_samples: int
    breaks: tuple[int, ...]
    excluded_rows: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What members of a group share; channels in any order if their names are unique."""
        unique = len(set(self.channels)) == len(self.channels)
        return tuple(sorted(self.channels)) if unique else self.channels, self.rate, self.unit


def assign_shared_models(
    jobs: Iterable[Job], per: str, folder: Path, watch: Watch | None = None
) -> tuple[list[Job], list[Result]]:
    """Learn the models that jobs share, and write each to a separate file.

    Parameters
    ----------
    jobs : iterable of Job
        Jobs with the same settings.
    per : {"group", "all"}
        One model for the recordings with the same channels, rate and unit, or one for all.
    folder : Path
        Folder for the models, ``model-GROUP.h5`` or ``model-all.h5``.
    watch : callable, optional
        Called with a job whose recording is read; returns the callable that receives its progress.

    Returns
    -------
    jobs : list of Job
        Jobs with their model.
    failed : list of Result
        Results of the jobs without a model.
    """
    jobs, ready, failed = list(jobs), list[Job](), list[Result]()
    done = find_learned_models(jobs, _find_model_files(folder, per)) if jobs and jobs[0].resume else {}
    members = _read_members(jobs, done, watch, failed)
    joined = {_get_model_path(folder, per, member) for member in members} & set(done)
    if joined:  # new recordings belong to models that were learned without them
        done = {path: of_model for path, of_model in done.items() if path not in joined}
        failed.clear()
        members = _read_members(jobs, done, watch, failed)
    for path, of_model in done.items():
        remove_leftover(get_partial_path(path))
        ready += [replace(job, model=path) for job in of_model]
    for group in _group_members(members, per, failed):
        path, of_group = _get_model_path(folder, per, group[0]), [member.job for member in group]
        with _record_failure(of_group, failed):
            _learn(path, group, watch)
            ready += [replace(job, model=path) for job in of_group]
    place = {job.output: n for n, job in enumerate(jobs)}
    return sorted(ready, key=lambda job: place[job.output]), failed


def _read_members(
    jobs: Sequence[Job], done: dict[Path, list[Job]], watch: Watch | None, failed: list[Result]
) -> list[GroupMember]:
    """Read the recordings of all jobs that have no model yet."""
    have = {job.output for of_model in done.values() for job in of_model}
    members = []
    for job in jobs:
        if job.output not in have:
            with _record_failure([job], failed):
                members.append(_check_recording(job, watch))
    return members


@contextmanager
def _record_failure(jobs: Sequence[Job], failed: list[Result]) -> Iterator[None]:
    """Record jobs as failed if the block raises."""
    began, trace = time.perf_counter(), None
    try:
        yield
        return
    except IgbssError as mistake:
        error = str(mistake)
    except Exception as fault:  # a fault in one group must not stop the others
        error, trace = f"{type(fault).__name__}: {fault}", traceback.format_exc()
    seconds = time.perf_counter() - began
    failed += [Result(job=job, status=FAILED, seconds=seconds, error=error, trace=trace) for job in jobs]


def _group_members(
    members: Sequence[GroupMember], per: str, failed: list[Result]
) -> list[list[GroupMember]]:
    """Return the groups; recordings that cannot share the model of all are recorded as failed."""
    groups: dict[tuple[Any, ...], list[GroupMember]] = {}
    for member in members:
        if per == GROUP or not groups or member.key in groups:
            groups.setdefault(member.key, []).append(member)
        else:
            first = next(iter(groups.values()))[0]
            error = _explain_mismatch(member, first)
            failed.append(Result(job=member.job, status=FAILED, seconds=0.0, error=error))
    return list(groups.values())


def _get_model_path(folder: Path, per: str, member: GroupMember) -> Path:
    """Return the path of a model, named by what its group shares and independent of other recordings."""
    if per == ALL:
        return folder / f"model-{ALL}.h5"
    rate = "" if member.rate is None else f"-{member.rate:g}hz"
    return folder / f"model-{len(member.channels)}ch{rate}-{digest(member.key)[:8]}.h5"


def _find_model_files(folder: Path, per: str) -> list[Path]:
    """Return the files that may be models of an earlier run."""
    return sorted(folder.glob(f"model-{ALL}.h5" if per == ALL else "model-*ch*-*.h5"))


def _explain_mismatch(member: GroupMember, first: GroupMember) -> str:
    what = f"cannot share the model of '{first.job.input}'"
    remedy = "pass --model-per group for a model for each kind of recording"
    if member.key[0] != first.key[0]:
        differences = describe_channel_differences(member.channels, first.channels, member.bad, first.bad)
        keeping = "--keep-bad to separate bad channels, or " if {*member.bad, *first.bad} else ""
        return f"{what}: {differences}; {remedy.replace('pass ', f'pass {keeping}', 1)}"
    for name, here, there in ("rate", member.rate, first.rate), ("unit", member.unit, first.unit):
        if here != there:
            return f"{what}: its {name} is {here}, not {there}; {remedy}"
    raise AssertionError("recordings that have all in common are in one group")


def _check_recording(job: Job, watch: Watch | None) -> GroupMember:
    """Read a whole recording, and check that it can be learned from."""
    progress = _get_progress(job, watch)
    with open_with_options(job.input, job.wanted) as stored:
        left_out = find_left_out(stored, job.settings, progress)
        bad = name_left_out(stored, left_out).bad
        recording, keep = prepare_recording(stored, job.settings.preparation, left_out)
        if not job.settings.drop_flat:  # otherwise this pass has been made
            _check_finite(Channels(recording, keep), progress)
        facts = recording.rate, recording.unit, recording.dtype, recording.n_samples
        rows = tuple(get_gap_rows(recording.gaps)), get_excluded_rows(recording, job.settings)
        channels = tuple(recording.channels[i] for i in keep)
        return GroupMember(job, channels, keep, left_out, bad, *facts, *rows)


def _check_finite(source: Channels, progress: Progress) -> None:
    survey = Survey(source.names, source.dtype, source.n_samples)
    for _, block in source.read_blocks(source.block_length, progress, "checking"):
        survey.update(block)
    if survey.n_bad:
        survey.check()


def _learn(path: Path, group: Sequence[GroupMember], watch: Watch | None) -> None:
    """Write the model of a group, or keep the one that an earlier run learned from the same recordings."""
    first = group[0]
    jobs = [member.job for member in group]
    made_from = fingerprint_model(jobs, [fingerprint_file(job.input) for job in jobs])
    if (
        first.job.resume
        and path.exists()
        and find_earlier_output(path, made_from, overwrite=first.job.overwrite)
    ):
        return
    make_folder(path)
    with Hdf5Sink(path, overwrite=first.job.overwrite, checksum=True) as sink:
        plan = SeparationPlan(first.job.settings.model, len(first.channels))
        excluded = _join_excluded_rows(group) if plan.needs_survey else ()
        separator = _learn_from_group(plan, group, excluded, watch)
        write_model(sink, first.channels, first.unit, separator, first.job.settings.preparation.to_json())
        sink.set_attrs(
            job=json.dumps(made_from),
            learned_from=[file["name"] for file in made_from["input"]],
        )
        write_excluded_rows(sink, excluded)


def _join_excluded_rows(group: Sequence[GroupMember]) -> tuple[tuple[int, int], ...]:
    """Return the rows that nothing is learned from, counted over all recordings one after the other."""
    at, rows = 0, list[tuple[int, int]]()
    for member in group:
        rows += [(at + start, at + stop) for start, stop in member.excluded_rows]
        at += member.n_samples
    return tuple(rows)


def _learn_from_group(
    plan: SeparationPlan,
    group: Sequence[GroupMember],
    excluded: tuple[tuple[int, int], ...],
    watch: Watch | None,
) -> Separator:
    """Return a separator that has surveyed all recordings of a group."""
    first = group[0]
    dtype = np.result_type(*(member.dtype for member in group))
    starts = [0, *itertools.accumulate(member.n_samples for member in group)]
    breaks = [
        start + row for start, member in zip(starts, group, strict=False) for row in (0, *member.breaks)
    ]
    survey = plan.make_survey(first.channels, dtype, starts[-1], breaks=breaks, excluded=excluded)
    for member in group:
        with open_with_options(member.job.input, member.job.wanted) as stored:
            recording, _ = prepare_recording(stored, member.job.settings.preparation, member.left_out)
            source = Channels(recording, _match_channels(first, member))
            progress = _get_progress(member.job, watch)
            for _, block in source.read_blocks(source.block_length, progress, "surveying"):
                survey.update(block.astype(dtype, copy=False))
    with report_to(_get_progress(first.job, watch)), mention_excluded(survey, excluded):
        return plan.prepare(survey, remedy=" with --drop-flat")


def _match_channels(first: GroupMember, member: GroupMember) -> NDArray[np.int_]:
    """Return the positions of the first member's channels in the file of another member."""
    if member.channels == first.channels:
        return member.keep
    return member.keep[[member.channels.index(name) for name in first.channels]]


def _get_progress(job: Job, watch: Watch | None) -> Progress:
    return (watch(job) if watch else None) or (lambda *_: None)


def fingerprint_model(jobs: Sequence[Job], inputs: Sequence[Fingerprint]) -> Fingerprint:
    """Return the fingerprint of a shared model.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of one run.
    inputs : sequence of dict
        Fingerprints of the recordings.

    Returns
    -------
    dict
    """
    return make_fingerprint(input=list(inputs), wanted=jobs[0].wanted, settings=jobs[0].settings)


def find_learned_models(jobs: Sequence[Job], models: Sequence[Path]) -> dict[Path, list[Job]]:
    """Return the models that were learned already, each with the jobs that share it.

    Parameters
    ----------
    jobs : sequence of Job
        Jobs of one run.
    models : sequence of Path
        Files that may be shared models of an earlier run.

    Returns
    -------
    dict
        Without models whose recordings changed, are incomplete, or were given in another order.
    """
    jobs_of = _index_by_file(jobs)
    order = {id(job): n for n, job in enumerate(jobs)}
    found = {}
    for path in models:
        inputs = _read_inputs(path, jobs)
        sharing = [jobs_of.get(json.dumps(file), []) for file in inputs]
        # files with the same name, size and time cannot be distinguished
        if sharing and all(len(same) == 1 for same in sharing):
            of_model = [same[0] for same in sharing]
            if [order[id(job)] for job in of_model] == sorted({order[id(job)] for job in of_model}):
                found[path] = of_model
    return found


def _read_inputs(path: Path, jobs: Sequence[Job]) -> list[Fingerprint]:
    """Return the recordings of a model, if the jobs would learn the same model from them."""
    try:
        made_from = read_output_facts(path).job or {}
    except RecordingError:
        return []
    inputs = made_from.get("input")
    if not isinstance(inputs, list) or made_from != fingerprint_model(jobs, inputs):
        return []
    return inputs


def _index_by_file(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        try:
            found.setdefault(json.dumps(fingerprint_file(job.input)), []).append(job)
        except RecordingError:
            continue  # reported when it is opened
    return found
