"""How close separated sources come to known ones; for mixtures made with known sources only."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def standardised(x: ArrayLike) -> NDArray[np.float64]:
    """Return each column with mean 0 and standard deviation 1; a constant column becomes 0."""
    columns = np.asarray(x, dtype=np.float64)
    centred = columns - columns.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def match(sources: ArrayLike, truth: ArrayLike) -> NDArray[np.int_]:
    """Return the column of `sources` that goes with each column of `truth`, signs as delivered.

    The assignment with the largest sum of correlations, which is the one with the least squared error
    of the standardised columns.
    """
    from scipy.optimize import linear_sum_assignment

    similar = standardised(truth).T @ standardised(sources)
    return np.asarray(linear_sum_assignment(similar, maximize=True)[1])


def rmse(sources: ArrayLike, truth: ArrayLike) -> float:
    """Return the root mean square error of standardised columns after `match`.

    0 is perfect; sqrt(2) is what unrelated signals give; 2 is a perfect copy upside down.
    """
    gap = standardised(sources)[:, match(sources, truth)] - standardised(truth)
    return float(np.sqrt(np.mean(gap**2)))


def sir(sources: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return the signal to interference ratio of each true source, in dB.

    The energy of a matched source that the true one explains by scaling, over the rest.
    """
    wanted = standardised(truth)
    matched = standardised(sources)[:, match(sources, truth)]
    share = np.mean(matched * wanted, axis=0)
    rest = np.mean((matched - share * wanted) ** 2, axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(share**2 / rest))
