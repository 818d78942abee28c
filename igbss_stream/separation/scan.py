"""Scan samples block by block for extremes, means, bad samples and flat channels."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, printable
from igbss_stream.model.kernels import samples

_MIN_WIDTH = 48  # numbers per row of the kernel, at least: its loop then fills whole registers
_LARGEST_SHARE = 1e-6  # of the largest number of a type: sums of larger samples could overflow
_SMALLEST_MULTIPLE = 1e6  # of the smallest normal number of a type: smaller ranges could lose digits
_MAX_RATIO = 1e100  # of the ranges of two channels: squares of smaller ones could vanish
_FLAT = 4.0  # a channel is flat if its range is no larger than this many rounding errors
_LISTED = 8  # channels that a message names


class Scan:
    """Extremes, means and bad samples of each channel.

    Parameters
    ----------
    names : sequence of str
        Names of the channels, for messages.
    dtype : dtype
        float32 or float64, the type of all blocks.

    Attributes
    ----------
    n_seen : int
        Number of samples scanned.
    """

    def __init__(self, names: Sequence[str], dtype: np.dtype[Any]) -> None:
        self.names = tuple(map(printable, names))
        self.dtype = np.dtype(dtype)
        self.n_seen = 0
        n_channels = len(self.names)
        self._rows = math.ceil(_MIN_WIDTH / n_channels)
        self._lows = np.full(self._rows * n_channels, np.inf, dtype=dtype)
        self._highs = np.full(self._rows * n_channels, -np.inf, dtype=dtype)
        self._totals = np.zeros(self._rows * n_channels)
        self._bad = np.zeros(n_channels, dtype=np.int64)
        self._n_bad_rows = 0
        self._first_bad = np.full(n_channels, -1, dtype=np.int64)
        self._first_value = np.zeros(n_channels)

    def update(self, x: NDArray[Any]) -> None:
        """Scan the next block, (samples, channels), C-ordered and of the declared type."""
        n_samples, n_channels = x.shape
        even = n_samples - n_samples % self._rows
        for part, rows in (x[:even], self._rows), (x[even:], 1):
            width = rows * n_channels
            bounds = self._lows[:width], self._highs[:width], self._totals[:width]
            samples.survey(part.reshape(-1, width), *bounds)
        if not np.isfinite(self._totals).all():
            self._count_bad(x)
            self._totals[~np.isfinite(self._totals)] = 0.0
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

    @property
    def n_bad(self) -> int:
        """Number of samples that are NaN or infinite."""
        return int(self._bad.sum())

    @property
    def is_summable(self) -> bool:
        """Whether all samples are finite, and none so large that sums could overflow."""
        return not self.n_bad and self._largest <= _LARGEST_SHARE * float(np.finfo(self.dtype).max)

    @property
    def flat(self) -> list[int]:
        """Channels whose range does not exceed the rounding of their type."""
        size = np.maximum(np.abs(self.low), np.abs(self.high)).astype(np.float64)
        flat = np.flatnonzero(self._half_range <= _FLAT * np.finfo(self.dtype).eps * (size / 2))
        return [int(channel) for channel in flat]

    def check(self, remedy: str = "") -> None:
        """Refuse samples that cannot be separated; see `Survey.check`."""
        if self.n_seen < 2:
            raise InputError(f"separation needs at least 2 samples. Got {self.n_seen} sample(s) instead.")
        if self.n_bad:
            raise InputError(self._describe_bad())
        if not self.is_summable:
            raise InputError(
                f"samples reach {self._largest:g}, and their sums could overflow {self.dtype}. "
                "Convert them to a larger unit."
            )
        if self.flat:
            raise InputError(self._describe_flat(remedy))
        self._check_ranges()

    @property
    def _largest(self) -> float:
        return float(np.maximum(np.abs(self.low), np.abs(self.high)).max())

    @property
    def _half_range(self) -> NDArray[np.float64]:
        """Half the range of each channel: the whole could overflow. NaN where all samples are infinite."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.high.astype(np.float64) / 2 - self.low.astype(np.float64) / 2)

    def _check_ranges(self) -> None:
        ranges = 2 * self._half_range
        least, most = int(ranges.argmin()), int(ranges.argmax())
        if ranges[least] < _SMALLEST_MULTIPLE * float(np.finfo(self.dtype).tiny):
            raise InputError(
                f"{self.names[least]} spans only {ranges[least]:g}, too little for the digits of "
                f"{self.dtype}. Convert the samples to a smaller unit."
            )
        if ranges[least] < ranges[most] / _MAX_RATIO:
            raise InputError(
                f"{self.names[most]} spans {ranges[most]:g} and {self.names[least]} only "
                f"{ranges[least]:g}. Give the channels units that bring their spans closer together."
            )

    def _describe_flat(self, remedy: str) -> str:
        flat = self.flat
        listed = ", ".join(self.names[i] for i in flat[:_LISTED])
        more = ", ..." if len(flat) > _LISTED else ""
        text = (
            f"{len(flat)} of {len(self.names)} channels are flat (constant): {listed}{more}. "
            f"Leave them out{remedy}."
        )
        steps = np.spacing(np.maximum(np.abs(self.low), np.abs(self.high)))
        rounded = [i for i in flat if self.low[i] < self.high[i] or steps[i] > 1]
        if rounded:
            first = rounded[0]
            text += (
                f" {self.names[first]} is near {self.low[first]:g}, where {self.dtype} rounds by "
                f"{steps[first]:g}: if it is not constant, subtract this offset before the samples are "
                "converted to this type."
            )
        return text

    def _count_bad(self, x: NDArray[Any]) -> None:
        bad = ~np.isfinite(x)
        self._bad += bad.sum(axis=0)
        self._n_bad_rows += int(bad.any(axis=1).sum())
        new = np.flatnonzero(bad.any(axis=0) & (self._first_bad < 0))
        at = bad[:, new].argmax(axis=0)
        self._first_bad[new] = self.n_seen + at
        with np.errstate(invalid="ignore"):  # of signalling NaN
            self._first_value[new] = x[at, new]

    def _describe_bad(self) -> str:
        worst = np.flatnonzero(self._bad)
        listed = "; ".join(
            f"{self.names[i]} has {self._bad[i]}, from sample {self._first_bad[i]} ({self._first_value[i]})"
            for i in worst[:4]
        )
        more = f"; {len(worst) - 4} more channels" if len(worst) > 4 else ""
        left = self.n_seen - self._n_bad_rows
        if left > len(self.names):
            advice = "Interpolate them or cut them out first."
        else:  # too few to learn from
            advice = (
                "Interpolate them, or leave out the channels that have them: without these samples, "
                f"{left} of {self.n_seen} are left for {len(self.names)} channels."
            )
        return f"{self.n_bad} samples are NaN or infinite: {listed}{more}. {advice}"
