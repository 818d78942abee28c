"""Release chunks and gaps at the time their samples would have been recorded. Knows no sockets."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events
from igbss_stream.playback.event_feed import EventFeed

Item = Chunk | Gap

_LENGTH = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>s|ms|)")
_SECONDS = {"s": 1.0, "ms": 1e-3}


class Clock(Protocol):
    """A clock that can wait."""

    def now(self) -> float:
        """Return the time in seconds since an arbitrary moment; it never decreases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; may return early if a stop was requested."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class PacedStream:
    """A stream together with the iterator of its paced items.

    Parameters
    ----------
    stream : Stream
        At speed 1, `t0` is set when publishing starts.
    items : callable
        Takes a `Clock` and returns the paced items.
    n_samples : int or None
        Length of the stream; None if it is endless.
    speed : float
        Multiple of real time. 0 publishes as fast as subscribers can read, so that they miss nothing; at
        other speeds, subscribers that are too slow lose messages.
    events : EventFeed
        Events of the stream; none by default.

    Raises
    ------
    ParameterError
        If `speed` is negative or not finite.
    """

    stream: Stream
    items: Callable[[Clock], Iterator[Item]]
    n_samples: int | None
    speed: float
    events: EventFeed = field(default_factory=lambda: EventFeed(Events()))

    def __post_init__(self) -> None:
        check_speed(self.speed)


def pace(
    items: Iterable[Item], rate: float, speed: float = 1.0, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Item]:
    """Yield each item when its last sample would have been recorded.

    Parameters
    ----------
    items : iterable of Chunk and Gap
        The next item is read before the wait.
    rate : float
        In Hz.
    speed : float
        2 is twice as fast as real time; 0 does not wait.
    clock : Clock

    Returns
    -------
    iterator of Chunk and Gap

    Raises
    ------
    ParameterError
        If `speed` is negative or not finite.

    Notes
    -----
    The due time depends only on the sample index, so waits that end late do not accumulate. After a pause
    of the machine, overdue items are released immediately.
    """
    check_speed(speed)
    return _hold_back(items, rate * speed, clock)


def check_speed(speed: float) -> None:
    """Check that a speed is finite and not negative."""
    if not (math.isfinite(speed) and speed >= 0):
        raise ParameterError(f"speed must be a finite number >= 0. Got {speed:g} instead.")


class Schedule:
    """The time at which each item is due: when its last sample would have been recorded.

    Parameters
    ----------
    samples_per_second : float
        0 makes every item due immediately.
    clock : Clock
        Sample `first` is recorded at the current time of this clock.
    first : int
    """

    def __init__(self, samples_per_second: float, clock: Clock, first: int = 0) -> None:
        self._samples_per_second, self._clock, self._first = samples_per_second, clock, first
        self._began = clock.now()

    def get_wait(self, item: Item) -> float:
        """Return the seconds until an item is due; 0 or less if it is overdue."""
        if self._samples_per_second == 0:
            return 0.0
        due = self._began + (item.stop - self._first) / self._samples_per_second
        return due - self._clock.now()


def _hold_back(items: Iterable[Item], samples_per_second: float, clock: Clock) -> Iterator[Item]:
    schedule: Schedule | None = None
    for item in items:
        schedule = schedule or Schedule(samples_per_second, clock, item.start)
        if (wait := schedule.get_wait(item)) > 0:
            clock.sleep(wait)
        yield item


def parse_length(text: str, rate: float, name: str = "--block") -> int:
    """Convert a length given in samples (``25``) or as a time (``0.1s``, ``100ms``) to samples.

    Parameters
    ----------
    text : str
    rate : float
        In Hz.
    name : str
        Name of the option, for the error message.

    Returns
    -------
    int
        At least 1; times are rounded to whole samples.

    Raises
    ------
    ParameterError
        If `text` has another form, or is shorter than one sample.
    """
    match = _LENGTH.fullmatch(text.strip())
    if match is not None:
        number, unit = float(match["number"]), match["unit"]
        n_samples = round(number * rate * _SECONDS[unit]) if unit else round(number)
        if n_samples >= 1 and (unit or number == n_samples):
            return n_samples
    raise ParameterError(
        f"{name} must be a number of samples, such as 25, or a time of at least one sample, such as 0.1s "
        f"or 100ms. Got {text!r} instead."
    )
