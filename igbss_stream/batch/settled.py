"""Shared models that an earlier run has learned from the same recordings, which need not be read again."""

import json
from collections.abc import Sequence
from pathlib import Path

from igbss_stream.batch.fingerprint import Fingerprint, fingerprint, of_file
from igbss_stream.batch.job import Job
from igbss_stream.errors import RecordingError
from igbss_stream.files.results.output import facts_of


def learned_from(jobs: Sequence[Job], inputs: Sequence[Fingerprint]) -> Fingerprint:
    """Return what a shared model depends on.

    Parameters
    ----------
    jobs : sequence of Job
        Of one run.
    inputs : sequence of dict
        The recordings, as `of_file` tells them.

    Returns
    -------
    dict
    """
    return fingerprint(input=list(inputs), wanted=jobs[0].wanted, settings=jobs[0].settings)


def settled(jobs: Sequence[Job], models: Sequence[Path]) -> dict[Path, list[Job]]:
    """Return the models that are learned, each with the jobs that share it.

    Parameters
    ----------
    jobs : sequence of Job
        Of one run.
    models : sequence of Path
        Files that may be shared models of an earlier run.

    Returns
    -------
    dict
        Without those whose recordings have changed, are not all there, or were given in another order.
    """
    jobs_of = _by_file(jobs)
    order = {id(job): n for n, job in enumerate(jobs)}
    found = {}
    for path in models:
        inputs = _inputs(path, jobs)
        sharing = [jobs_of.get(json.dumps(file), []) for file in inputs]
        # Files of one name, size and time cannot be told apart by these.
        if sharing and all(len(same) == 1 for same in sharing):
            of_model = [same[0] for same in sharing]
            if [order[id(job)] for job in of_model] == sorted({order[id(job)] for job in of_model}):
                found[path] = of_model
    return found


def _inputs(path: Path, jobs: Sequence[Job]) -> list[Fingerprint]:
    """Return the recordings of a model, if it is one that the jobs could have learned."""
    try:
        made_from = facts_of(path).job or {}
    except RecordingError:
        return []
    inputs = made_from.get("input")
    if not isinstance(inputs, list) or made_from != learned_from(jobs, inputs):
        return []
    return inputs


def _by_file(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    found: dict[str, list[Job]] = {}
    for job in jobs:
        try:
            found.setdefault(json.dumps(of_file(job.input)), []).append(job)
        except RecordingError:
            continue  # which is told when it is opened
    return found
