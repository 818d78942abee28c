"""The one way a function is compiled here.

Every kernel declares its signatures and is compiled when its module is imported, or read from the
cache beside it: nothing compiles in mid-stream, and a call with another type is an error, not a stall.
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

# nogil: readers and writers go on beside a kernel. error_model: IEEE, as NumPy. No fastmath: it makes
# isnan(nan) false and lets sums be re-ordered, and results here are the same to the bit.
_POLICY: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_CACHE_FAULTS = (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError)


def array_type(dtype: Any, ndim: int, *, readonly: bool = False) -> types.Array:
    """Type of a C-ordered array; a `readonly` one takes writable arrays as well."""
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
            # No writable folder, a full disk or a damaged cache file: none of them is a reason to stop.
            _log_once("cache", logging.WARNING, f"kernels are not cached and compile anew: {fault}")
            return _compile(function, signatures, cache=False)

    return compile_all


def helper(function: Function) -> Function:
    """Compile a function that only kernels of the same module call."""
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
