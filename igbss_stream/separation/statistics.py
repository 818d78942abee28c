"""Survey samples in one pass: gather what checks, transforms and structure learning require."""

from collections.abc import Sequence
from concurrent.futures import Executor
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from igbss_stream.separation.covariance import CovarianceSum, EarlyRank, compute_rank
from igbss_stream.separation.excerpt import Excerpt
from igbss_stream.separation.learning_rows import LearningRows
from igbss_stream.separation.scale import ScaleEstimate
from igbss_stream.separation.scan import Scan

Array = NDArray[np.float64]
_T = TypeVar("_T")


class Survey:
    """Statistics of samples that arrive block by block; they do not depend on the size of the blocks.

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
        Whether to sum products of channels, for `covariance`, and for `rank` if no excerpt is kept.
    enough_rank : int, optional
        A rank from which on `rank` need not be exact: if the first samples have it, `rank` returns it, and
        no further products are summed, which costs more than all else. `covariance` is then not available.
    keep_excerpt : bool
        Whether to keep segments of consecutive samples, for `excerpt` and `rank`.
    breaks : sequence of int
        Rows that do not continue the row before them, for example after a gap.
    excluded : sequence of (int, int)
        Start and stop of rows that nothing is learned from: sorted, without overlaps. Only `check`,
        `n_bad`, `low` and `high` include them, because a model is applied to all samples.
    pool : Executor, optional
        Where products are computed; blocks must not change meanwhile.
    """

    def __init__(
        self,
        names: Sequence[str],
        dtype: np.dtype[Any],
        n_samples: int,
        *,
        keep_rows: bool = False,
        covariance: bool = False,
        enough_rank: int | None = None,
        keep_excerpt: bool = False,
        breaks: Sequence[int] = (),
        excluded: Sequence[tuple[int, int]] = (),
        pool: Executor | None = None,
    ) -> None:
        self._scan_of_all = self._scan = Scan(names, dtype)
        self._rows: LearningRows | None = None
        n_channels = len(self.names)
        if len(excluded):
            self._scan, self._rows = Scan(names, dtype), LearningRows(n_samples, excluded, breaks)
            n_samples, breaks = self._rows.n_samples, self._rows.breaks
        self._scale = ScaleEstimate(n_samples, n_channels) if keep_rows else None
        self._covariance = CovarianceSum(n_channels, pool) if covariance else None
        self._early_rank = None if enough_rank is None else EarlyRank(self.names, dtype, enough_rank)
        self._excerpt = Excerpt(n_samples, n_channels, breaks) if keep_excerpt else None

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels), C-ordered and of the declared type."""
        self._scan_of_all.update(x)
        if self._rows is not None:
            x = self._rows.take(x)
            if not len(x):
                return
            self._scan.update(x)
        if self._scale is not None:
            self._scale.update(x)
        if self._excerpt is not None:
            self._excerpt.update(x)
        if self._early_rank is not None:
            self._early_rank.update(x)
        if self._covariance is not None and not self._has_enough_rank and self._scan.is_summable:
            self._covariance.update(x, self._scan)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels, printable."""
        return self._scan.names

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the samples, float32 or float64."""
        return self._scan.dtype

    @property
    def n_seen(self) -> int:
        """Number of samples surveyed, without those that are excluded."""
        return self._scan.n_seen

    @property
    def n_bad(self) -> int:
        """Number of samples that are NaN or infinite."""
        return self._scan_of_all.n_bad

    @property
    def is_summable(self) -> bool:
        """Whether all samples are finite, and none so large that sums could overflow."""
        return self._scan_of_all.is_summable

    @property
    def low(self) -> NDArray[Any]:
        """Smallest sample of each channel."""
        return self._scan_of_all.low

    @property
    def high(self) -> NDArray[Any]:
        """Largest sample of each channel."""
        return self._scan_of_all.high

    @property
    def mean(self) -> Array:
        """Mean of each channel."""
        return self._scan.mean

    @property
    def flat(self) -> list[int]:
        """Channels whose range does not exceed the rounding of their type."""
        return self._scan.flat

    @property
    def median(self) -> Array:
        """Median of each channel over the kept rows."""
        return _require(self._scale, "rows").median

    @property
    def spread(self) -> float:
        """Typical deviation of a channel from its median, robust against outliers; never zero."""
        spread = _require(self._scale, "rows").spread
        return float((self.high - self.low).max()) if spread is None else spread

    @property
    def excerpt(self) -> Array:
        """Segments of consecutive samples, at most two million numbers."""
        return _require(self._excerpt, "excerpt").samples

    @property
    def excerpt_breaks(self) -> list[int]:
        """Rows of the excerpt that do not continue the row before them, sorted."""
        return _require(self._excerpt, "excerpt").breaks

    @property
    def covariance(self) -> Array:
        """Covariance of the channels, in the square of an unknown unit that is near their size."""
        covariance = None if self._has_enough_rank else self._covariance
        return _require(covariance, "covariance").get_covariance(self._scan)

    @property
    def rank(self) -> int:
        """Number of linearly independent channels, among those that are not flat; see `enough_rank`.

        That of the excerpt, if one is kept: a structure that is learned from it cannot have more sources,
        and summing the products of all samples takes longer than reading them.
        """
        if self._early_rank is not None and self._early_rank.is_reached:
            return self._early_rank.wanted
        if self._excerpt is not None:
            return self._rank_of_excerpt
        return _require(self._covariance, "covariance").compute_rank(self._scan)

    @cached_property
    def _rank_of_excerpt(self) -> int:
        return compute_rank(self.excerpt.astype(self.dtype), self.names)

    @property
    def _has_enough_rank(self) -> bool:
        return self._early_rank is not None and self._early_rank.is_reached

    def check(self, *, remedy: str = "") -> None:
        """Refuse samples that cannot be separated.

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
        self._scan_of_all.check(remedy)
        if self._rows is not None:
            self._scan.check(remedy)


def survey_array(
    x: NDArray[Any], names: Sequence[str], *, keep_rows: bool = False, covariance: bool = False
) -> Survey:
    """Return the survey of a whole array, (samples, channels)."""
    survey = Survey(names, x.dtype, len(x), keep_rows=keep_rows, covariance=covariance)
    survey.update(x)
    return survey


def _require(part: _T | None, name: str) -> _T:
    if part is None:
        raise RuntimeError(f"this survey was made without {name}")
    return part
