"""Decorators that compile functions by numba.

Every kernel declares its signatures. It is compiled, or loaded from the cache next to its module, when it
is first called; `load_kernels` does so beforehand where a stream must not wait. A call with another type
raises an error.

Importing numba takes longer than most small recordings. A kernel may therefore have a substitute in NumPy,
with the same result to the bit, that serves until the work would be worth the import.

The arrays of a signature are C-ordered. NumPy does not specify the memory order of most of its results,
and versions differ. Callers therefore allocate the arrays that a kernel fills, and pass results of NumPy
and SciPy through `np.ascontiguousarray`, which copies nothing that is C-ordered already.
"""

import functools
import logging
import os
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

_log = logging.getLogger("igbss_stream")
_logged: set[str] = set()

Function = TypeVar("Function", bound=Callable[..., Any])

# nogil: readers and writers run in parallel to a kernel. error_model: IEEE arithmetic as in NumPy. No
# fastmath: it makes isnan(nan) false and reorders sums, and results must be reproducible to the bit.
_POLICY: dict[str, Any] = {"nogil": True, "error_model": "numpy"}

_CACHE_FAULTS = (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError)
_AFFORDABLE = 1 << 23  # multiplications that substitutes of a kernel do before it is loaded: about 50 ms
_loading = threading.RLock()


def array_type(dtype: str, ndim: int, *, readonly: bool = False) -> str:
    """Return the type of a C-ordered array; a `readonly` one accepts writable arrays as well."""
    return f"Array({dtype}, {ndim}, 'C', readonly={readonly})"


def signature(result: str, *arguments: str) -> str:
    """Return the signature of a function, from the names of types of numba."""
    return f"{result}({', '.join(arguments)})"


class Kernel:
    """A function that is compiled when it is first called.

    Parameters
    ----------
    function : callable
    signatures : tuple of str
    substitute : callable, optional
        Does the same in NumPy; its first argument is the number of multiplications that are affordable.
        Returns the number that it took, or 0 if these were more, and it did nothing.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        signatures: tuple[str, ...],
        substitute: Callable[..., int] | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function, self._signatures, self._substitute = function, signatures, substitute
        self._compiled: Callable[..., Any] | None = None
        self._affordable = _AFFORDABLE

    def __call__(self, *arguments: Any) -> Any:
        """Call the compiled function, or its substitute."""
        if self._compiled is not None:
            return self._compiled(*arguments)
        if self._substitute is not None:
            taken = self._substitute(self._affordable, *arguments)
            if taken:
                self._affordable -= taken
                return None
        return self.load()(*arguments)

    def load(self) -> Callable[..., Any]:
        """Compile the function, or load it from the cache, and return it."""
        with _loading:
            if self._compiled is None:
                self._compiled = self._load()
        return self._compiled

    def _load(self) -> Callable[..., Any]:
        try:
            return _compile(self._function, self._signatures, cache=True)
        except _CACHE_FAULTS as fault:
            # Continue without cache if the directory is read-only, the disk is full or a file is damaged.
            _log_once("cache", logging.WARNING, f"kernels cannot be cached and are compiled again: {fault}")
            return _compile(self._function, self._signatures, cache=False)


def kernel(
    *signatures: str, substitute: Callable[..., int] | None = None
) -> Callable[[Function], Function]:
    """Compile a function for the given signatures, through the cache, when it is first called.

    Parameters
    ----------
    *signatures
        Numba signatures; at least one.
    substitute : callable, optional
        See `Kernel`.
    """

    def declare(function: Function) -> Function:
        return function if _is_disabled() else cast(Function, Kernel(function, signatures, substitute))

    return declare


def helper(function: Function) -> Function:
    """Declare a function that is called only by kernels of the same module."""

    def build() -> Any:
        import numba

        return numba.njit(**_POLICY)(function)

    return built_helper(build)(function)


def built_helper(build: Callable[[], Any]) -> Callable[[Function], Function]:
    """Declare a function that is called only by kernels of the same module, and that is not compiled.

    Parameters
    ----------
    build : callable
        Returns what numba compiles in its place, such as an intrinsic; it is defined in the same module.
    """

    def declare(function: Function) -> Function:
        if not _is_disabled():
            _helpers.setdefault(function.__module__, {})[function.__name__] = build
        return function

    return declare


_helpers: dict[str, dict[str, Callable[[], Any]]] = {}
"""Functions that kernels of a module call, by name, and that are not built yet."""


def load_kernels(*modules: str) -> None:
    """Compile all kernels of modules, or load them from the cache.

    Parameters
    ----------
    *modules
        Full names; all modules that are imported by default.
    """
    for name in modules or tuple(sys.modules):
        if name.startswith(__package__):
            for value in list(vars(sys.modules[name]).values()):
                if isinstance(value, Kernel):
                    value.load()


def _is_disabled() -> bool:
    """Return whether numba would not compile."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def _compile(
    function: Callable[..., Any], signatures: tuple[str, ...], *, cache: bool
) -> Callable[..., Any]:
    import numba

    for name, build in _helpers.pop(function.__module__, {}).items():
        vars(sys.modules[function.__module__])[name] = build()
    dispatcher = numba.njit(cache=cache, **_POLICY)(function)
    for declared in signatures:
        dispatcher.compile(declared)
        if dispatcher.stats.cache_misses:
            _log_once(
                "cold", logging.INFO, "compiling kernels, each once after installation (about 10 s in all)"
            )
    dispatcher.disable_compile()
    return cast(Callable[..., Any], dispatcher)


def _log_once(topic: str, level: int, message: str) -> None:
    if topic not in _logged:
        _logged.add(topic)
        _log.log(level, message)
