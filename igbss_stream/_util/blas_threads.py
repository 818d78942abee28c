"""Limit linear algebra to one thread while this package computes.

Matrices of a few dozen channels are too small to share: threads of BLAS wait for each other by spinning,
which costs more than they gain, most of all where other threads or processes need the cores. With one
thread, sums also have the same order, and results the same bits, on every machine.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_n_entered = 0
_before: dict[str, tuple[Any, int]] = {}  # each limited library, and its number of threads before


@contextmanager
def limit_blas_threads() -> Iterator[None]:
    """Limit the BLAS of NumPy and SciPy to one thread until the context ends.

    The limit applies to the whole process: most BLAS libraries have no other. Contexts may be nested, and
    may overlap in several threads: the last one to end restores what the first one found. SciPy brings a
    separate BLAS, which is limited if `scipy.linalg` has been imported before. A context costs 10 us.
    """
    global _n_entered
    libraries = _find_libraries("scipy.linalg" in sys.modules)
    with _lock:
        _n_entered += 1
        for library in libraries:
            n_threads = library.num_threads
            _before.setdefault(library.filepath, (library, n_threads))
            if n_threads != 1:
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _n_entered -= 1
            if not _n_entered:
                for library, n_threads in _before.values():
                    library.set_num_threads(n_threads)
                _before.clear()


@cache
def _find_libraries(with_scipy: bool) -> tuple[Any, ...]:
    """Return the controllers of the loaded BLAS libraries; the search takes milliseconds.

    Parameters
    ----------
    with_scipy : bool
        Whether SciPy has been loaded. Part of the key of the cache: the search is repeated afterwards.
    """
    from threadpoolctl import ThreadpoolController  # imported here: most commands compute nothing

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
