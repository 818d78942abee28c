"""Jobs done on Dask (extra `dask`): by processes of this machine, or by workers of a scheduler elsewhere.

Paths and settings travel; arrays, open files and HDF5 objects do not. Each worker reads its input and
writes its output itself. The scheduler gives the work of a lost worker to another one, which does it from
the start: outputs appear whole or not at all, so nothing of the first attempt is left in the result.
"""

import logging
import os
import time
import traceback
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import distributed

from igbss_stream._util.closeable import Closeable
from igbss_stream.batch import dask_task
from igbss_stream.batch.dask_cluster import elsewhere, processes, silence
from igbss_stream.batch.job import DONE, FAILED, SKIPPED, Do, Job, Result, Watch, result_of
from igbss_stream.batch.segments import parts_of
from igbss_stream.errors import ParameterError, printable
from igbss_stream.files.writers.locking import partial_of, remove_left_over

_log = logging.getLogger("igbss_stream")

STOPPING = 5.0  # seconds that jobs have to end in when the run is given up
_LOOK = 0.05  # seconds between looks whether they have
_EVENTS = "all"  # what a scheduler tells of: workers that come and go


class Workers(Closeable):
    """Workers of Dask, a context manager: leaving it ends what is not finished; nothing half done is left.

    Parameters
    ----------
    n_workers : int, optional
        Number of processes to start on this machine; by default as many as it has processors.
    scheduler : str, optional
        Address of a scheduler that runs, such as ``tcp://10.0.0.5:8786``, or its scheduler file. No process
        is started then.

    Raises
    ------
    ParameterError
        If both are given, or one cannot be used.
    FeedError
        If the scheduler cannot be reached, or its machines have other versions of what is needed.
    """

    def __init__(self, n_workers: int | None = None, scheduler: str | None = None) -> None:
        if n_workers is not None and scheduler is not None:
            raise ParameterError("--workers starts processes here, --scheduler uses others: choose one.")
        if n_workers is not None and n_workers < 1:
            raise ParameterError(f"--workers must be at least 1. Got {n_workers} instead.")
        self._is_remote = scheduler is not None
        self._run = uuid.uuid4().hex
        self._unfinished: dict[str, Job] = {}
        with ExitStack() as opened:
            opened.enter_context(silence())
            if scheduler is None:
                count = n_workers or len(os.sched_getaffinity(0))
                self._client = opened.enter_context(processes(count, dask_task.__name__))
            else:
                self._client = opened.enter_context(elsewhere(scheduler))
            self._client.subscribe_topic(_EVENTS, self._tell_of_losses)
            self._opened = opened.pop_all()

    def run(self, jobs: Iterable[Job], watch: Watch | None = None, do: Do = result_of) -> Iterator[Result]:
        """Do jobs, and yield what came of each, in the order in which they are done.

        Parameters
        ----------
        jobs : iterable of Job
        watch : callable, optional
            Not called: how far a job is stays in the worker.
        do : callable
            What is done with each: a function of a module, so that it can be named to a worker.

        Yields
        ------
        Result
        """
        todo, suspects = [], []
        for job in jobs:
            refused = _refused_here(job)
            if refused is None:
                todo.append(job)
            else:
                yield refused
        for result, was_lost in self._round(todo, do):
            if was_lost:
                suspects.append(result.job)
            else:
                yield result
        for job in suspects:  # alone: it may only have been beside one that ends its worker
            yield from (result for result, _ in self._round([job], do))

    def close(self) -> None:
        """End what is not finished, and the workers if they were started here."""
        try:
            with suppress(OSError):  # of a scheduler that is gone
                self._client.unsubscribe_topic(_EVENTS)  # that of our own going, too
            if self._unfinished:
                self._give_up()
        finally:
            self._opened.close()
            if not self._is_remote:  # those that did not end in time were killed
                for job in self._unfinished.values():
                    for left in [partial_of(job.output), *parts_of(job.output).glob("*.partial")]:
                        remove_left_over(left)
            self._unfinished.clear()

    def _round(self, jobs: list[Job], do: Do) -> Iterator[tuple[Result, bool]]:
        """Do jobs; yield what came of each, and whether it was given up because workers were lost."""
        if not jobs:
            return
        there = partial(dask_task.do_there, do=do, run=self._run, is_remote=self._is_remote)
        sent = [_as_sent(job, self._is_remote) for job in jobs]
        name = f"igbss-{uuid.uuid4().hex}"
        futures = self._client.map(there, sent, pure=False, key=name, batch_size=1000)
        self._unfinished |= {future.key: job for future, job in zip(futures, jobs, strict=True)}
        answers = distributed.as_completed(
            futures, loop=self._client.loop, with_results=True, raise_errors=False
        )
        del futures  # a future that is held keeps its result on a worker
        for future, answer in answers:
            result = _result(answer, self._unfinished.pop(future.key))
            future.release()
            yield result, _is_loss(answer)

    def _tell_of_losses(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Say that work is done again; called with all that the scheduler tells of."""
        _, what = event
        if what.get("action") != "remove-worker" or what.get("expected"):
            return
        keys = [key for kind in ("processing-tasks", "lost-computed-tasks") for key in what.get(kind, ())]
        again = [printable(self._unfinished[key].input.name) for key in keys if key in self._unfinished]
        if again:
            _log.warning("Worker %s was lost; done again: %s", what["worker"], ", ".join(sorted(again)))

    def _give_up(self) -> None:
        """Let the jobs that are being done end, each at its next block."""
        with suppress(OSError, TimeoutError, CancelledError):
            futures: list[Any] = [distributed.Future(key, self._client) for key in self._unfinished]
            self._client.cancel(futures, force=True)
            deadline = time.monotonic() + STOPPING
            while time.monotonic() < deadline:
                if not any(self._client.run(dask_task.give_up, self._run, on_error="ignore").values()):
                    return
                time.sleep(_LOOK)


def on_dask(
    jobs: Iterable[Job], n_workers: int | None = None, scheduler: str | None = None
) -> Iterator[Result]:
    """Do jobs on Dask, and yield what came of each, in the order in which they are done.

    Parameters
    ----------
    jobs : iterable of Job
    n_workers, scheduler
        See `Workers`.

    Yields
    ------
    Result
    """
    with Workers(n_workers, scheduler) as workers:
        yield from workers.run(jobs)


def _refused_here(job: Job) -> Result | None:
    """Refuse an output that exists before the work begins: later it could be one of our own."""
    if job.overwrite or job.resume or not os.path.lexists(job.output):
        return None
    return result_of(job)


def _as_sent(job: Job, is_remote: bool) -> Job:
    """Return what a worker is told to do.

    A worker may be lost after its output got its name and before that was heard: whoever does the work
    again finds a file that was made of the same recording in the same way, and keeps it.
    """
    if not job.overwrite:
        job = replace(job, resume=True)
    if is_remote:  # its workers begin in other folders
        model = None if job.model is None else _absolute(job.model)
        job = replace(job, input=_absolute(job.input), output=_absolute(job.output), model=model)
    return job


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _result(answer: Any, job: Job) -> Result:
    """Return what came of a job, also where no worker could say."""
    if isinstance(answer, Result):
        again = answer.status == SKIPPED and not job.resume
        return replace(answer, job=job, status=DONE if again else answer.status)
    failed = partial(Result, job=job, status=FAILED, seconds=0.0)
    if isinstance(answer, CancelledError):
        return failed(error="the scheduler was lost; start it and run again with --resume")
    _, fault, where = answer
    if _is_loss(answer):
        return failed(
            error=f"{fault.allowed_failures + 1} workers were lost while they did it, the last one "
            f"{fault.last_worker.address}: too little memory, or a recording that ends the process"
        )
    trace = "".join(traceback.format_exception(type(fault), fault, where))
    return failed(error=f"{type(fault).__name__}: {fault}", trace=trace)


def _is_loss(answer: Any) -> bool:
    """Return whether an answer says that too many workers were lost with a job."""
    return isinstance(answer, tuple) and isinstance(answer[1], distributed.KilledWorker)
