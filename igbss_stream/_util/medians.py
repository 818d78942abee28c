"""Medians of many series, faster than `numpy.median`, with the same result to the bit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def compute_medians(x: NDArray[Any]) -> NDArray[Any]:
    """Return the median of each row.

    NumPy selects the two middle numbers of an even count one after the other, which takes several times as
    long as selecting one. Here, the lower one is the largest of those before the upper one.

    Parameters
    ----------
    x : ndarray of shape (series, samples)
        C-ordered, without NaN, at least one sample long, and small enough that two samples can be added.

    Returns
    -------
    ndarray of shape (series,)
    """
    middle, is_odd = divmod(x.shape[1], 2)
    parts = np.partition(x, middle, axis=1)
    upper = parts[:, middle]
    return np.asarray(upper if is_odd else (parts[:, :middle].max(axis=1) + upper) / 2)
