"""Stop a command on SIGINT or SIGTERM at a safe point; record the signals of a daemon.

An exception raised by a signal handler can interrupt a program between two frames of a message, or within a
write to HDF5. The handler here only records the signal and wakes a waiting thread; the command checks for
it where it can stop safely. A second signal has its usual effect.
"""

import os
import select
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_EXIT_BASE = 128  # shells add this to the number of the signal that ended a command


class StopSignal:
    """Records SIGINT and SIGTERM while its ``with`` block runs, in the main thread.

    Signals that the process was started to ignore, as in the background of a shell, remain ignored.

    Attributes
    ----------
    signal : int or None
        Number of the received signal.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._read_end, self._write_end = os.pipe()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        os.close(self._write_end)
        os.close(self._read_end)

    @property
    def requested(self) -> bool:
        """Whether a signal was received."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """Exit code for the received signal, e.g. 130 after Ctrl-C; 0 without a signal."""
        return 0 if self.signal is None else _EXIT_BASE + self.signal

    def wait(self, seconds: float) -> bool:
        """Wait until a signal arrives or the time is over; return whether a signal was received."""
        select.select([self._read_end], [], [], max(0.0, seconds))
        return self.requested

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        os.write(self._write_end, b"!")
        signal.signal(number, self._previous[number])


class DaemonSignals:
    """Record the signals of a daemon from the first moment of its start.

    Until its handlers are installed, SIGTERM and SIGHUP end a process at once. A daemon therefore installs
    them before it imports what it needs, which takes a second or two.

    Attributes
    ----------
    stopping : threading.Event
        Set by SIGINT, SIGTERM and `stop`.
    reload_requested : bool
        Set by SIGHUP and `reload`.
    """

    def __init__(self) -> None:
        self.stopping = threading.Event()
        # Not an Event: clearing it takes a lock, for which a handler in the same thread would wait forever.
        self.reload_requested = False

    def install(self) -> None:
        """Handle SIGINT, SIGTERM and SIGHUP until the process ends; call this in the main thread."""
        signal.signal(signal.SIGINT, lambda number, frame: self.stop())
        signal.signal(signal.SIGTERM, lambda number, frame: self.stop())
        signal.signal(signal.SIGHUP, lambda number, frame: self.reload())

    def stop(self) -> None:
        """End the run soon. Signal handlers and other threads may call this."""
        self.stopping.set()

    def reload(self) -> None:
        """Read the configuration again soon. Signal handlers and other threads may call this."""
        self.reload_requested = True

    def take_reload(self) -> bool:
        """Return whether a reload was requested since the last call."""
        requested, self.reload_requested = self.reload_requested, False
        return requested
