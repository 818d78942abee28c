"""Samples of the last seconds, and what a screen can show of them.

A column of the screen shows the least and the largest of the samples that fall into it: no peak is lost,
however many samples there are. Column c holds the samples from ``c * width`` on, so what a column shows
does not depend on when it is looked at.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.pages.plotting.columns import decimate
from igbss_stream.pages.plotting.scales import round_up

Array = NDArray[np.float32]

_ALL = slice(None)
_TAIL = 0.01  # of the samples lie below, and as many above, what is taken as the reach of a trace
_PEAKS = 1.3  # for the peaks beyond
_MOST = 0.75  # of the traces keep to their row; the largest ones may reach into the next


class Ring:
    """The last samples of some traces, by their indices in the stream.

    Parameters
    ----------
    n_traces : int
    capacity : int
        Samples that it holds.

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
        """Index of the first sample that is still held."""
        return None if self.stop is None else max(self._first, self.stop - self.capacity)

    def write(self, start: int, x: NDArray[Any]) -> None:
        """Take in samples; what lies between the last ones and them is missing.

        Parameters
        ----------
        start : int
            Index of the first. If it lies before what came last, the ring begins anew.
        x : ndarray of shape (samples, n_traces)
        """
        if self.stop is None or start < self.stop:
            self._first = self.stop = start
        if start > self.stop:
            self.skip(start - self.stop)
        kept = x[-self.capacity :]
        self._put(start + len(x) - len(kept), kept)
        self.stop = start + len(x)

    def skip(self, n_samples: int) -> None:
        """Go on without so many samples."""
        if self.stop is None:
            return
        kept = min(n_samples, self.capacity)
        self._put(self.stop + n_samples - kept, np.full((kept, 1), np.nan, np.float32))
        self.stop += n_samples

    def read(self, start: int, stop: int, step: int = 1, traces: slice | int = _ALL) -> Array:
        """Return samples, NaN where they are missing, not held any more or not there yet.

        Parameters
        ----------
        start, stop : int
            Indices, no more than `capacity` apart.
        step : int
            Takes every so manieth.
        traces : slice or int
            Which; all of them by default.

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

    def _put(self, start: int, x: NDArray[Any]) -> None:
        at = start % self.capacity
        ahead = min(len(x), self.capacity - at)
        self._data[at : at + ahead] = x[:ahead]
        self._data[: len(x) - ahead] = x[ahead:]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a screen that follow each other.

    Parameters
    ----------
    first : int
        Number of the first.
    low, high : ndarray of shape (columns, traces)
    """

    first: int
    low: Array
    high: Array

    @property
    def stop(self) -> int:
        """Number after the last."""
        return self.first + len(self.low)


def columns(ring: Ring, width: int, first: int, stop: int) -> Columns:
    """Return some columns of what a ring holds.

    Parameters
    ----------
    ring : Ring
    width : int
        Samples in a column.
    first, stop : int
        Numbers of the columns.

    Returns
    -------
    Columns
    """
    stop = max(first, stop)
    return Columns(first, *decimate(ring.read(first * width, stop * width), width))


def width_of(span: float, rate: float, n_columns: int) -> int:
    """Return the samples in a column, so that so many seconds take about so many columns."""
    return max(1, round(span * rate / n_columns))


def spacing_of(x: Array) -> float:
    """Return a round number, in the unit of the traces, that keeps most of them apart as rows of a page.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)

    Returns
    -------
    float
        1, 2 or 5 times a power of ten; 1 where nothing moves.
    """
    x = x[np.isfinite(x).all(axis=1)]
    if not len(x):
        return 1.0
    low, high = np.quantile(x, (_TAIL, 1 - _TAIL), axis=0)
    reach = (_PEAKS * (high - low))[high > low]
    return round_up(float(np.quantile(reach, _MOST))) if len(reach) else 1.0


def middles(x: Array) -> Array:
    """Return the median of each trace, over the samples that are there; 0 where there are none.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)

    Returns
    -------
    ndarray of shape (traces,)
    """
    x = x[np.isfinite(x).all(axis=1)]
    return np.median(x, axis=0).astype(np.float32) if len(x) else np.zeros(x.shape[1], np.float32)
