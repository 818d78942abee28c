"""Convert gaps between rows of a file and indices of a stream.

A file stores no rows for missing samples, but they count in the indices of a stream. Row 0 has index 0;
each gap shifts the indices of the rows after it by its number of missing samples.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.chunk import Gap

LONGEST_GAP = 1 << 40
"""Most samples of a gap: 35 years at 1 kHz. A larger number follows from a damaged counter or timestamp."""


@dataclass(frozen=True, slots=True)
class Run:
    """Rows without a gap inside.

    Parameters
    ----------
    start, stop : int
        First row, and the row after the last.
    index : int
        Index of the first row.
    """

    start: int
    stop: int
    index: int


def make_gaps(places: Iterable[tuple[int, int, str]]) -> tuple[Gap, ...]:
    """Return gaps that precede given rows. One that is longer than any has an unknown length, 0.

    Parameters
    ----------
    places : iterable of (row, n_samples, reason)
        In order: the row after the gap, and the other fields of `Gap`.
    """
    gaps, missing = [], 0
    for row, n_stated, reason in places:
        n_samples = n_stated if n_stated <= LONGEST_GAP else 0
        gaps.append(Gap(row + missing, n_samples, reason))
        missing += n_samples
    return tuple(gaps)


def merge_losses(lost: Iterable[tuple[int, int]], gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return the gaps that a counter and the times of a recording show; where both do, the longer is right.

    Parameters
    ----------
    lost : iterable of (row, n_samples)
        The rows after missing samples, as the counter shows them; 0 for an unknown number.
    gaps : iterable of Gap
        As the recording states them.
    """
    found = {row: (n, "missing" if n else "counter restarted") for row, n in lost}
    gaps = tuple(gaps)
    for row, gap in zip(get_gap_rows(gaps), gaps, strict=True):
        near = next((r for r in (row, row - 1, row + 1) if r in found), row)
        if gap.n_samples >= found.get(near, (0, ""))[0]:
            found[near] = gap.n_samples, gap.reason
    return make_gaps((row, n, reason) for row, (n, reason) in sorted(found.items()))


def get_gap_rows(gaps: Iterable[Gap]) -> list[int]:
    """Return the row after each gap."""
    rows, missing = [], 0
    for gap in gaps:
        rows.append(gap.start - missing)
        missing += gap.n_samples
    return rows


def get_row(gaps: Iterable[Gap], index: int) -> int:
    """Return the number of rows before an index of a stream."""
    return index - sum(max(0, min(gap.start + gap.n_samples, index) - gap.start) for gap in gaps)


def get_rows(gaps: Sequence[Gap], indices: ArrayLike) -> NDArray[np.float64]:
    """Return the rows of indices, with their fractions; an index in a gap has the row after the gap.

    Parameters
    ----------
    gaps : sequence of Gap
        In order.
    indices : array of shape (n,)
    """
    at = np.asarray(indices, np.float64)
    starts = np.array([gap.start for gap in gaps], np.float64)
    missing = _count_missing(gaps)
    before = np.searchsorted(starts, at, side="right")  # gaps that begin at or before the index
    rows = np.asarray(at - missing[before], np.float64)
    if len(gaps):
        first = np.array(get_gap_rows(gaps), np.float64)[np.maximum(before - 1, 0)]
        rows = np.where(before > 0, np.maximum(rows, first), rows)
    return rows


def get_indices(gaps: Sequence[Gap], rows: ArrayLike) -> NDArray[np.float64]:
    """Return the indices of rows, with their fractions.

    Parameters
    ----------
    gaps : sequence of Gap
        In order.
    rows : array of shape (n,)
    """
    at = np.asarray(rows, np.float64)
    missing = _count_missing(gaps)
    return np.asarray(at + missing[np.searchsorted(get_gap_rows(gaps), at, side="right")], np.float64)


def count_missing(gaps: Iterable[Gap]) -> int:
    """Return the number of missing samples."""
    return sum(gap.n_samples for gap in gaps)


def split_at_gaps(gaps: Sequence[Gap], n_samples: int) -> list[Run]:
    """Return the runs between the gaps of a recording; a run may be empty.

    Parameters
    ----------
    gaps : sequence of Gap
        In order.
    n_samples : int
        Number of rows.
    """
    runs, start, missing = [], 0, 0
    for gap, row in zip(gaps, get_gap_rows(gaps), strict=True):
        stop = max(start, min(row, n_samples))  # also if a damaged file lists gaps in another order
        runs.append(Run(start, stop, start + missing))
        start, missing = stop, missing + gap.n_samples
    return [*runs, Run(start, n_samples, start + missing)]


def _count_missing(gaps: Sequence[Gap]) -> NDArray[np.float64]:
    """Return the number of missing samples before the first gap and after each."""
    return np.concatenate([[0.0], np.cumsum([gap.n_samples for gap in gaps], dtype=np.float64)])
