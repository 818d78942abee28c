"""Compute the traces of a report: excerpts without gaps, and their position in time."""

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.files.gaps import get_gap_rows, split_at_gaps
from igbss_stream.pages.plotting.columns import Overview
from igbss_stream.pages.report.data import ReportData

Array = NDArray[np.float64]

SECONDS = 10.0
_N_SAMPLES = 2000  # length of an excerpt without a sampling rate
_MAX_SAMPLES = 1 << 17
_MAX_COLUMNS = 1500
_MAX_MARKS = 200  # events in an excerpt
_LABEL = 12  # characters of a label beside its line


@dataclass(frozen=True)
class Span:
    """The time covered by a trace.

    Parameters
    ----------
    start, stop : float
        In seconds, or in samples if the sampling rate is not known.
    unit : str
    """

    start: float
    stop: float
    unit: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Columns of a trace, evenly spaced over a span: the smallest and the largest sample in each.

    Parameters
    ----------
    low, high : ndarray of shape (columns,)
    n_columns : float
        Number of columns in the span; the last one may be incomplete.
    kind : str
        CSS class of the line.
    """

    low: Array
    high: Array
    n_columns: float
    kind: str = "band"


@dataclass(frozen=True)
class TraceExcerpt:
    """A range of consecutive samples.

    Parameters
    ----------
    start, stop : int
        First row, and the row after the last.
    index : int
        Index of the first sample, where missing samples count.
    """

    start: int
    stop: int
    index: int

    def get_span(self, rate: float | None) -> Span:
        """Return the time covered."""
        first, last = self.index, self.index + self.stop - self.start
        return Span(first / rate, last / rate, "s") if rate else Span(first, last, "samples")

    def make_trace(self, x: NDArray[Any], kind: str = "band") -> Trace:
        """Return the trace of its samples, an array of shape (samples,)."""
        columns = Overview(1, len(x), _MAX_COLUMNS)
        columns.update(0, np.asarray(x, np.float64)[:, None])
        return Trace(columns.low[:, 0], columns.high[:, 0], columns.n_columns, kind)


def get_excerpt(data: ReportData, row: int) -> TraceExcerpt:
    """Return the samples around a row, `SECONDS` long unless gaps are nearer.

    Parameters
    ----------
    data : ReportData
    row : int
    """
    rate = data.sources.rate
    length = min(_N_SAMPLES if not rate else max(2, round(SECONDS * rate)), _MAX_SAMPLES)
    for run in split_at_gaps(data.gaps, data.sources.n_samples):
        if run.start <= row < run.stop:
            first = max(run.start, min(row - length // 2, run.stop - length))
            return TraceExcerpt(first, min(run.stop, first + length), run.index + first - run.start)
    raise ValueError(f"row {row} does not exist")


def list_event_marks(data: ReportData, excerpt: TraceExcerpt) -> list[tuple[float, str]]:
    """Return the times and labels of the events in an excerpt, for vertical lines."""
    events, rate = data.events, data.sources.rate or 1.0
    first, last = excerpt.index, excerpt.index + excerpt.stop - excerpt.start
    inside = events[(events.index >= first) & (events.index < last)][:_MAX_MARKS]
    return [(one.index / rate, textwrap.shorten(one.label, _LABEL, placeholder="…")) for one in inside]


def get_full_span(data: ReportData) -> Span:
    """Return the time covered by the whole recording."""
    rate = data.sources.rate
    return Span(0, data.n_indices / rate, "s") if rate else Span(0, data.n_indices, "samples")


def compute_indices(data: ReportData, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Convert rows to indices, where missing samples count."""
    at = np.array(get_gap_rows(data.gaps), np.int64)
    lost = np.concatenate([[0], np.cumsum([gap.n_samples for gap in data.gaps], dtype=np.int64)])
    return np.asarray(rows + lost[np.searchsorted(at, rows, side="right")], np.int64)


def find_gap_spans(data: ReportData, n_max: int = 500) -> list[tuple[float, float]]:
    """Return the start and stop of each gap, or of the longest `n_max` gaps."""
    rate = data.sources.rate or 1.0
    found = [(gap.start / rate, gap.stop / rate) for gap in data.gaps]
    return sorted(sorted(found, key=lambda gap: gap[0] - gap[1])[:n_max])
