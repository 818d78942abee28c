"""Compare estimated sources with true ones, for mixtures of known sources."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def standardise(x: ArrayLike) -> NDArray[np.float64]:
    """Return each column with mean 0 and standard deviation 1; a constant column becomes 0."""
    columns = np.asarray(x, dtype=np.float64)
    centred = columns - columns.mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 0, deviation, 1.0))


def match_sources(sources: ArrayLike, truth: ArrayLike) -> NDArray[np.int_]:
    """Return the column of `sources` that matches each column of `truth`; signs are not changed.

    The assignment has the largest sum of correlations, and with it the least squared error of the
    standardised columns.
    """
    from scipy.optimize import linear_sum_assignment

    similar = standardise(truth).T @ standardise(sources)
    return np.asarray(linear_sum_assignment(similar, maximize=True)[1])


def rmse(sources: ArrayLike, truth: ArrayLike) -> float:
    """Return the root mean square error of standardised columns after `match_sources`.

    0 is perfect, sqrt(2) results for unrelated signals, and 2 for an inverted copy.
    """
    gap = standardise(sources)[:, match_sources(sources, truth)] - standardise(truth)
    return float(np.sqrt(np.mean(gap**2)))


def sir(sources: ArrayLike, truth: ArrayLike) -> NDArray[np.float64]:
    """Return the signal to interference ratio of each true source, in dB.

    This is the energy of a matched source that a scaled true source explains, divided by the rest.
    """
    true = standardise(truth)
    matched = standardise(sources)[:, match_sources(sources, truth)]
    share = np.mean(matched * true, axis=0)
    rest = np.mean((matched - share * true) ** 2, axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(share**2 / rest))
