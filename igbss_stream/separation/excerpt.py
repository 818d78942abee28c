"""Keep an excerpt of the samples, from which a structure is learned."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_NUMBERS = 1 << 21  # numbers in an excerpt: 16 MB
_N_SEGMENTS = 8  # segments that a long recording contributes, at even distances


class Excerpt:
    """Segments of consecutive samples, at even distances.

    Parameters
    ----------
    n_samples : int
        Number of samples to come, which decides the segments.
    n_channels : int
    breaks : sequence of int
        Rows that do not continue the row before them, for example after a gap.
    """

    def __init__(self, n_samples: int, n_channels: int, breaks: Sequence[int] = ()) -> None:
        self._segments = _choose_segments(n_samples, _MAX_NUMBERS // n_channels)
        self._breaks = np.asarray(breaks, np.int64)
        self._n_seen = 0
        self._blocks: list[NDArray[np.float64]] = []

    def update(self, x: NDArray[Any]) -> None:
        """Keep what the next block, (samples, channels), contributes."""
        for start, stop in self._segments:
            part = x[max(0, start - self._n_seen) : max(0, stop - self._n_seen)]
            self._blocks.append(part.astype(np.float64))
        self._n_seen += len(x)

    @property
    def samples(self) -> NDArray[np.float64]:
        """The segments, joined; at most two million numbers."""
        if len(self._blocks) > 1:  # keeping the blocks would double the memory
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]

    @property
    def breaks(self) -> list[int]:
        """Rows of `samples` that do not continue the row before: breaks and starts of segments, sorted."""
        at = sum(np.clip(self._breaks - start, 0, stop - start) for start, stop in self._segments)
        ends = np.cumsum([stop - start for start, stop in self._segments])
        return [int(row) for row in np.union1d(at, ends) if 0 < row < ends[-1]]


def _choose_segments(n_samples: int, n_rows: int) -> list[tuple[int, int]]:
    """Return start and stop of segments of about `n_rows` samples in total."""
    if n_rows >= n_samples:
        return [(0, n_samples)]
    length = max(1, n_rows // _N_SEGMENTS)
    starts = np.linspace(0, n_samples - length, _N_SEGMENTS).astype(int)
    return [(int(start), int(start) + length) for start in starts]
