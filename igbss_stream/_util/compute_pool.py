"""Work on blocks in threads, handed back in order.

Threads only reckon. Reading and writing stay in the thread that calls, so that errors and Ctrl-C arrive
where they always do, and results do not depend on which thread was faster.
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

_MOST = 4  # blocks wait in memory, and reading and writing are not faster for more threads


_limit = _MOST


def limit_threads(count: int) -> None:
    """Let this process reckon in so many threads from now on, as where there are others beside it.

    Parameters
    ----------
    count : int
    """
    global _limit
    _limit = min(_MOST, count)


def n_threads() -> int:
    """Return how many threads reckon at a time: one a core that this process may use, up to a limit."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(_limit, allowed)


class Memory:
    """Blocks of memory for `in_order`, used again in turn: new ones cost more than what is done in them.

    Parameters
    ----------
    length, width : int
        Most rows of a block, and its columns.
    dtype : dtype
    """

    def __init__(self, length: int, width: int, dtype: np.dtype[Any]) -> None:
        # One is filled and one is handed back, beside those that wait.
        self._blocks = cycle([np.empty((length, width), dtype) for _ in range(n_threads() + 2)])

    def rows(self, n: int) -> NDArray[Any]:
        """Return `n` rows of the block whose turn it is."""
        return next(self._blocks)[:n]

    def copied(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of rows."""
        rows = self.rows(len(x))
        rows[:] = x
        return rows


@contextmanager
def reckoning() -> Iterator[ThreadPoolExecutor]:
    """Give threads to reckon in; at the end what has not begun is dropped, and what has is waited for."""
    pool = ThreadPoolExecutor(n_threads(), "reckoning")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Yield the results of work on items, in the order of the items.

    Parameters
    ----------
    pool : ThreadPoolExecutor
    work : callable
        Runs in the threads of the pool.
    items : iterable
        Taken in the thread that iterates, one more than there are threads before the first result.

    Yields
    ------
    result
        What the work raised is raised in the place of its result.
    """
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > n_threads():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
