"""Columns of a picture: the least and the largest of the samples in each, so that no peak is lost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def decimate(x: NDArray[Any], width: int) -> tuple[Array, Array]:
    """Return the least and the largest of every so many samples.

    Parameters
    ----------
    x : ndarray of shape (samples, traces)
        A whole number of columns. NaN is what is missing.
    width : int
        Samples in a column.

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
