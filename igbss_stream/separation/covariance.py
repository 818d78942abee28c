"""Accumulate the covariance of channels and determine their rank."""

import math
from collections import deque
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream._util.compute_pool import get_n_threads
from igbss_stream.separation.scan import Scan

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 12  # rows whose products are summed at once: a copy of them fits into the cache


class CovarianceSum:
    """Sums of products of channels about the first sample, in a unit near their size.

    Parameters
    ----------
    n_channels : int
    pool : Executor, optional
        Where products are computed; blocks must not change meanwhile. The order of the sums, and with it
        the result, does not depend on the pool.
    """

    def __init__(self, n_channels: int, pool: Executor | None = None) -> None:
        self._products = np.zeros((n_channels, n_channels))
        self._origin: Array | None = None
        self._unit: float | None = None
        self._pool = pool
        self._pending: deque[Future[Array]] = deque()

    def update(self, x: NDArray[Any]) -> None:
        """Add the products of the next block, (samples, channels)."""
        if self._origin is None:
            self._origin = x[0].astype(np.float64)
        if self._unit is None:
            self._unit = _choose_unit(x, self._origin)
        if self._unit is None:
            return  # no channel has moved yet
        if self._pool is None:
            self._products += _sum_products(x, self._origin, self._unit)
            return
        self._pending.append(self._pool.submit(_sum_products, x, self._origin, self._unit))
        self._collect(get_n_threads())

    def get_covariance(self, scan: Scan) -> Array:
        """Return the covariance, in the square of the unit.

        Parameters
        ----------
        scan : Scan
            Of the same samples.
        """
        if self._origin is None:
            raise RuntimeError("the covariance needs samples: update it first")
        if self._unit is None:
            return np.zeros_like(self._products)
        self._collect(0)
        drift = (scan.mean - self._origin) / self._unit
        return np.asarray(self._products / scan.n_seen - np.outer(drift, drift))

    def compute_rank(self, scan: Scan) -> int:
        """Return the number of linearly independent channels, among those that are not flat.

        Eigenvalues of the correlation matrix count if they exceed the rounding of the samples and of the
        sums. Offsets and units do not matter.

        Parameters
        ----------
        scan : Scan
            Of the same samples.
        """
        covariance = self.get_covariance(scan)
        moving = np.setdiff1d(np.arange(len(covariance)), scan.flat)
        if not moving.size:
            return 0
        deviation = np.sqrt(np.diag(covariance)[moving])
        correlation = covariance[np.ix_(moving, moving)] / np.outer(deviation, deviation)
        size = np.maximum(np.abs(scan.low), np.abs(scan.high))[moving] / self._unit
        rounding = max(
            float(np.max(np.finfo(scan.dtype).eps * size / deviation)) ** 2,
            64 * float(np.finfo(np.float64).eps),
        )
        return int(np.sum(np.linalg.eigvalsh(correlation) > len(moving) * rounding))

    def _collect(self, n_left: int) -> None:
        """Add pending products, in order, until this many are left."""
        while len(self._pending) > n_left:
            self._products += self._pending.popleft().result()


def _choose_unit(x: NDArray[Any], origin: Array) -> float | None:
    """Return a power of two near the size of the samples, or None if no channel moves.

    Without a unit, squares would vanish: that of 1e-200 is 0.
    """
    moved = np.maximum(x.max(axis=0) - origin, origin - x.min(axis=0))
    largest = float(moved.max(initial=0.0))
    return float(2.0 ** math.frexp(largest)[1]) if largest > 0 else None


def _sum_products(x: NDArray[Any], origin: Array, unit: float) -> Array:
    """Return the sums of products of channels."""
    products = np.zeros((x.shape[1], x.shape[1]))
    with limit_blas_threads():
        for start in range(0, len(x), _ROWS_AT_ONCE):
            centred = (x[start : start + _ROWS_AT_ONCE] - origin) / unit
            products += centred.T @ centred
    return products
