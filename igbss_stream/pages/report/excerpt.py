"""A few seconds of a recording around a row, without a gap inside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.gaps import get_gap_rows, split_at_gaps
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.overview import Overview
from igbss_stream.pages.report.plots import Span, Trace

SECONDS = 10.0
_SAMPLES = 2000  # where no rate is known
_MOST_SAMPLES = 1 << 17
_COLUMNS = 1500


@dataclass(frozen=True)
class Stretch:
    """Samples that follow each other.

    Parameters
    ----------
    start, stop : int
        The first row and the row after the last.
    index : int
        Of the first, where missing samples count.
    """

    start: int
    stop: int
    index: int

    def span(self, rate: float | None) -> Span:
        """Return what it runs over."""
        first, last = self.index, self.index + self.stop - self.start
        return Span(first / rate, last / rate, "s") if rate else Span(first, last, "samples")

    def trace(self, x: NDArray[Any], kind: str = "band") -> Trace:
        """Return the trace of its samples, (samples,)."""
        columns = Overview(1, len(x), _COLUMNS)
        columns.update(0, np.asarray(x, np.float64)[:, None])
        return Trace(columns.low[:, 0], columns.high[:, 0], columns.n_columns, kind)


def around(contents: Contents, row: int) -> Stretch:
    """Return the stretch around a row, as long as `SECONDS` if no gap cuts it.

    Parameters
    ----------
    contents : Contents
    row : int
    """
    rate = contents.sources.rate
    length = min(_SAMPLES if not rate else max(2, round(SECONDS * rate)), _MOST_SAMPLES)
    for run in split_at_gaps(contents.gaps, contents.sources.n_samples):
        if run.start <= row < run.stop:
            first = max(run.start, min(row - length // 2, run.stop - length))
            return Stretch(first, min(run.stop, first + length), run.index + first - run.start)
    raise ValueError(f"there is no row {row}")


def whole(contents: Contents) -> Span:
    """Return what all samples run over."""
    rate = contents.sources.rate
    return Span(0, contents.n_indices / rate, "s") if rate else Span(0, contents.n_indices, "samples")


def indices(contents: Contents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of rows, where missing samples count."""
    at = np.array(get_gap_rows(contents.gaps), np.int64)
    lost = np.concatenate([[0], np.cumsum([gap.n_samples for gap in contents.gaps], dtype=np.int64)])
    return np.asarray(rows + lost[np.searchsorted(at, rows, side="right")], np.int64)


def gap_spans(contents: Contents, most: int = 500) -> list[tuple[float, float]]:
    """Return where samples are missing, from and to; the longest ones if there are many."""
    rate = contents.sources.rate or 1.0
    found = [(gap.start / rate, gap.stop / rate) for gap in contents.gaps]
    return sorted(sorted(found, key=lambda gap: gap[0] - gap[1])[:most])
