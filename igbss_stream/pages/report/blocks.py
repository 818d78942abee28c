"""Read the samples of an output in blocks that contain no gap."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from igbss_stream.files.gaps import split_at_gaps
from igbss_stream.files.results.series import Series

BLOCK_SIZE = 1 << 19  # values of a series that are read at a time


@dataclass(frozen=True, eq=False)
class SampleBlock:
    """Consecutive samples.

    Parameters
    ----------
    row : int
        Row of the first sample in the file.
    index : int
        Index of the first sample in the recording, where missing samples count.
    sources : ndarray of shape (samples, sources)
    cleaned : ndarray of shape (samples, channels) or None
    after_gap : bool
        Whether the block is the first one of a run.
    """

    row: int
    index: int
    sources: NDArray[Any]
    cleaned: NDArray[Any] | None
    after_gap: bool


def iter_blocks(sources: Series, cleaned: Series | None) -> Iterator[SampleBlock]:
    """Yield all samples in blocks.

    Parameters
    ----------
    sources : Series
    cleaned : Series or None
        Cleaned channels, at the same samples.
    """
    step = max(1, BLOCK_SIZE // max(sources.n_channels, 0 if cleaned is None else cleaned.n_channels))
    for run in split_at_gaps(sources.gaps, sources.n_samples):
        for row in range(run.start, run.stop, step):
            end = min(row + step, run.stop)
            kept = None if cleaned is None else cleaned.read(row, end)
            yield SampleBlock(
                row, run.index + row - run.start, sources.read(row, end), kept, row == run.start
            )
