"""Start Dask workers as local processes, or connect to a scheduler."""

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
import distributed

from igbss_stream.errors import FeedError, IgbssWarning, ParameterError

_log = logging.getLogger("igbss_stream")

CONNECTING = 20.0  # time-out in seconds for reaching a scheduler
_PROTOCOLS = ("tcp", "tls", "ws", "wss", "ucx")

# Packages whose versions must be equal on all machines of a cluster, and those whose versions should be
# equal because the last digit of a result may otherwise depend on the machine.
_MUST_EQUAL = ("python", "igbss_stream", "dask", "distributed")
_SHOULD_EQUAL = ("numpy", "numba", "scipy", "h5py")

# Settings of Dask for local processes. Workers keep nothing in memory that could be spilled, and a pause
# would never end. A job is sent when a worker is free, so that a lost worker takes only its own job down.
_LOCAL = {
    "distributed.scheduler.allowed-failures": 3,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.no-workers-timeout": "5 minutes",
    # otherwise a process that is lost again during its start is not restarted, and its work is never done
    "distributed.deploy.lost-worker-timeout": "1000 days",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}


@contextmanager
def silence() -> Iterator[None]:
    """Silence the loggers of Dask, which report every worker that starts or stops."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def start_processes(n_workers: int, preload: str) -> Iterator[Any]:
    """Start processes that only this machine can reach; yield a client.

    Parameters
    ----------
    n_workers : int
        Number of processes, with one thread each.
    preload : str
        Module with the function `dask_setup`, which prepares each process.

    Yields
    ------
    distributed.Client
    """
    with ExitStack() as opened:
        opened.enter_context(dask.config.set(_LOCAL))
        cluster = distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
            dashboard_address=None,
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            memory_limit=int(distributed.system.MEMORY_LIMIT) // n_workers,
            preload=[preload],
            env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        opened.enter_context(cluster)
        yield opened.enter_context(distributed.Client(cluster, set_as_default=False))


@contextmanager
def connect_scheduler(scheduler: str) -> Iterator[Any]:
    """Connect to a scheduler; yield a client.

    Parameters
    ----------
    scheduler : str
        Address of the scheduler, or its scheduler file.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ParameterError
        If the address is invalid.
    FeedError
        If the scheduler cannot be reached, or its workers have other versions of required packages.
    """
    is_file = "://" not in scheduler and os.path.isfile(scheduler)
    protocol, mark, _ = scheduler.partition("://")
    if mark and protocol not in _PROTOCOLS:
        raise ParameterError(
            f"--scheduler must start with tcp:// or tls://, or name a scheduler file. Got '{scheduler}'."
        )
    where = {"scheduler_file": scheduler} if is_file else {"address": scheduler}
    try:
        client = distributed.Client(**where, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FeedError(
            f"the scheduler '{scheduler}' cannot be reached: {' '.join(str(error).split())}; start one "
            "with `dask scheduler`, and pass the address it prints, such as tcp://10.0.0.5:8786"
        ) from error
    with client:
        check_versions(client.get_versions(packages=["igbss_stream", *_SHOULD_EQUAL]), scheduler)
        yield client


def check_versions(found: Mapping[str, Any], scheduler: str) -> None:
    """Check the package versions of all workers.

    Parameters
    ----------
    found : mapping
        Result of `distributed.Client.get_versions`.
    scheduler : str
        Name of the scheduler, for messages.

    Raises
    ------
    FeedError
        If a worker lacks a required package, or has another version of it.

    Warns
    -----
    IgbssWarning
        If results could differ in the last digit.
    """
    if not found["workers"]:
        _log.info("No worker has joined %s yet: waiting for one", scheduler)
    here = _collect_versions(found["client"])
    for worker, there in found["workers"].items():
        others = _collect_versions(there)
        wrong = _describe_differences(_MUST_EQUAL, here, others)
        if wrong:
            raise FeedError(
                f"worker {worker} of '{scheduler}' has other versions: {wrong}; install the same everywhere"
            )
        differs = _describe_differences(_SHOULD_EQUAL, here, others)
        if differs:
            warnings.warn(
                f"worker {worker} has other versions, and the last digits may depend on who did the work: "
                f"{differs}.",
                IgbssWarning,
                stacklevel=2,
            )


def _collect_versions(of: Mapping[str, Any]) -> dict[str, Any]:
    python = ".".join(str(of["host"]["python"]).split(".")[:2])
    return {**of["packages"], "python": python}


def _describe_differences(names: tuple[str, ...], here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    found = [name for name in names if here.get(name) != there.get(name)]
    return "; ".join(f"{name} {there.get(name) or 'is missing'}, here {here.get(name)}" for name in found)
