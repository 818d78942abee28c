"""A recording as a feed: the same samples, at the pace at which they were taken."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.files.chunks import items, n_missing
from igbss_stream.files.recording import Break
from igbss_stream.playback.pacing import SYSTEM_CLOCK, Clock, Feed, Item, length_in_samples, on_schedule


class Recording(Protocol):
    """What is replayed; `igbss_stream.files.recording.Recording` is one."""

    @property
    def n_samples(self) -> int:
        """Length."""
        ...

    @property
    def rate(self) -> float | None:
        """In Hz, if known."""
        ...

    @property
    def unit(self) -> str | None:
        """Of the samples, if known."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """Names."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the blocks."""
        ...

    @property
    def breaks(self) -> tuple[Break, ...]:
        """Where samples are missing."""
        ...

    def blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read all of it, n samples at a time."""
        ...


def known_rate(recording: Recording) -> float:
    """Return the rate of a recording.

    Raises
    ------
    ParameterError
        If it is not known.
    """
    if recording.rate is None:
        raise ParameterError("the recording does not say its rate, which its pace hangs on; pass --rate.")
    return recording.rate


def chunks(recording: Recording, block: int, *, loop: bool = False) -> Iterator[Item]:
    """Read a recording as chunks.

    Parameters
    ----------
    recording : Recording
    block : int
        Samples in a chunk; one before a break, and the last one, may be shorter.
    loop : bool
        Whether to begin again at the end, for ever. Indices go on; a gap of no samples, reason ``"loop"``,
        tells that the first sample does not continue the last one.

    Returns
    -------
    iterator of Chunk and Gap
        Each chunk in memory of its own. Samples that the file says are missing are gaps.
    """
    offset, length = 0, recording.n_samples + n_missing(recording)
    while True:
        for item in items(recording, block):
            if isinstance(item, Chunk):
                yield Chunk(item.data.copy(), offset + item.start)
            else:
                yield Gap(offset + item.start, item.n_samples, item.reason)
        if not loop:
            return
        offset += length
        yield Gap(offset, 0, "loop")


def paced(
    recording: Recording,
    block: int,
    *,
    speed: float = 1.0,
    loop: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Item]:
    """Read a recording as chunks, each when its last sample would have been taken.

    Parameters
    ----------
    recording : Recording
    block : int
        Samples in a chunk.
    speed : float
        2 is twice as fast as real time; 0 does not wait.
    loop : bool
        See `chunks`.
    clock : Clock

    Returns
    -------
    iterator of Chunk and Gap

    Raises
    ------
    ParameterError
        If the rate is not known, or the speed not a number of at least 0.
    """
    return on_schedule(chunks(recording, block, loop=loop), known_rate(recording), speed, clock)


def stream_of(recording: Recording, name: str) -> Stream:
    """Describe the stream that a recording makes."""
    return Stream(name, known_rate(recording), recording.channels, recording.unit, recording.dtype)


def replay(recording: Recording, name: str, block: str, *, speed: float, loop: bool) -> Feed:
    """Return the feed of a recording.

    Parameters
    ----------
    recording : Recording
    name : str
        Of the stream.
    block : str
        See `length_in_samples`.
    speed : float
        At another one than 1 samples have no time of day.
    loop : bool

    Returns
    -------
    Feed

    Raises
    ------
    ParameterError
        If an option cannot be used, or the rate is not known.
    """
    stream = stream_of(recording, name)
    n_samples = length_in_samples(block, stream.rate)
    return Feed(
        stream,
        lambda clock: paced(recording, n_samples, speed=speed, loop=loop, clock=clock),
        None if loop else recording.n_samples,
        speed,
    )
