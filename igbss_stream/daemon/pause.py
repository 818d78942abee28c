"""Pauses between attempts, which grow while attempts fail."""

import math
import time


class Pause:
    """A pause after a failure, twice as long as the one before unless that was long ago.

    Parameters
    ----------
    first, longest : float
        Seconds.
    """

    def __init__(self, first: float = 1.0, longest: float = 60.0) -> None:
        self._first, self._longest = first, longest
        self._length, self._end = first, -math.inf

    def begin(self) -> float:
        """Begin a pause; return its length in seconds."""
        now = time.monotonic()
        is_recent = now < self._end + 10.0 * self._longest
        self._length = min(2.0 * self._length, self._longest) if is_recent else self._first
        self._end = now + self._length
        return self._length

    @property
    def is_over(self) -> bool:
        """Whether no pause is going on."""
        return time.monotonic() >= self._end
