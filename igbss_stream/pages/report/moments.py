"""Moments of samples that come block by block, each block about its own mean: nothing cancels."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Moments:
    """Mean, variance and kurtosis of some traces.

    Parameters
    ----------
    n_traces : int
    """

    def __init__(self, n_traces: int) -> None:
        self.n = 0
        self.mean = np.zeros(n_traces)
        self._second, self._third, self._fourth = np.zeros((3, n_traces))

    def update(self, x: Array) -> None:
        """Take in a block, (samples, traces).

        The sums of powers of deviations of two sets are joined as Pébay has it (Sandia SAND2008-6212).
        """
        n, m = self.n, len(x)
        mean = x.mean(axis=0)
        off = x - mean
        square = off * off
        second, third, fourth = square.sum(0), (square * off).sum(0), (square * square).sum(0)
        total, apart = n + m, mean - self.mean
        step = apart / total
        self._fourth += (
            fourth
            + apart * step**3 * n * m * (n * n - n * m + m * m)
            + 6 * step**2 * (n * n * second + m * m * self._second)
            + 4 * step * (n * third - m * self._third)
        )
        self._third += (
            third + apart * step**2 * n * m * (n - m) + 3 * step * (n * second - m * self._second)
        )
        self._second += second + apart * step * n * m
        self.mean = self.mean + step * m
        self.n = total

    @property
    def variance(self) -> Array:
        """Mean square of the deviations."""
        return np.asarray(self._second / self.n)

    @property
    def kurtosis(self) -> Array:
        """Fourth moment over the square of the second, less 3; NaN where nothing moves."""
        squared = self._second**2
        ratio = np.divide(self._fourth, squared, out=np.full_like(squared, np.nan), where=squared > 0)
        return np.asarray(self.n * ratio - 3)


class CrossMoments:
    """Covariances of some traces with others.

    Parameters
    ----------
    n_first, n_second : int
    """

    def __init__(self, n_first: int, n_second: int) -> None:
        self._n = 0
        self._first, self._second = np.zeros(n_first), np.zeros(n_second)
        self._products = np.zeros((n_first, n_second))

    def update(self, first: Array, second: Array) -> None:
        """Take in a block of both, (samples, traces)."""
        n, m = self._n, len(first)
        means = first.mean(axis=0), second.mean(axis=0)
        apart = means[0] - self._first, means[1] - self._second
        self._products += (first - means[0]).T @ (second - means[1])
        self._products += np.outer(*apart) * (n * m / (n + m))
        self._first = self._first + apart[0] * m / (n + m)
        self._second = self._second + apart[1] * m / (n + m)
        self._n = n + m

    def correlation(self, first: Array, second: Array) -> Array:
        """Return correlations, (first, second); 0 where nothing moves.

        Parameters
        ----------
        first, second : ndarray
            Variances of the traces.
        """
        size = np.sqrt(np.outer(first, second))
        shared = self._products / self._n
        return np.asarray(np.divide(shared, size, out=np.zeros_like(shared), where=size > 0))
