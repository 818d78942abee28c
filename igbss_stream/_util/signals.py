"""The wish that a command stops, noted where it may come at any moment and heeded where it is safe.

An exception out of a signal handler can strike between two frames of a message or inside a write of HDF5.
Here the handler only takes a note, which also wakes whoever waits. A second signal acts as it always does.
"""

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EXIT_BASE = 128  # what shells add to the number of the signal that ended a command


class Stop:
    """Notes SIGINT and SIGTERM while its ``with`` block runs; for the main thread.

    A signal that the process was started to ignore, as in the background of a shell, stays ignored.

    Attributes
    ----------
    signal : int or None
        The signal that came.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._wakes, self._alarm = os.pipe()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._alarm)
        os.close(self._wakes)

    @property
    def requested(self) -> bool:
        """Whether a signal came."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """The exit code that tells of the signal: 130 after Ctrl-C; 0 where none came."""
        return 0 if self.signal is None else _EXIT_BASE + self.signal

    def wait(self, seconds: float) -> bool:
        """Wait, but no longer than until a signal comes; return whether one has."""
        select.select([self._wakes], [], [], max(0.0, seconds))
        return self.requested

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        os.write(self._alarm, b"!")
        signal.signal(number, self._previous[number])
