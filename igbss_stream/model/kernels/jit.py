"""Decorators that compile functions by numba.

Every kernel declares its signatures. It is compiled when its module is imported, or loaded from the cache
next to the module. Nothing is compiled while a stream is processed: a call with another type raises an
error instead.

The arrays of a signature are C-ordered. NumPy does not specify the memory order of most of its results,
and versions differ. Callers therefore allocate the arrays that a kernel fills, and pass results of NumPy
and SciPy through `np.ascontiguousarray`, which copies nothing that is C-ordered already.
"""

import logging
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import config, types

_log = logging.getLogger("igbss_stream")
_logged: set[str] = set()

Function = TypeVar("Function", bound=Callable[..., Any])

# nogil: readers and writers run in parallel to a kernel. error_model: IEEE arithmetic as in NumPy. No
# fastmath: it makes isnan(nan) false and reorders sums, and results must be reproducible to the bit.
_POLICY: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_CACHE_FAULTS = (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError)


def array_type(dtype: Any, ndim: int, *, readonly: bool = False) -> types.Array:
    """Return the type of a C-ordered array; a `readonly` one accepts writable arrays as well."""
    return types.Array(dtype, ndim, "C", readonly=readonly)


def kernel(*signatures: Any) -> Callable[[Function], Function]:
    """Compile a function for the given signatures, through the cache.

    Parameters
    ----------
    *signatures
        Numba signatures, strings or types; at least one.
    """

    def compile_all(function: Function) -> Function:
        if config.DISABLE_JIT:  # type: ignore[attr-defined]  # set when numba is imported
            return function
        try:
            return _compile(function, signatures, cache=True)
        except _CACHE_FAULTS as fault:
            # Continue without cache if the directory is read-only, the disk is full or a file is damaged.
            _log_once("cache", logging.WARNING, f"kernels cannot be cached and are compiled again: {fault}")
            return _compile(function, signatures, cache=False)

    return compile_all


def helper(function: Function) -> Function:
    """Compile a function that is called only by kernels of the same module."""
    return numba.njit(**_POLICY)(function)  # type: ignore[no-any-return]  # numba has no types


def _compile(function: Function, signatures: tuple[Any, ...], *, cache: bool) -> Function:
    dispatcher = numba.njit(cache=cache, **_POLICY)(function)
    for signature in signatures:
        dispatcher.compile(signature)
        if dispatcher.stats.cache_misses:
            _log_once(
                "cold", logging.INFO, "compiling kernels, each once after installation (about 10 s in all)"
            )
    dispatcher.disable_compile()
    return dispatcher  # type: ignore[no-any-return]  # numba has no types


def _log_once(topic: str, level: int, message: str) -> None:
    if topic not in _logged:
        _logged.add(topic)
        _log.log(level, message)
