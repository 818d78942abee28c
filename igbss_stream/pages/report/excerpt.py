"""A few seconds of a recording around a row, without a gap inside."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.report.blocks import spans
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
    for start, stop, missing in spans(contents.gaps, contents.sources.n_samples):
        if start <= row < stop:
            first = max(start, min(row - length // 2, stop - length))
            return Stretch(first, min(stop, first + length), first + missing)
    raise ValueError(f"there is no row {row}")


def whole(contents: Contents) -> Span:
    """Return what all samples run over."""
    rate = contents.sources.rate
    return Span(0, contents.n_indices / rate, "s") if rate else Span(0, contents.n_indices, "samples")


def indices(contents: Contents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of rows, where missing samples count."""
    at = np.array([gap.row for gap in contents.gaps], np.int64)
    lost = np.concatenate([[0], np.cumsum([gap.n_samples for gap in contents.gaps], dtype=np.int64)])
    return np.asarray(rows + lost[np.searchsorted(at, rows, side="right")], np.int64)


def gap_spans(contents: Contents, most: int = 500) -> list[tuple[float, float]]:
    """Return where samples are missing, from and to; the longest ones if there are many."""
    rate = contents.sources.rate or 1.0
    found, missing = [], 0
    for gap in contents.gaps:
        found.append(((gap.row + missing) / rate, (gap.row + missing + gap.n_samples) / rate))
        missing += gap.n_samples
    return sorted(sorted(found, key=lambda gap: gap[0] - gap[1])[:most])
