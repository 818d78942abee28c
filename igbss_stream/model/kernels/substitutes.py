"""What kernels on samples do, in NumPy: the same to the bit, for samples too few to import numba.

Each function returns how many multiplications it took; 0 if it did nothing, because more would have been
needed than are affordable.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def survey(affordable: int, x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], total: Array) -> int:
    """Do what `samples.survey` does."""
    taken = 8 * max(1, x.size)
    if taken > affordable:
        return 0
    if len(x):
        with np.errstate(all="ignore"):
            for bound, reach, better in (low, np.fmin, np.less), (high, np.fmax, np.greater):
                reached = reach.reduce(x, axis=0)
                np.copyto(bound, reached, where=better(reached, bound))
            # a sum could add in another order; an accumulation cannot
            total[:] = np.add.accumulate(np.concatenate([total[None], x], dtype=np.float64))[-1]
    return taken


def unmix(
    affordable: int, x: NDArray[Any], unmixing: Array, offset: Array, start: int, out: NDArray[Any]
) -> int:
    """Do what `samples.unmix` does."""
    periods, n_in, n_out = unmixing.shape
    taken: int = max(1, len(x) * n_in * n_out)
    if taken > affordable:
        return 0
    with np.errstate(all="ignore"):
        for first in range(min(periods, len(x))):
            values = np.ascontiguousarray(x[first::periods].T, np.float64)
            sums = np.broadcast_to(offset, (values.shape[1], n_out)).copy()
            for value, weights in zip(values, unmixing[(start + first) % periods], strict=True):
                sums += value[:, None] * weights
            out[first::periods] = sums
    return taken


def unmix_complement(
    affordable: int,
    x: NDArray[Any],
    cut: NDArray[np.int64],
    in_order: bool,
    weight: float,
    out: NDArray[Any],
) -> int:
    """Do what `samples.unmix_complement` does."""
    taken = 4 * max(1, x.size)
    if taken > affordable:
        return 0
    with np.errstate(all="ignore"):
        values = x.T.astype(np.float64)
        sums = np.zeros((4, len(x)))
        whole = len(values) - len(values) % 4
        for i, value in enumerate(values):
            sums[i % 4 if i < whole else 0] += value
        mean = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * weight
        out[:] = (mean - (values if in_order else values[cut])).T
    return taken
