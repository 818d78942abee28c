"""What is exported: samples of an output, with rate, names and gaps, and what their numbers are like."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import Progress
from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, printable
from igbss_stream.files.results.series import Series

Array = NDArray[np.float64]

_BLOCK = 1 << 20  # numbers read at a time


@dataclass(frozen=True)
class Content:
    """Samples to be written.

    Parameters
    ----------
    series : Series
    rate : float
        In Hz.
    low, high, deviation : ndarray of shape (channels,)
        In the unit of the series.
    progress : callable, optional
        Told how far the samples are read, each time they are.
    """

    series: Series
    rate: float
    low: Array
    high: Array
    deviation: Array
    progress: Progress | None = None

    @classmethod
    def of(cls, series: Series, rate: float | None, progress: Progress | None = None) -> "Content":
        """Look through the samples.

        Parameters
        ----------
        series : Series
        rate : float, optional
            Goes before that of the series.
        progress : callable, optional
            Told how far it is.

        Raises
        ------
        ParameterError
            If no rate is known, or it is none.
        InputError
            If samples are not finite.
        """
        known = series.rate if rate is None else rate
        if known is None:
            raise ParameterError(
                f"{series.what} does not say its rate, which the format needs; pass --rate."
            )
        if not 0 < known < math.inf:
            raise ParameterError(f"--rate must be a number of Hz above 0. Got {known} instead.")
        return cls(series, float(known), *_extremes(series, progress), progress)

    @property
    def seconds(self) -> float:
        """How long it is, gaps not counted."""
        return float(self.series.n_samples / self.rate)

    def read_blocks(self, factor: float) -> Iterator[tuple[slice, Array]]:
        """Yield places and samples in float64, (samples, channels), multiplied by a factor."""
        for start, block in self.series.read_blocks(max(1, _BLOCK // self.series.n_channels)):
            yield slice(start, start + len(block)), block.astype(np.float64) * factor
            if self.progress is not None:
                self.progress("writing", start + len(block), self.series.n_samples)


@dataclass(frozen=True)
class Rounding:
    """How far written numbers are from the samples.

    Parameters
    ----------
    share : float
        Largest error as a share of the channel's standard deviation; 0 where no channel moves.
    channel : str
        Where that is.
    """

    share: float
    channel: str

    @classmethod
    def of(cls, error: Array, deviation: Array, names: tuple[str, ...]) -> "Rounding":
        """Return the worst of the largest errors of channels."""
        share = np.divide(error, deviation, out=np.zeros_like(error), where=deviation > 0)
        worst = int(np.argmax(share))
        return cls(float(share[worst]), names[worst])


@dataclass(frozen=True)
class Written:
    """What became of an export.

    Parameters
    ----------
    numbers : str
        What numbers are stored as.
    rounding : Rounding
    notes : tuple of str
        What is not as in the output.
    """

    numbers: str
    rounding: Rounding
    notes: tuple[str, ...]


def gap_text(gap: Gap) -> str:
    """Return what stands in the file where samples are missing; `igbss_stream.ingest` reads it again."""
    if gap.n_samples == 0:
        return f"gap: unknown number of samples missing ({printable(gap.reason)})"
    return f"gap: {gap.n_samples} samples missing"


def _extremes(series: Series, progress: Progress | None) -> tuple[Array, Array, Array]:
    """Return the least and the largest sample of each channel, and its standard deviation."""
    low, high = np.full(series.n_channels, np.inf), np.full(series.n_channels, -np.inf)
    origin: NDArray[Any] | None = None
    total, squares = np.zeros(series.n_channels), np.zeros(series.n_channels)
    for start, block in series.read_blocks(max(1, _BLOCK // series.n_channels)):
        x = block.astype(np.float64)
        if not np.isfinite(x).all():
            row, channel = np.argwhere(~np.isfinite(x))[0]
            raise InputError(
                f"{series.what} has {x[row, channel]} at sample {start + row} of "
                f"{printable(series.channels[channel])}, which the format cannot hold."
            )
        low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
        origin = x[0].copy() if origin is None else origin
        x -= origin
        total += x.sum(axis=0)
        squares += np.einsum("ij,ij->j", x, x)
        if progress is not None:
            progress("looking through", start + len(x), series.n_samples)
    mean = total / series.n_samples
    return low, high, np.sqrt(np.maximum(squares / series.n_samples - mean**2, 0.0))
