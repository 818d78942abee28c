"""Items let go when their samples would have been taken. No sockets, and no clock but the one given."""

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError

Item = Chunk | Gap

_LENGTH = re.compile(r"(?P<number>\d+(\.\d*)?|\.\d+)\s*(?P<unit>s|ms|)")
_SECONDS = {"s": 1.0, "ms": 1e-3}


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return the time in seconds since any moment; it never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait; may return early, if what is waited for is not wanted any more."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Return seconds since the machine started, or so."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Feed:
    """What is to be published.

    Parameters
    ----------
    stream : Stream
        In real time, its `t0` is set when publishing begins.
    items : callable
        Takes a `Clock` and returns the paced items.
    n_samples : int or None
        How many there are in all, if there is an end.
    speed : float
        0 waits for subscribers, so that none misses anything; otherwise nothing waits for them.

    Raises
    ------
    ParameterError
        If the speed is not a number of at least 0.
    """

    stream: Stream
    items: Callable[[Clock], Iterator[Item]]
    n_samples: int | None
    speed: float

    def __post_init__(self) -> None:
        check_speed(self.speed)


def on_schedule(
    items: Iterable[Item], rate: float, speed: float = 1.0, clock: Clock = SYSTEM_CLOCK
) -> Iterator[Item]:
    """Hold each item back until its last sample would have been taken.

    Parameters
    ----------
    items : iterable of Chunk and Gap
        Read one ahead of time.
    rate : float
        In Hz.
    speed : float
        2 is twice as fast as real time; 0 holds nothing back.
    clock : Clock

    Returns
    -------
    iterator of Chunk and Gap

    Raises
    ------
    ParameterError
        If the speed is not a number of at least 0.

    Notes
    -----
    When an item is due follows from its index alone: waits that end late add up to nothing, and after a
    pause of the machine what is overdue leaves at once.
    """
    check_speed(speed)
    return _held_back(items, rate * speed, clock)


def check_speed(speed: float) -> None:
    """Refuse a speed that is not a number of at least 0."""
    if not (math.isfinite(speed) and speed >= 0):
        raise ParameterError(f"speed must be a number of at least 0. Got {speed:g} instead.")


def _held_back(items: Iterable[Item], samples_per_second: float, clock: Clock) -> Iterator[Item]:
    first: int | None = None
    began = clock.now()
    for item in items:
        first = item.start if first is None else first
        if samples_per_second > 0:
            wait = began + (item.stop - first) / samples_per_second - clock.now()
            if wait > 0:
                clock.sleep(wait)
        yield item


def length_in_samples(text: str, rate: float, name: str = "--block") -> int:
    """Return a length that is written as samples (``25``) or as time (``0.1s``, ``100ms``).

    Parameters
    ----------
    text : str
    rate : float
        In Hz.
    name : str
        Of the option, for the message.

    Returns
    -------
    int
        At least 1; a time is rounded to whole samples.

    Raises
    ------
    ParameterError
        If it is written otherwise, or shorter than one sample.
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
