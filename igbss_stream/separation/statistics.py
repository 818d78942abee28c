"""What the samples are like: one pass that finds what makes them unusable and what transforms need."""

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.compute_pool import get_n_threads
from igbss_stream.errors import InputError, printable
from igbss_stream.model.kernels import samples

_LANE = 48  # numbers a row of the kernel has at least: enough for its loop to run on whole registers
_EXCERPT = 1 << 21  # numbers that a structure is learned from: 16 MB
_STRETCHES = 8  # that an excerpt is taken in, at even distances
_KEPT = 1 << 20  # numbers kept for medians: 8 MB
_ROWS_AT_ONCE = 1 << 12  # rows whose products are summed at a time: a copy of them stays in cache
_LARGEST_SHARE = 1e-6  # of the largest number of a type: samples beyond could overflow in sums
_FLAT = 4.0  # a channel is flat if it moves by no more than this many rounding errors
_MEDIAN_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, for a Gaussian


class Survey:
    """Extremes, mean, bad samples and kept rows of samples that come block by block.

    Parameters
    ----------
    names : sequence of str
        Names of the channels, for messages.
    dtype : dtype
        float32 or float64, the type of all blocks.
    n_samples : int
        Number of samples to come; decides which rows are kept.
    keep_rows : bool
        Whether to keep rows, for `median` and `spread`.
    covariance : bool
        Whether to sum up products, for `covariance` and `rank`.
    keep_excerpt : bool
        Whether to keep samples that follow each other, for `excerpt`.
    breaks : sequence of int
        Rows that do not continue the row before them, as after a gap.
    pool : Executor, optional
        Where products are summed up; blocks must then stay as they are.
    """

    def __init__(
        self,
        names: Sequence[str],
        dtype: np.dtype[Any],
        n_samples: int,
        *,
        keep_rows: bool = False,
        covariance: bool = False,
        keep_excerpt: bool = False,
        breaks: Sequence[int] = (),
        pool: Executor | None = None,
    ) -> None:
        self.names = tuple(map(printable, names))
        self.dtype = np.dtype(dtype)
        self.n_seen = 0
        n_channels = len(self.names)
        self._rows = math.ceil(_LANE / n_channels)
        self._lows = np.full(self._rows * n_channels, np.inf, dtype=dtype)
        self._highs = np.full(self._rows * n_channels, -np.inf, dtype=dtype)
        self._totals = np.zeros(self._rows * n_channels)
        self._stride = max(1, math.ceil(n_samples * n_channels / _KEPT)) if keep_rows else 0
        self._kept: list[NDArray[Any]] = []
        self._stretches = _stretches(n_samples, _EXCERPT // n_channels) if keep_excerpt else []
        self._excerpt: list[NDArray[Any]] = []
        self._breaks = np.asarray(breaks, np.int64)
        self._bad = np.zeros(n_channels, dtype=np.int64)
        self._first_bad = np.full(n_channels, -1, dtype=np.int64)
        self._first_value = np.zeros(n_channels)
        self._origin: NDArray[np.float64] | None = None
        self._unit: float | None = None
        self._products = np.zeros((n_channels, n_channels)) if covariance else None
        self._pool = pool
        self._coming: deque[Future[NDArray[np.float64]]] = deque()

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels), C-ordered and of the declared type."""
        n_samples, n_channels = x.shape
        even = n_samples - n_samples % self._rows
        for part, rows in (x[:even], self._rows), (x[even:], 1):
            width = rows * n_channels
            samples.survey(part.reshape(-1), self._lows[:width], self._highs[:width], self._totals[:width])
        if not np.isfinite(self._totals).all():
            self._count_bad(x)
            self._totals[~np.isfinite(self._totals)] = 0.0
        if self._stride:
            self._kept.append(x[-self.n_seen % self._stride :: self._stride].copy())
        for start, stop in self._stretches:
            part = x[max(0, start - self.n_seen) : max(0, stop - self.n_seen)]
            self._excerpt.append(part.astype(np.float64))
        if self._products is not None and not self.n_bad:
            self._add_products(x, self._products)
        self.n_seen += n_samples

    @property
    def low(self) -> NDArray[Any]:
        """Smallest sample of each channel."""
        lows: NDArray[Any] = self._lows.reshape(self._rows, -1).min(axis=0)
        return lows

    @property
    def high(self) -> NDArray[Any]:
        """Largest sample of each channel."""
        highs: NDArray[Any] = self._highs.reshape(self._rows, -1).max(axis=0)
        return highs

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of each channel."""
        means: NDArray[np.float64] = self._totals.reshape(self._rows, -1).sum(axis=0) / self.n_seen
        return means

    @cached_property
    def kept(self) -> NDArray[np.float64]:
        """Rows at even distances over all samples, at most a million numbers."""
        return np.concatenate(self._kept).astype(np.float64)

    @property
    def excerpt(self) -> NDArray[np.float64]:
        """Stretches of samples that follow each other, at most two million numbers."""
        if len(self._excerpt) > 1:  # the pieces would take as much memory again
            self._excerpt = [np.concatenate(self._excerpt)]
        return self._excerpt[0]

    @property
    def excerpt_breaks(self) -> list[int]:
        """Rows of the excerpt that do not continue the row before, in order: breaks and new stretches."""
        at = sum(np.clip(self._breaks - start, 0, stop - start) for start, stop in self._stretches)
        ends = np.cumsum([stop - start for start, stop in self._stretches])
        return [int(row) for row in np.union1d(at, ends) if 0 < row < ends[-1]]

    @property
    def median(self) -> NDArray[np.float64]:
        """Median of each channel over the kept rows."""
        return np.asarray(np.median(self.kept, axis=0))

    @property
    def spread(self) -> float:
        """Typical deviation of a channel from its median, robust against outliers, never zero."""
        deviation = _MEDIAN_TO_DEVIATION * np.median(np.abs(self.kept - self.median), axis=0)
        sparse = deviation == 0  # a channel that mostly rests, such as a trigger
        deviation[sparse] = self.kept[:, sparse].std(axis=0)
        moving = deviation[deviation > 0]
        return float(np.median(moving)) if moving.size else float((self.high - self.low).max())

    @property
    def n_bad(self) -> int:
        """Number of samples that are NaN or infinite."""
        return int(self._bad.sum())

    @property
    def flat(self) -> list[int]:
        """Channels that do not move beyond the rounding of their type."""
        size = np.maximum(np.abs(self.low), np.abs(self.high)).astype(np.float64)
        half_moves = self.high.astype(np.float64) / 2 - self.low.astype(np.float64) / 2  # no overflow
        flat = np.flatnonzero(half_moves <= _FLAT * np.finfo(self.dtype).eps * (size / 2))
        return [int(channel) for channel in flat]

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the channels, in a unit of their own size: the square of 1e-200 would vanish."""
        if self._products is None or self._origin is None:
            raise RuntimeError("a survey without covariance knows neither it nor the rank")
        if self._unit is None:
            return np.zeros_like(self._products)
        self._await_products(self._products, 0)
        drift = (self.mean - self._origin) / self._unit
        return np.asarray(self._products / self.n_seen - np.outer(drift, drift))

    @property
    def rank(self) -> int:
        """Number of channels that are not linear combinations of others, of those that move.

        Eigenvalues of the correlation matrix count where they exceed what the rounding of the samples
        and of the sums can make up: offsets and units do not matter.
        """
        covariance = self.covariance
        moving = np.setdiff1d(np.arange(len(self.names)), self.flat)
        if not moving.size:
            return 0
        deviation = np.sqrt(np.diag(covariance)[moving])
        correlation = covariance[np.ix_(moving, moving)] / np.outer(deviation, deviation)
        size = np.maximum(np.abs(self.low), np.abs(self.high))[moving] / self._unit
        rounding = max(
            float(np.max(np.finfo(self.dtype).eps * size / deviation)) ** 2,
            64 * float(np.finfo(np.float64).eps),
        )
        return int(np.sum(np.linalg.eigvalsh(correlation) > len(moving) * rounding))

    def check(self, *, remedy: str = "") -> None:
        """Refuse what cannot be separated.

        Parameters
        ----------
        remedy : str
            What the caller offers against flat channels, for the message.

        Raises
        ------
        InputError
            If there are fewer than two samples, samples that are not finite or too large to be summed, or
            flat channels.
        """
        if self.n_seen < 2:
            raise InputError(f"separation needs at least 2 samples. Got {self.n_seen} sample(s) instead.")
        if self.n_bad:
            raise InputError(self._bad_message())
        largest = float(np.maximum(np.abs(self.low), np.abs(self.high)).max())
        if largest > _LARGEST_SHARE * float(np.finfo(self.dtype).max):
            raise InputError(
                f"samples go up to {largest:g}, which leaves {self.dtype} no room for sums. "
                "Divide them by a unit that suits them."
            )
        flat = self.flat
        if flat:
            shown = ", ".join(self.names[i] for i in flat[:8]) + (", ..." if len(flat) > 8 else "")
            raise InputError(
                f"{len(flat)} of {len(self.names)} channels are flat (constant): {shown}. "
                f"Leave them out{remedy}."
            )

    def _count_bad(self, x: NDArray[Any]) -> None:
        bad = ~np.isfinite(x)
        self._bad += bad.sum(axis=0)
        new = np.flatnonzero(bad.any(axis=0) & (self._first_bad < 0))
        at = bad[:, new].argmax(axis=0)
        self._first_bad[new] = self.n_seen + at
        self._first_value[new] = x[at, new]

    def _bad_message(self) -> str:
        worst = np.flatnonzero(self._bad)
        told = [
            f"{self.names[i]} has {self._bad[i]}, from sample {self._first_bad[i]} ({self._first_value[i]})"
            for i in worst[:4]
        ]
        more = f"; {len(worst) - 4} more channels" if len(worst) > 4 else ""
        return (
            f"{self.n_bad} samples are NaN or infinite: {'; '.join(told)}{more}. "
            "Interpolate them or cut them out first."
        )

    def _add_products(self, x: NDArray[Any], products: NDArray[np.float64]) -> None:
        """Add the products of a block, now or, in the pool, later: in the same order."""
        if self._origin is None:
            self._origin = x[0].astype(np.float64)
        if self._unit is None:
            self._unit = _unit(x, self._origin)
        if self._unit is None:
            return  # no channel moved yet
        if self._pool is None:
            products += _products(x, self._origin, self._unit)
            return
        self._coming.append(self._pool.submit(_products, x, self._origin, self._unit))
        self._await_products(products, get_n_threads())

    def _await_products(self, products: NDArray[np.float64], n_left: int) -> None:
        """Add products that are under way, until so many are left."""
        while len(self._coming) > n_left:
            products += self._coming.popleft().result()


def _unit(x: NDArray[Any], origin: NDArray[np.float64]) -> float | None:
    """Return a power of two near the size of samples, lest squares vanish; None if none moves."""
    moved = np.maximum(x.max(axis=0) - origin, origin - x.min(axis=0))
    largest = float(moved.max(initial=0.0))
    return float(2.0 ** math.frexp(largest)[1]) if largest > 0 else None


def _products(x: NDArray[Any], origin: NDArray[np.float64], unit: float) -> NDArray[np.float64]:
    """Return the sums of products of channels."""
    products = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), _ROWS_AT_ONCE):
        centred = (x[start : start + _ROWS_AT_ONCE] - origin) / unit
        products += centred.T @ centred
    return products


def _stretches(n_samples: int, n_rows: int) -> list[tuple[int, int]]:
    """Return where stretches of about `n_rows` samples in all begin and end."""
    if n_rows >= n_samples:
        return [(0, n_samples)]
    length = max(1, n_rows // _STRETCHES)
    starts = np.linspace(0, n_samples - length, _STRETCHES).astype(int)
    return [(int(start), int(start) + length) for start in starts]


def survey_of(
    x: NDArray[Any], names: Sequence[str], *, keep_rows: bool = False, covariance: bool = False
) -> Survey:
    """Return the survey of a whole array, (samples, channels)."""
    survey = Survey(names, x.dtype, len(x), keep_rows=keep_rows, covariance=covariance)
    survey.update(x)
    return survey
