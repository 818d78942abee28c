"""The samples of an output in pieces that have no gap inside."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from igbss_stream.files.gaps import split_at_gaps
from igbss_stream.files.results.series import Series

BLOCK = 1 << 19  # numbers of a series that are read at a time


@dataclass(frozen=True, eq=False)
class Piece:
    """Samples that follow each other.

    Parameters
    ----------
    row : int
        Of the first sample.
    index : int
        Of the first sample, where missing ones count.
    sources : ndarray of shape (samples, sources)
    cleaned : ndarray of shape (samples, channels) or None
    after_gap : bool
        Whether they do not continue the piece before.
    """

    row: int
    index: int
    sources: NDArray[Any]
    cleaned: NDArray[Any] | None
    after_gap: bool


def pieces(sources: Series, cleaned: Series | None) -> Iterator[Piece]:
    """Yield all samples, piece by piece.

    Parameters
    ----------
    sources : Series
    cleaned : Series or None
        Channels of the same samples.
    """
    step = max(1, BLOCK // max(sources.n_channels, 0 if cleaned is None else cleaned.n_channels))
    for run in split_at_gaps(sources.gaps, sources.n_samples):
        for row in range(run.start, run.stop, step):
            end = min(row + step, run.stop)
            kept = None if cleaned is None else cleaned.read(row, end)
            yield Piece(row, run.index + row - run.start, sources.read(row, end), kept, row == run.start)
