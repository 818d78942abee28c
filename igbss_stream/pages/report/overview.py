"""Traces of a whole recording in so many columns, however long it is."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Overview:
    """The least and the largest sample of each column, taken in block by block.

    Parameters
    ----------
    n_traces : int
    n_indices : int
        Samples that there are, missing ones too.
    n_columns : int
        At most so many.

    Attributes
    ----------
    width : int
        Samples in a column.
    low, high : ndarray of shape (columns, traces)
        NaN where all samples of a column are missing.
    """

    def __init__(self, n_traces: int, n_indices: int, n_columns: int) -> None:
        self.width = max(1, -(-n_indices // n_columns))
        self._n_indices = n_indices
        shape = (-(-n_indices // self.width), n_traces)
        self.low: Array = np.full(shape, np.nan)
        self.high: Array = np.full(shape, np.nan)

    @property
    def n_columns(self) -> float:
        """How many columns all samples take; the last one may be full in part only."""
        return self._n_indices / self.width

    def update(self, index: int, x: NDArray[Any]) -> None:
        """Take in samples.

        Parameters
        ----------
        index : int
            Of the first of them.
        x : ndarray of shape (samples, traces)
        """
        first, last = index // self.width, (index + len(x) - 1) // self.width
        starts = np.maximum(np.arange(first, last + 1) * self.width - index, 0)
        place = slice(first, last + 1)
        self.low[place] = np.fmin(self.low[place], np.fmin.reduceat(x, starts, axis=0))
        self.high[place] = np.fmax(self.high[place], np.fmax.reduceat(x, starts, axis=0))
