"""Compute moments block by block, each block about its own mean to avoid cancellation."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Moments:
    """Mean, variance and kurtosis of traces.

    Parameters
    ----------
    n_traces : int
    """

    def __init__(self, n_traces: int) -> None:
        self.n = 0
        self.mean = np.zeros(n_traces)
        self._second, self._third, self._fourth = np.zeros((3, n_traces))

    def update(self, x: Array) -> None:
        """Add a block of shape (samples, traces).

        The central moments of two sets are combined by the formulas of Pébay (Sandia SAND2008-6212).
        """
        n, m = self.n, len(x)
        mean = x.mean(axis=0)
        deviation = x - mean
        square = deviation * deviation
        second, third, fourth = square.sum(0), (square * deviation).sum(0), (square * square).sum(0)
        total, difference = n + m, mean - self.mean
        step = difference / total
        self._fourth += (
            fourth
            + difference * step**3 * n * m * (n * n - n * m + m * m)
            + 6 * step**2 * (n * n * second + m * m * self._second)
            + 4 * step * (n * third - m * self._third)
        )
        self._third += (
            third + difference * step**2 * n * m * (n - m) + 3 * step * (n * second - m * self._second)
        )
        self._second += second + difference * step * n * m
        self.mean = self.mean + step * m
        self.n = total

    @property
    def variance(self) -> Array:
        """Mean squared deviation."""
        return np.asarray(self._second / self.n)

    @property
    def kurtosis(self) -> Array:
        """Fourth central moment divided by the square of the second, minus 3; NaN for constant traces."""
        squared = self._second**2
        ratio = np.divide(self._fourth, squared, out=np.full_like(squared, np.nan), where=squared > 0)
        return np.asarray(self.n * ratio - 3)


class CrossMoments:
    """Covariances of traces with other traces.

    Parameters
    ----------
    n_first, n_second : int
    """

    def __init__(self, n_first: int, n_second: int) -> None:
        self._n = 0
        self._first, self._second = np.zeros(n_first), np.zeros(n_second)
        self._products = np.zeros((n_first, n_second))

    def update(self, first: Array, second: Array) -> None:
        """Add a block of both, arrays of shape (samples, traces)."""
        n, m = self._n, len(first)
        means = first.mean(axis=0), second.mean(axis=0)
        difference = means[0] - self._first, means[1] - self._second
        self._products += (first - means[0]).T @ (second - means[1])
        self._products += np.outer(*difference) * (n * m / (n + m))
        self._first = self._first + difference[0] * m / (n + m)
        self._second = self._second + difference[1] * m / (n + m)
        self._n = n + m

    def compute_correlation(self, first: Array, second: Array) -> Array:
        """Return the correlations, of shape (first, second); 0 for constant traces.

        Parameters
        ----------
        first, second : ndarray
            Variances of the traces.
        """
        size = np.sqrt(np.outer(first, second))
        covariance = self._products / self._n
        return np.asarray(np.divide(covariance, size, out=np.zeros_like(covariance), where=size > 0))
