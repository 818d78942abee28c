"""What runs in a worker of Dask: one job, which ends at its next block if the run is given up."""

import importlib
import logging
import os
import signal
import threading
from typing import Any

import distributed

from igbss_stream._util.compute_pool import limit_threads
from igbss_stream.batch.job import FAILED, Do, Job, Result
from igbss_stream.files.writers.locking import partial_of, wait_until_free

PATIENCE = 30.0  # seconds that a worker which was taken for lost may still hold on to its output

_given_up: set[str] = set()
_at_work: dict[str, int] = {}
_lock = threading.Lock()


class _GivenUp(BaseException):
    """Nobody waits for the run any more; a sink that is open removes what it wrote."""


def dask_setup(worker: Any) -> None:
    """Prepare a process that was started for this run alone; Dask calls it there.

    Parameters
    ----------
    worker : distributed.Worker
    """
    # Ctrl-C in a terminal reaches the whole group of processes; the first one decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    importlib.import_module("igbss_stream.separation.structure_fit")  # compile or load its kernels


def do_there(job: Job, *, do: Do, run: str, is_remote: bool) -> Result:
    """Do a job.

    Parameters
    ----------
    job : Job
    do : callable
    run : str
        Name of the run that it belongs to.
    is_remote : bool
        Whether this may be another machine, which sees other files.

    Returns
    -------
    Result
    """
    unseen = _unseen(job) if is_remote else None
    if unseen is not None:
        return Result(job=job, status=FAILED, seconds=0.0, error=unseen)

    def go_on(*_: object) -> None:
        if run in _given_up:
            raise _GivenUp

    limit_threads(1)  # a worker has a core of its own, and no more
    with _lock:
        _at_work[run] = _at_work.get(run, 0) + 1
    try:
        go_on()
        wait_until_free(partial_of(job.output), PATIENCE)
        return do(job, go_on)
    except _GivenUp:
        return Result(job=job, status=FAILED, seconds=0.0, error="the run was given up")
    finally:
        with _lock:
            _at_work[run] -= 1


def give_up(run: str) -> int:
    """Let a run end in this worker; return how many of its jobs have not ended yet.

    Parameters
    ----------
    run : str

    Returns
    -------
    int
    """
    _given_up.add(run)
    return _at_work.get(run, 0)


def _unseen(job: Job) -> str | None:
    """Say what this worker does not see of the files of a job."""
    for path in [job.input] if job.make_folders else [job.input, job.output.parent]:
        if not os.path.exists(path):
            return (
                f"worker {distributed.get_worker().address} does not see '{path}': every worker must see "
                "inputs and outputs under the same paths, as on a disk that they share"
            )
    return None
