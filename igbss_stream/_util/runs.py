"""Find runs of equal values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def split_runs(values: NDArray[Any], value: object = None) -> NDArray[np.int64]:
    """Split an array into runs of equal values.

    Parameters
    ----------
    values : array of shape (n,)
        A mask, or other values that can be compared.
    value : object, optional
        Return only the runs of this value. Default: all runs.

    Returns
    -------
    array of shape (runs, 2)
        Start of each run and the index after its end, in order.
    """
    if not len(values):
        return np.empty((0, 2), np.int64)
    edges = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1, [len(values)]])
    runs = np.column_stack([edges[:-1], edges[1:]])
    return runs if value is None else runs[values[runs[:, 0]] == value]
