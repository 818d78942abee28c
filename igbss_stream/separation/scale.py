"""Estimate the centre and the scale of channels, robustly, from rows at even distances."""

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.medians import compute_medians

_MAX_NUMBERS = 1 << 20  # numbers that are kept: 8 MB
_MEDIAN_TO_DEVIATION = 1.4826  # median absolute deviation to standard deviation, for a Gaussian


class ScaleEstimate:
    """Median and deviation of channels over a sample of the rows.

    Parameters
    ----------
    n_samples : int
        Number of samples to come, which decides the distance of the rows.
    n_channels : int
    """

    def __init__(self, n_samples: int, n_channels: int) -> None:
        self._stride = max(1, math.ceil(n_samples * n_channels / _MAX_NUMBERS))
        self._n_seen = 0
        self._blocks: list[NDArray[Any]] = []

    def update(self, x: NDArray[Any]) -> None:
        """Keep rows of the next block, (samples, channels)."""
        self._blocks.append(x[-self._n_seen % self._stride :: self._stride].copy())
        self._n_seen += len(x)

    @cached_property
    def rows(self) -> NDArray[np.float64]:
        """Rows at even distances over all samples, at most a million numbers."""
        return np.concatenate(self._blocks).astype(np.float64)

    @cached_property
    def median(self) -> NDArray[np.float64]:
        """Median of each channel."""
        return compute_medians(np.ascontiguousarray(self.rows.T))

    @property
    def spread(self) -> float | None:
        """Typical deviation of a channel from its median, robust against outliers; None if none deviates.

        A channel that rests most of the time, such as a trigger, counts with its standard deviation.
        """
        deviation = _MEDIAN_TO_DEVIATION * compute_medians(
            np.abs(np.ascontiguousarray(self.rows.T) - self.median[:, None])
        )
        sparse = deviation == 0
        deviation[sparse] = self.rows[:, sparse].std(axis=0)
        moving = deviation[deviation > 0]
        return float(np.median(moving)) if moving.size else None
