"""A recording as chunks and gaps: the rows of its file, counted with the samples that are missing.

A file stores no rows for what is missing, a stream counts on. Here indices begin at 0 with the first row,
and each break moves those after it by as many samples as are missing.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.files.recording import Break


class Broken(Protocol):
    """What has samples and places where some are missing; `Recording` is one."""

    @property
    def breaks(self) -> tuple[Break, ...]:
        """Where samples are missing, in order."""
        ...

    def blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read all of it, n samples at a time."""
        ...


def n_missing(recording: Broken) -> int:
    """Return how many samples of a recording are missing."""
    return sum(gap.n_samples for gap in recording.breaks)


def items(recording: Broken, n: int) -> Iterator[Chunk | Gap]:
    """Read a recording as chunks and gaps that account for every index.

    Parameters
    ----------
    recording : Recording
    n : int
        Samples in a chunk at most. A chunk ends where a block of `n` rows does, and at a break.

    Returns
    -------
    iterator of Chunk and Gap
        The samples of a chunk hold good only until the next one is asked for.
    """
    ahead, missing = deque(recording.breaks), 0
    for row, block in recording.blocks(n):
        done = 0
        while ahead and ahead[0].row < row + len(block):
            gap = ahead.popleft()
            if gap.row > row + done:
                yield Chunk(block[done : gap.row - row], row + done + missing)
                done = gap.row - row
            yield Gap(row + done + missing, gap.n_samples, gap.reason)
            missing += gap.n_samples
        yield Chunk(block[done:], row + done + missing)
