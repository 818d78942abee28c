"""The samples of an output in pieces that have no gap inside."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from igbss_stream.files.recording import Break
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
    for start, stop, missing in spans(sources.gaps, sources.n_samples):
        for row in range(start, stop, step):
            end = min(row + step, stop)
            kept = None if cleaned is None else cleaned.read(row, end)
            yield Piece(row, row + missing, sources.read(row, end), kept, row == start)


def spans(gaps: tuple[Break, ...], n_samples: int) -> Iterator[tuple[int, int, int]]:
    """Yield each stretch between gaps: its first row, the row after its last, and what is missing before.

    Parameters
    ----------
    gaps : tuple of Break
        In their order.
    n_samples : int
    """
    start, missing = 0, 0
    for gap in gaps:
        row = min(gap.row, n_samples)
        if start < row:
            yield start, row, missing
        start, missing = max(start, row), missing + gap.n_samples
    if start < n_samples:
        yield start, n_samples, missing
