"""How far a learning is, for whoever asked for it; it may take a minute.

The loops that know are deep inside and used by many. So who listens is kept beside the call, for the thread
that made it, and is no parameter of each function in between. Nothing that is learned depends on it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a step, the units of it that are done, and their total if it is known."""

Listener = Callable[[str, int, int], None]
"""Called with what is being done, the steps of it that are done, and how many there are at most."""

Step = Callable[[], None]
"""Called when one more step is done."""


def _nobody(doing: str, done: int, most: int) -> None:
    pass


_listener: ContextVar[Listener] = ContextVar("listener", default=_nobody)


@contextmanager
def told_to(listener: Listener | None) -> Iterator[None]:
    """Tell someone how far a learning is, as long as the ``with`` block runs.

    Parameters
    ----------
    listener : callable or None
        None is nobody.
    """
    before = _listener.set(listener or _nobody)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def counted(doing: str, most: int) -> Iterator[Step]:
    """Count steps, and tell of each; what ends before it must is complete with the steps it took.

    Parameters
    ----------
    doing : str
        What is being done.
    most : int
        Steps at most.

    Returns
    -------
    context manager that gives a callable
    """
    tell, done = _listener.get(), 0

    def step() -> None:
        nonlocal done
        done += 1
        tell(doing, done, max(done, most))

    tell(doing, 0, most)
    yield step
    done = max(done, 1)  # what had nothing to do is complete as well
    tell(doing, done, done)


def not_counted() -> None:
    """Do nothing: steps of what is too short to tell of."""
