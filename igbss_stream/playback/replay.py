"""Replay a recording as a stream, at the speed at which it was recorded."""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events
from igbss_stream.files.chunks import iterate_chunks
from igbss_stream.files.gaps import count_missing
from igbss_stream.playback.event_feed import EventFeed
from igbss_stream.playback.pacing import SYSTEM_CLOCK, Clock, Item, PacedStream, pace, parse_length
from igbss_stream.positions import Positions


class Replayable(Protocol):
    """The interface that `replay` needs; `igbss_stream.files.recording.Recording` has it."""

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        ...

    @property
    def rate(self) -> float | None:
        """Sampling rate in Hz, if known."""
        ...

    @property
    def unit(self) -> str | None:
        """Unit of the samples, if known."""
        ...

    @property
    def channels(self) -> tuple[str, ...]:
        """Channel names."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the blocks."""
        ...

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Missing samples, in order."""
        ...

    @property
    def events(self) -> Events:
        """Events, in order."""
        ...

    @property
    def positions(self) -> Positions | None:
        """Positions of the channels, if known."""
        ...

    def read_blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read all samples, n at a time."""
        ...


def get_rate(recording: Replayable) -> float:
    """Return the sampling rate of a recording.

    Raises
    ------
    ParameterError
        If the rate is not known.
    """
    if recording.rate is None:
        raise ParameterError("the recording has no sampling rate; pass --rate.")
    return recording.rate


def read_chunks(recording: Replayable, block: int, *, loop: bool = False) -> Iterator[Item]:
    """Read a recording as chunks.

    Parameters
    ----------
    recording : Replayable
    block : int
        Samples in a chunk; the chunk before a gap and the last chunk may be shorter.
    loop : bool
        Whether to start again at the end, without end. Indices continue; a gap of zero samples with the
        reason ``"loop"`` marks the discontinuity.

    Returns
    -------
    iterator of Chunk and Gap
        Each chunk owns its memory. Missing samples of the file are gaps.
    """
    offset, length = 0, recording.n_samples + count_missing(recording.gaps)
    while True:
        for item in iterate_chunks(recording, block):
            if isinstance(item, Chunk):
                yield Chunk(item.data.copy(), offset + item.start)
            else:
                yield Gap(offset + item.start, item.n_samples, item.reason)
        if not loop:
            return
        offset += length
        yield Gap(offset, 0, "loop")


def read_paced(
    recording: Replayable,
    block: int,
    *,
    speed: float = 1.0,
    loop: bool = False,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[Item]:
    """Read a recording as chunks, each at the time its last sample would have been recorded.

    Parameters
    ----------
    recording : Replayable
    block : int
        Samples in a chunk.
    speed : float
        2 is twice as fast as real time; 0 does not wait.
    loop : bool
        See `read_chunks`.
    clock : Clock

    Returns
    -------
    iterator of Chunk and Gap

    Raises
    ------
    ParameterError
        If the rate is not known, or `speed` is negative or not finite.
    """
    return pace(read_chunks(recording, block, loop=loop), get_rate(recording), speed, clock)


def feed_events(recording: Replayable, *, loop: bool = False) -> EventFeed:
    """Return the events of a recording for its replay; finding them may take reading the samples."""
    period = recording.n_samples + count_missing(recording.gaps)
    return EventFeed(recording.events, period if loop and period else None)


def describe_stream(recording: Replayable, name: str) -> Stream:
    """Return the description of a recording as a stream."""
    return Stream(
        name,
        get_rate(recording),
        recording.channels,
        recording.unit,
        recording.dtype,
        positions=recording.positions,
    )


def replay(recording: Replayable, name: str, block: str, *, speed: float, loop: bool) -> PacedStream:
    """Return a recording as a paced stream.

    Parameters
    ----------
    recording : Replayable
    name : str
        Name of the stream.
    block : str
        See `parse_length`.
    speed : float
        At speeds other than 1, samples have no time of day.
    loop : bool

    Returns
    -------
    PacedStream

    Raises
    ------
    ParameterError
        If an option is invalid, or the rate is not known.
    """
    stream = describe_stream(recording, name)
    n_samples = parse_length(block, stream.rate)
    return PacedStream(
        stream,
        lambda clock: read_paced(recording, n_samples, speed=speed, loop=loop, clock=clock),
        None if loop else recording.n_samples,
        speed,
        feed_events(recording, loop=loop),
    )
