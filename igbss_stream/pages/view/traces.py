"""Store the samples of the last seconds and reduce them to the columns of a screen.

A column of the screen shows the smallest and the largest of its samples, so that no peak is lost. Column c
starts at sample ``c * width``, so its content does not depend on the time of display.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.plotting.columns import decimate
from igbss_stream.pages.plotting.scales import round_up

Array = NDArray[np.float32]

_ALL = slice(None)
_TAIL = 0.01  # share of the samples below, and above, the range of a trace
_PEAKS = 1.3  # factor of the range, to leave room for peaks
_SHARE = 0.75  # of the traces fit in their row; the largest ones may overlap the next row


class Ring:
    """Ring buffer of the last samples of traces, addressed by index in the stream.

    Parameters
    ----------
    n_traces : int
    capacity : int
        Number of samples.

    Attributes
    ----------
    stop : int or None
        Index after the last sample; None while it is empty.
    """

    def __init__(self, n_traces: int, capacity: int) -> None:
        self.n_traces, self.capacity = n_traces, capacity
        self.stop: int | None = None
        self._first = 0
        self._data: Array = np.full((capacity, n_traces), np.nan, np.float32)

    @property
    def start(self) -> int | None:
        """Index of the first sample in the buffer."""
        return None if self.stop is None else max(self._first, self.stop - self.capacity)

    def write(self, start: int, x: NDArray[Any]) -> None:
        """Add samples; samples between the last ones and these are missing.

        Parameters
        ----------
        start : int
            Index of the first sample. If it is before the end of the last ones, the buffer is cleared.
        x : ndarray of shape (samples, n_traces)
        """
        if self.stop is None or start < self.stop:
            self._first = self.stop = start
        if start > self.stop:
            self.skip(start - self.stop)
        last = x[-self.capacity :]
        self._store(start + len(x) - len(last), last)
        self.stop = start + len(x)

    def skip(self, n_samples: int) -> None:
        """Add missing samples."""
        if self.stop is None:
            return
        last = min(n_samples, self.capacity)
        self._store(self.stop + n_samples - last, np.full((last, 1), np.nan, np.float32))
        self.stop += n_samples

    def read(self, start: int, stop: int, step: int = 1, traces: slice | int = _ALL) -> Array:
        """Return samples; NaN where they are missing, overwritten or not yet written.

        Parameters
        ----------
        start, stop : int
            Indices, at most `capacity` apart.
        step : int
            Step between samples.
        traces : slice or int
            Traces to return; all by default.

        Returns
        -------
        ndarray of shape (samples, traces)
        """
        indices = np.arange(start, stop, step)
        if self.stop is None or self.start is None:
            return np.full((len(indices), self.n_traces), np.nan, np.float32)[:, traces]
        out: Array = self._data[indices % self.capacity, traces]
        out[(indices < self.start) | (indices >= self.stop)] = np.nan
        return out

    def _store(self, start: int, x: NDArray[Any]) -> None:
        at = start % self.capacity
        ahead = min(len(x), self.capacity - at)
        self._data[at : at + ahead] = x[:ahead]
        self._data[: len(x) - ahead] = x[ahead:]


@dataclass(frozen=True, slots=True)
class ScreenColumns:
    """Consecutive columns of a screen.

    Parameters
    ----------
    first : int
        Number of the first column.
    low, high : ndarray of shape (columns, traces)
    """

    first: int
    low: Array
    high: Array

    @property
    def stop(self) -> int:
        """Number after the last column."""
        return self.first + len(self.low)


def reduce_to_columns(ring: Ring, width: int, first: int, stop: int) -> ScreenColumns:
    """Reduce samples of a ring to columns.

    Parameters
    ----------
    ring : Ring
    width : int
        Number of samples in a column.
    first, stop : int
        Numbers of the columns.

    Returns
    -------
    ScreenColumns
    """
    stop = max(first, stop)
    return ScreenColumns(first, *decimate(ring.read(first * width, stop * width), width))


def compute_width(span: float, rate: float, n_columns: int) -> int:
    """Return the number of samples in a column to show a time span in about `n_columns` columns."""
    return max(1, round(span * rate / n_columns))


def choose_spacing(x: Array) -> float:
    """Choose a round distance between rows, in the unit of the traces, that separates most of them.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)

    Returns
    -------
    float
        1, 2 or 5 times a power of ten; 1 if all traces are constant.
    """
    x = x[np.isfinite(x).all(axis=1)]
    if not len(x):
        return 1.0
    low, high = np.quantile(x, (_TAIL, 1 - _TAIL), axis=0)
    ranges = (_PEAKS * (high - low))[high > low]
    return round_up(float(np.quantile(ranges, _SHARE))) if len(ranges) else 1.0


def compute_medians(x: Array) -> Array:
    """Return the median of each trace without missing samples; 0 if all are missing.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)

    Returns
    -------
    ndarray of shape (traces,)
    """
    x = x[np.isfinite(x).all(axis=1)]
    return np.median(x, axis=0).astype(np.float32) if len(x) else np.zeros(x.shape[1], np.float32)
