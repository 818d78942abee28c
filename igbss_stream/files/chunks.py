"""Read a recording as chunks and gaps, as a stream delivers them."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.files.gaps import get_gap_rows


class Interrupted(Protocol):
    """Samples with gaps; `Recording` implements it."""

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Missing samples, in order."""
        ...

    def read_blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read all samples, n at a time."""
        ...


def iterate_chunks(recording: Interrupted, n: int) -> Iterator[Chunk | Gap]:
    """Read a recording as chunks and gaps that account for every index.

    Parameters
    ----------
    recording : Recording
    n : int
        Largest number of samples in a chunk. A chunk ends at the end of a block of `n` rows and at a gap.

    Returns
    -------
    iterator of Chunk and Gap
        The samples of a chunk are valid until the next item is requested.
    """
    ahead, missing = deque(zip(get_gap_rows(recording.gaps), recording.gaps, strict=True)), 0
    for start, block in recording.read_blocks(n):
        done = 0
        while ahead and ahead[0][0] < start + len(block):
            row, gap = ahead.popleft()
            if row > start + done:
                yield Chunk(block[done : row - start], start + done + missing)
                done = row - start
            yield gap
            missing += gap.n_samples
        yield Chunk(block[done:], start + done + missing)
