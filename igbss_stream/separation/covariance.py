"""Accumulate the covariance of channels and determine their rank."""

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream._util.compute_pool import get_n_threads
from igbss_stream.separation.scan import Scan

Array = NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 12  # rows whose products are summed at once: a copy of them fits into the cache
_ROWS_OF_ORIGIN = 1 << 10  # rows whose median the products are taken about, at most
_HEADROOM = 2.0**200  # how far samples may exceed the unit: sums of their squares do not overflow
_LEAST_EARLY_ROWS = 1 << 10  # rows of an early rank, at least: it costs a millisecond


class CovarianceSum:
    """Sums of products of channels about an origin near the first samples, in a unit near their size.

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

    def update(self, x: NDArray[Any], scan: Scan) -> None:
        """Add the products of the next block.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        scan : Scan
            Of all samples up to the end of the block; none of them bad or too large.
        """
        if self._origin is None:
            # the first sample alone may be far from all others: their digits would cancel
            self._origin = np.median(x[:_ROWS_OF_ORIGIN].astype(np.float64), axis=0)
        self._adapt_unit(float(np.maximum(scan.high - self._origin, self._origin - scan.low).max()))
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
        with np.errstate(over="ignore", invalid="ignore"):  # of channels that are too large to be separated
            drift = (scan.mean - self._origin) / self._unit
            return np.asarray(self._products / scan.n_seen - np.outer(drift, drift))

    def compute_rank(self, scan: Scan) -> int:
        """Return the number of linearly independent channels, among those that are not flat.

        Directions count if their power exceeds the rounding of the samples, channel by channel, and of the
        sums. Offsets and units do not matter otherwise.

        Parameters
        ----------
        scan : Scan
            Of the same samples.
        """
        covariance = self.get_covariance(scan)
        power = np.diag(covariance)
        moving = np.setdiff1d(np.flatnonzero(power > 0), scan.flat)
        if self._unit is None or not moving.size:
            return 0
        deviation = np.sqrt(power[moving])
        size = np.hypot(scan.mean[moving] / self._unit, deviation)
        rounding = np.maximum(
            float(np.finfo(scan.dtype).eps) * size, 8 * np.sqrt(np.finfo(np.float64).eps) * deviation
        )
        # one factor after the other: their product could vanish
        relative = covariance[np.ix_(moving, moving)] / rounding[:, None] / rounding
        with limit_blas_threads():
            return int(np.sum(np.linalg.eigvalsh(relative) > len(moving)))

    def _adapt_unit(self, largest: float) -> None:
        """Choose a power of two near the size of the samples, unless no channel has moved.

        Without a unit, squares would vanish or overflow: that of 1e-200 is 0.
        """
        if largest == 0 or (self._unit is not None and largest <= _HEADROOM * self._unit):
            return
        before, self._unit = self._unit, 2.0 ** (math.frexp(largest)[1] - 1)
        if before is not None:
            self._collect(0)
            self._products *= (before / self._unit) ** 2

    def _collect(self, n_left: int) -> None:
        """Add pending products, in order, until this many are left."""
        while len(self._pending) > n_left:
            self._products += self._pending.popleft().result()


class EarlyRank:
    """Whether the first samples alone have a rank, which all samples then have too.

    Parameters
    ----------
    names : sequence of str
        Names of the channels.
    dtype : dtype
        float32 or float64, the type of all blocks.
    wanted : int
        The rank.

    Attributes
    ----------
    is_reached : bool
        False also if it is not known, for lack of samples.
    """

    def __init__(self, names: Sequence[str], dtype: np.dtype[Any], wanted: int) -> None:
        self.is_reached = False
        self.wanted = wanted
        self._n_left = max(_LEAST_EARLY_ROWS, 2 * len(names))
        self._scan = Scan(names, dtype)
        self._covariance = CovarianceSum(len(names))

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels); of the blocks after the first samples, nothing."""
        if self._n_left == 0 or not len(x):
            return
        rows = x[: self._n_left]
        self._n_left -= len(rows)
        self._scan.update(rows)
        if not self._scan.is_summable:
            self._n_left = 0
            return
        self._covariance.update(rows, self._scan)
        if self._n_left == 0:
            self.is_reached = self._covariance.compute_rank(self._scan) >= self.wanted


def compute_rank(x: NDArray[Any], names: Sequence[str]) -> int:
    """Return the number of linearly independent channels of an array; see `CovarianceSum.compute_rank`.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        C-ordered float32 or float64; none of the samples bad or too large.
    names : sequence of str
        Names of the channels.
    """
    scan, covariance = Scan(names, x.dtype), CovarianceSum(len(names))
    scan.update(x)
    covariance.update(x, scan)
    return covariance.compute_rank(scan)


def _sum_products(x: NDArray[Any], origin: Array, unit: float) -> Array:
    """Return the sums of products of channels."""
    products = np.zeros((x.shape[1], x.shape[1]))
    with limit_blas_threads():
        for start in range(0, len(x), _ROWS_AT_ONCE):
            centred = (x[start : start + _ROWS_AT_ONCE] - origin) / unit
            products += centred.T @ centred
    return products
