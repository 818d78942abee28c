"""Where workers of Dask come from: processes of this machine, or a scheduler that runs elsewhere."""

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

CONNECTING = 20.0  # seconds to reach a scheduler
_PROTOCOLS = ("tcp", "tls", "ws", "wss", "ucx")

# On the machines of a cluster these must be the same: the first, or nothing works; the second, or the last
# digit of a result may depend on the machine.
_MUST_EQUAL = ("python", "igbss_stream", "dask", "distributed")
_SHOULD_EQUAL = ("numpy", "numba", "scipy", "h5py")

# Of Dask, for processes of our own. Nothing is kept in memory that could be spilled, and a pause would last
# for ever. A job is sent when a worker is free for it: one that waits dies with no worker but its own.
_LOCAL = {
    "distributed.scheduler.allowed-failures": 3,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.no-workers-timeout": "5 minutes",
    # else a process that is lost again while it starts is not started once more, and nobody does the work
    "distributed.deploy.lost-worker-timeout": "1000 days",
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}


@contextmanager
def silence() -> Iterator[None]:
    """Let this package alone say what happens: Dask tells of every worker that comes and goes."""
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
def processes(n_workers: int, preload: str) -> Iterator[Any]:
    """Start processes of this machine, which nobody else can reach; yield a client of theirs.

    Parameters
    ----------
    n_workers : int
        A thread each.
    preload : str
        Module with `dask_setup`, which prepares each.

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
def elsewhere(scheduler: str) -> Iterator[Any]:
    """Connect to a scheduler; yield a client of its.

    Parameters
    ----------
    scheduler : str
        Its address, or the scheduler file that it writes.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ParameterError
        If it is no address.
    FeedError
        If the scheduler cannot be reached, or its machines have other versions of what is needed.
    """
    is_file = "://" not in scheduler and os.path.isfile(scheduler)
    protocol, mark, _ = scheduler.partition("://")
    if mark and protocol not in _PROTOCOLS:
        raise ParameterError(
            f"--scheduler must begin with tcp:// or tls://, or name a scheduler file. Got '{scheduler}'."
        )
    where = {"scheduler_file": scheduler} if is_file else {"address": scheduler}
    try:
        client = distributed.Client(**where, timeout=CONNECTING, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FeedError(
            f"the scheduler '{scheduler}' cannot be reached: {' '.join(str(error).split())}; start one "
            "with `dask scheduler`, and give the address it prints, such as tcp://10.0.0.5:8786"
        ) from error
    with client:
        check_versions(client.get_versions(packages=["igbss_stream", *_SHOULD_EQUAL]), scheduler)
        yield client


def check_versions(found: Mapping[str, Any], scheduler: str) -> None:
    """Refuse workers that could not do the work; warn of those that may do it differently.

    Parameters
    ----------
    found : mapping
        What `distributed.Client.get_versions` returns.
    scheduler : str
        For the message.

    Raises
    ------
    FeedError
        If a worker lacks what is needed, or has another version of it.

    Warns
    -----
    IgbssWarning
        If results could differ in the last digit.
    """
    if not found["workers"]:
        _log.info("No worker has joined %s yet: waiting for one", scheduler)
    here = _versions(found["client"])
    for worker, there in found["workers"].items():
        others = _versions(there)
        wrong = _differences(_MUST_EQUAL, here, others)
        if wrong:
            raise FeedError(
                f"worker {worker} of '{scheduler}' has other versions: {wrong}; install the same everywhere"
            )
        differs = _differences(_SHOULD_EQUAL, here, others)
        if differs:
            warnings.warn(
                f"worker {worker} has other versions, and the last digits may depend on who did the work: "
                f"{differs}.",
                IgbssWarning,
                stacklevel=2,
            )


def _versions(of: Mapping[str, Any]) -> dict[str, Any]:
    python = ".".join(str(of["host"]["python"]).split(".")[:2])
    return {**of["packages"], "python": python}


def _differences(names: tuple[str, ...], here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    found = [name for name in names if here.get(name) != there.get(name)]
    return "; ".join(f"{name} {there.get(name) or 'is missing'}, here {here.get(name)}" for name in found)
