"""Process blocks in threads and return the results in order.

Worker threads only compute. Reading and writing stay in the calling thread: errors and Ctrl-C arrive there
as usual, and results do not depend on which thread finishes first.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_THREADS = 4  # pending blocks occupy memory, and more threads make reading and writing no faster


_limit = _MAX_THREADS


def limit_threads(count: int) -> None:
    """Limit the number of compute threads of this process, e.g. when several processes share the machine.

    Parameters
    ----------
    count : int
    """
    global _limit
    _limit = min(_MAX_THREADS, count)


def is_limited() -> bool:
    """Return whether `limit_threads` was called: several processes share the machine."""
    return _limit < _MAX_THREADS


def get_n_threads() -> int:
    """Return the number of compute threads: one per core available to this process, up to the limit."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_limit, allowed)


class BlockPool:
    """Preallocated blocks for `map_in_order`, reused cyclically; allocation costs more than processing.

    Parameters
    ----------
    length, width : int
        Largest number of rows of a block, and its number of columns.
    dtype : dtype
    """

    def __init__(self, length: int, width: int, dtype: np.dtype[Any]) -> None:
        # Beside the pending blocks, one is being filled and one has been yielded.
        self._blocks = cycle([np.empty((length, width), dtype) for _ in range(get_n_threads() + 2)])

    def get_rows(self, n: int) -> NDArray[Any]:
        """Return the first `n` rows of the next block."""
        return next(self._blocks)[:n]

    def copy(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of `x` in the next block."""
        rows = self.get_rows(len(x))
        rows[:] = x
        return rows


@contextmanager
def compute_pool() -> Iterator[ThreadPoolExecutor]:
    """Yield a thread pool; on exit, cancel pending work and wait for running work."""
    pool = ThreadPoolExecutor(get_n_threads(), "compute")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def map_in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Apply a function to items in the threads of a pool, and yield the results in the order of the items.

    Parameters
    ----------
    pool : ThreadPoolExecutor
    work : callable
        Runs in the threads of the pool.
    items : iterable
        Consumed in the calling thread, up to one item more than there are threads ahead of the results.

    Yields
    ------
    result
        An exception of `work` is raised in place of its result.
    """
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > get_n_threads():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
