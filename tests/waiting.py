"""Wait for a state that another thread or process brings about.

A test that acts on something that runs beside it polls until the state holds, never for a fixed time: a loaded
machine is slow, not wrong.
"""

import time
from collections.abc import Callable

DEADLINE = 60.0  # seconds that anything may take; waiting ends as soon as the state holds


def until(
    done: Callable[[], object],
    doing: Callable[[], object] = lambda: None,
    describe: Callable[[], object] = lambda: f"the state was not reached within {DEADLINE:g} s",
) -> None:
    """Repeat an action until a condition holds.

    Parameters
    ----------
    done : callable
        Whether the state holds.
    doing : callable
        The action, such as serving a socket.
    describe : callable
        Returns the state that was found instead, for the message on a timeout.
    """
    deadline = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < deadline, describe()
        doing()
        time.sleep(0.005)
