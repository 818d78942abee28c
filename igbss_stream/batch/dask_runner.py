"""Run jobs on Dask (extra `dask`): in local processes, or on the workers of a scheduler.

Only paths and settings are sent to workers, no arrays or open files. Each worker reads its input and writes
its output itself. The scheduler assigns the job of a lost worker to another worker, which starts over.
Outputs appear complete or not at all, so nothing of the first attempt remains in the result.
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
from igbss_stream.batch.dask_cluster import connect_scheduler, silence, start_processes
from igbss_stream.batch.job import DONE, FAILED, SKIPPED, Job, Result, RunJob, Watch, run_safely
from igbss_stream.batch.segments import get_parts_folder
from igbss_stream.errors import ParameterError, printable
from igbss_stream.files.writers.locking import get_partial_path, remove_leftover

_log = logging.getLogger("igbss_stream")

STOPPING = 5.0  # seconds that jobs have to end after the run is cancelled
_LOOK = 0.05  # seconds between checks whether they have ended
_EVENTS = "all"  # topic of a scheduler: workers that start and stop


class DaskRunner(Closeable):
    """Context manager that runs jobs on Dask; leaving it cancels unfinished jobs and removes partial files.

    Parameters
    ----------
    n_workers : int, optional
        Number of local processes to start; the number of processors by default.
    scheduler : str, optional
        Address of a running scheduler, such as ``tcp://10.0.0.5:8786``, or its scheduler file. No processes
        are started then.

    Raises
    ------
    ParameterError
        If both are given, or a value is invalid.
    FeedError
        If the scheduler cannot be reached, or its workers have other versions of required packages.
    """

    def __init__(self, n_workers: int | None = None, scheduler: str | None = None) -> None:
        if n_workers is not None and scheduler is not None:
            raise ParameterError(
                "--workers starts local processes, --scheduler uses a running scheduler; pass one of them."
            )
        if n_workers is not None and n_workers < 1:
            raise ParameterError(f"--workers must be at least 1. Got {n_workers} instead.")
        self._is_remote = scheduler is not None
        self._run = uuid.uuid4().hex
        self._unfinished: dict[str, Job] = {}
        with ExitStack() as opened:
            opened.enter_context(silence())
            if scheduler is None:
                count = n_workers or len(os.sched_getaffinity(0))
                self._client = opened.enter_context(start_processes(count, dask_task.__name__))
            else:
                self._client = opened.enter_context(connect_scheduler(scheduler))
            self._client.subscribe_topic(_EVENTS, self._log_losses)
            self._opened = opened.pop_all()

    def run(
        self, jobs: Iterable[Job], watch: Watch | None = None, do: RunJob = run_safely
    ) -> Iterator[Result]:
        """Run jobs, and yield their results in the order of completion.

        Parameters
        ----------
        jobs : iterable of Job
        watch : callable, optional
            Ignored: progress stays in the worker.
        do : callable
            Runs a job; a module-level function, so that it can be pickled.

        Yields
        ------
        Result
        """
        todo, suspects = [], []
        for job in jobs:
            refused = _refuse_existing(job)
            if refused is None:
                todo.append(job)
            else:
                yield refused
        for result, was_lost in self._round(todo, do):
            if was_lost:
                suspects.append(result.job)
            else:
                yield result
        for job in suspects:  # each alone: it may have been lost only because another job ended its worker
            yield from (result for result, _ in self._round([job], do))

    def close(self) -> None:
        """Cancel unfinished jobs, and stop the workers if they were started here."""
        try:
            with suppress(OSError):  # the scheduler may be gone
                self._client.unsubscribe_topic(_EVENTS)  # our own shutdown is no loss
            if self._unfinished:
                self._cancel()
        finally:
            self._opened.close()
            if not self._is_remote:  # jobs that did not end in time were killed
                for job in self._unfinished.values():
                    for left in [
                        get_partial_path(job.output),
                        *get_parts_folder(job.output).glob("*.partial"),
                    ]:
                        remove_leftover(left)
            self._unfinished.clear()

    def _round(self, jobs: list[Job], do: RunJob) -> Iterator[tuple[Result, bool]]:
        """Run jobs; yield each result, and whether the job was abandoned because workers were lost."""
        if not jobs:
            return
        there = partial(dask_task.run_in_worker, do=do, run=self._run, is_remote=self._is_remote)
        sent = [_prepare_for_worker(job, self._is_remote) for job in jobs]
        name = f"igbss-{uuid.uuid4().hex}"
        futures = self._client.map(there, sent, pure=False, key=name, batch_size=1000)
        self._unfinished |= {future.key: job for future, job in zip(futures, jobs, strict=True)}
        answers = distributed.as_completed(
            futures, loop=self._client.loop, with_results=True, raise_errors=False
        )
        del futures  # a future that is referenced keeps its result on a worker
        for future, answer in answers:
            result = _result(answer, self._unfinished.pop(future.key))
            future.release()
            yield result, _is_loss(answer)

    def _log_losses(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Log jobs that are repeated; called with every event of the scheduler."""
        _, what = event
        if what.get("action") != "remove-worker" or what.get("expected"):
            return
        keys = [key for kind in ("processing-tasks", "lost-computed-tasks") for key in what.get(kind, ())]
        again = [printable(self._unfinished[key].input.name) for key in keys if key in self._unfinished]
        if again:
            _log.warning("Worker %s was lost; repeating: %s", what["worker"], ", ".join(sorted(again)))

    def _cancel(self) -> None:
        """Stop running jobs, each at its next block."""
        with suppress(OSError, TimeoutError, CancelledError):
            futures: list[Any] = [distributed.Future(key, self._client) for key in self._unfinished]
            self._client.cancel(futures, force=True)
            deadline = time.monotonic() + STOPPING
            while time.monotonic() < deadline:
                if not any(self._client.run(dask_task.cancel_run, self._run, on_error="ignore").values()):
                    return
                time.sleep(_LOOK)


def run_on_dask(
    jobs: Iterable[Job], n_workers: int | None = None, scheduler: str | None = None
) -> Iterator[Result]:
    """Do jobs on Dask, and yield what came of each, in the order in which they are done.

    Parameters
    ----------
    jobs : iterable of Job
    n_workers, scheduler
        See `DaskRunner`.

    Yields
    ------
    Result
    """
    with DaskRunner(n_workers, scheduler) as workers:
        yield from workers.run(jobs)


def _refuse_existing(job: Job) -> Result | None:
    """Return a failed result if the output exists; once the run has started, it could be our own."""
    if job.overwrite or job.resume or not os.path.lexists(job.output):
        return None
    return run_safely(job)


def _prepare_for_worker(job: Job, is_remote: bool) -> Job:
    """Return the job as it is sent to a worker.

    A worker may be lost after it renamed its output and before the scheduler heard of it. The worker that
    repeats the job finds an output with the same fingerprint and keeps it.
    """
    if not job.overwrite:
        job = replace(job, resume=True)
    if is_remote:  # its workers have other working directories
        model = None if job.model is None else _absolute(job.model)
        job = replace(job, input=_absolute(job.input), output=_absolute(job.output), model=model)
    return job


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _result(answer: Any, job: Job) -> Result:
    """Return the result of a job, also if its worker was lost."""
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
    """Return whether a job was abandoned because too many workers were lost with it."""
    return isinstance(answer, tuple) and isinstance(answer[1], distributed.KilledWorker)
