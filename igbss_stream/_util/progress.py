"""Report the progress of a computation that may take a minute, such as learning a structure.

The loops that count steps are nested deep and have many callers. The listener is therefore stored in a
context variable of the calling thread, and functions in between need no parameter for it. Results never
depend on the listener.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, int, int | None], None]
"""Called with the name of a task, the number of units done, and their total if it is known."""

Listener = Callable[[str, int, int], None]
"""Called with the name of a task, the number of steps done, and the largest number of steps."""

StepDone = Callable[[], None]
"""Called after each step."""


def _ignore(task: str, n_done: int, n_steps: int) -> None:
    pass


_listener: ContextVar[Listener] = ContextVar("listener", default=_ignore)


@contextmanager
def report_to(listener: Listener | None) -> Iterator[None]:
    """Report the progress of computations in the ``with`` block to a listener.

    Parameters
    ----------
    listener : callable or None
        None to report nothing.
    """
    before = _listener.set(listener or _ignore)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def track(task: str, n_steps: int) -> Iterator[StepDone]:
    """Count the steps of a task and report each; a task that ends early is reported as complete.

    Parameters
    ----------
    task : str
        Name of the task.
    n_steps : int
        Largest number of steps.

    Yields
    ------
    callable
        To be called after each step.
    """
    report, n_done = _listener.get(), 0

    def step_done() -> None:
        nonlocal n_done
        n_done += 1
        report(task, n_done, max(n_done, n_steps))

    report(task, 0, n_steps)
    yield step_done
    n_done = max(n_done, 1)  # a task without any step is complete as well
    report(task, n_done, n_done)


def ignore_step() -> None:
    """Do nothing after a step, where progress is not reported."""
