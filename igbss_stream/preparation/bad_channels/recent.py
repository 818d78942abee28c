"""Look back from each sample at those before it, and sort samples by the channels that are missing."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Mask = NDArray[np.bool_]


class RecentSamples:
    """The last samples of a stream, and which of their values are not trusted.

    Parameters
    ----------
    n : int
        Number of samples that are kept.
    n_channels : int
    dtype : dtype
    """

    def __init__(self, n: int, n_channels: int, dtype: DTypeLike) -> None:
        self._n, self._n_known = n, 0
        self._x = np.zeros((n, n_channels), dtype)
        self._untrusted: Mask | None = None  # None if all values are trusted

    def forget(self) -> None:
        """Note that samples are missing."""
        self._n_known = 0

    def add(self, x: NDArray[Any], untrusted: Mask | None) -> None:
        """Add the next samples.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        untrusted : ndarray of shape (samples, channels), or None
            None if all values are trusted.
        """
        n, m = self._n, len(x)
        if untrusted is None and self._untrusted is not None:
            untrusted = np.zeros(x.shape, bool)
        if untrusted is not None:
            self._untrusted = _take_last(n, self._get_untrusted(), untrusted)
            if not self._untrusted.any():
                self._untrusted = None
        if m >= n:
            self._x[:] = x[m - n :]
            self._n_known = n
        else:
            self._x = _take_last(n, self._x, x)
            self._n_known = min(n, self._n_known + m)

    def _get_untrusted(self) -> Mask:
        return np.zeros(self._x.shape, bool) if self._untrusted is None else self._untrusted

    def look_back(self, x: NDArray[Any], untrusted: Mask) -> tuple[Mask, list[NDArray[Any]]]:
        """Return the samples before each of the next ones.

        Parameters
        ----------
        x, untrusted : ndarray of shape (samples, channels)
            The next samples, which are not added.

        Returns
        -------
        is_steady : ndarray of shape (samples,)
            Whether the same channels were not trusted in all of the samples before.
        past : list of ndarray of shape (samples, channels)
            The samples one earlier, two earlier, and so on.
        """
        n, m = self._n, len(x)
        rows, before = np.concatenate((self._x, x)), np.concatenate((self._get_untrusted(), untrusted))
        is_steady = np.ones(m, bool)
        for k in range(1, n + 1):
            is_steady &= (before[n - k : n - k + m] == untrusted).all(axis=1)
        is_steady[: n - self._n_known] = False
        return is_steady, [rows[n - k : n - k + m] for k in range(1, n + 1)]


def _take_last(n: int, before: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return a copy of the last n of some rows, and of those before."""
    return rows[len(rows) - n :].copy() if len(rows) >= n else np.concatenate((before[len(rows) :], rows))


def group_rows(mask: Mask) -> Iterator[tuple[NDArray[np.int_], Mask]]:
    """Yield the rows of a mask that are equal, and what they are."""
    if (mask == mask[0]).all():  # nearly always
        yield np.arange(len(mask)), mask[0]
        return
    patterns, which = np.unique(mask, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(which.ravel() == number), pattern
