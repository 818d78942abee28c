"""Reduce samples to the columns of a picture.

A column contains the smallest and the largest of its samples, so that no peak is lost.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def decimate(x: NDArray[Any], width: int) -> tuple[Array, Array]:
    """Return the smallest and the largest sample in each column.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)
        Their number is a multiple of `width`. NaN marks missing samples.
    width : int
        Number of samples in a column.

    Returns
    -------
    low, high : ndarray of shape (columns, traces)
        NaN where all samples of a column are missing.
    """
    stacked = x.reshape(-1, width, x.shape[1])
    if width == 1:
        return stacked[:, 0].astype(np.float32), stacked[:, 0].astype(np.float32)
    low, high = np.fmin.reduce(stacked, axis=1), np.fmax.reduce(stacked, axis=1)
    return low.astype(np.float32, copy=False), high.astype(np.float32, copy=False)


class Overview:
    """Traces of a whole recording in a fixed number of columns, updated block by block.

    Parameters
    ----------
    n_traces : int
    n_indices : int
        Number of samples, missing ones included.
    n_columns : int
        Largest number of columns.

    Attributes
    ----------
    width : int
        Number of samples in a column.
    low, high : ndarray of shape (columns, traces)
        NaN where all samples of a column are missing.
    """

    def __init__(self, n_traces: int, n_indices: int, n_columns: int) -> None:
        self.width = max(1, -(-n_indices // n_columns))
        self._n_indices = n_indices
        shape = (-(-n_indices // self.width), n_traces)
        self.low: NDArray[np.float64] = np.full(shape, np.nan)
        self.high: NDArray[np.float64] = np.full(shape, np.nan)

    @property
    def n_columns(self) -> float:
        """Number of columns; the last one may be incomplete."""
        return self._n_indices / self.width

    def update(self, index: int, x: NDArray[Any]) -> None:
        """Add samples.

        Parameters
        ----------
        index : int
            Index of the first sample.
        x : ndarray of shape (samples, traces)
        """
        first, last = index // self.width, (index + len(x) - 1) // self.width
        starts = np.maximum(np.arange(first, last + 1) * self.width - index, 0)
        place = slice(first, last + 1)
        self.low[place] = np.fmin(self.low[place], np.fmin.reduceat(x, starts, axis=0))
        self.high[place] = np.fmax(self.high[place], np.fmax.reduceat(x, starts, axis=0))
