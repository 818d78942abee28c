"""Run one job in a Dask worker; it ends at its next block if the run is cancelled."""

import importlib
import logging
import os
import signal
import threading
from typing import Any

import distributed

from igbss_stream._util.compute_pool import limit_threads
from igbss_stream.batch.job import FAILED, Job, Result, RunJob
from igbss_stream.files.writers.locking import get_partial_path, wait_until_free
from igbss_stream.model.kernels.jit import load_kernels

LOCK_TIMEOUT = 30.0  # seconds that a worker assumed to be lost may still hold the lock of its output

_cancelled: set[str] = set()
_at_work: dict[str, int] = {}
_lock = threading.Lock()


class _Cancelled(BaseException):
    """The run was cancelled; an open sink removes what it wrote."""


def dask_setup(worker: Any) -> None:
    """Prepare a worker process; Dask calls this at its start.

    Parameters
    ----------
    worker : distributed.Worker
    """
    # Ctrl-C in a terminal reaches the whole process group; only the main process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    importlib.import_module("igbss_stream.separation.structure_fit")
    load_kernels()  # before the first recording, whose time is reported


def run_in_worker(job: Job, *, do: RunJob, run: str, is_remote: bool) -> Result:
    """Run a job.

    Parameters
    ----------
    job : Job
    do : callable
    run : str
        Name of the run.
    is_remote : bool
        Whether the worker may be on another machine with other files.

    Returns
    -------
    Result
    """
    unseen = _find_missing(job) if is_remote else None
    if unseen is not None:
        return Result(job=job, status=FAILED, seconds=0.0, error=unseen)

    def check_cancelled(*_: object) -> None:
        if run in _cancelled:
            raise _Cancelled

    limit_threads(1)  # a worker has one core
    with _lock:
        _at_work[run] = _at_work.get(run, 0) + 1
    try:
        check_cancelled()
        wait_until_free(get_partial_path(job.output), LOCK_TIMEOUT)
        return do(job, check_cancelled)
    except _Cancelled:
        return Result(job=job, status=FAILED, seconds=0.0, error="the run was cancelled")
    finally:
        with _lock:
            _at_work[run] -= 1


def cancel_run(run: str) -> int:
    """Cancel a run in this worker; return the number of its jobs that have not ended yet.

    Parameters
    ----------
    run : str

    Returns
    -------
    int
    """
    _cancelled.add(run)
    return _at_work.get(run, 0)


def _find_missing(job: Job) -> str | None:
    """Return an error message if this worker does not see the files of a job."""
    for path in [job.input] if job.make_folders else [job.input, job.output.parent]:
        if not os.path.exists(path):
            return (
                f"worker {distributed.get_worker().address} does not see '{path}': every worker must see "
                "inputs and outputs under the same paths, as on a disk that they share"
            )
    return None
