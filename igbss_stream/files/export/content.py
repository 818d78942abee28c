"""Collect what is exported: samples of an output, their rate, names, gaps and range."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import Progress
from igbss_stream.errors import InputError, ParameterError, printable
from igbss_stream.files.gaps import get_gap_rows, get_rows
from igbss_stream.files.results.series import Series
from igbss_stream.files.sample_marks import describe_gap

Array = NDArray[np.float64]

_BLOCK = 1 << 20  # values read at a time


@dataclass(frozen=True)
class ExportedMark:
    """An annotation at a row of the exported samples, where gaps take no rows.

    Parameters
    ----------
    row : float
    duration : float
        In seconds of samples.
    text : str
    """

    row: float
    duration: float
    text: str


@dataclass(frozen=True)
class Content:
    """Samples to export.

    Parameters
    ----------
    series : Series
    rate : float
        In Hz.
    low, high, deviation : ndarray of shape (channels,)
        Minimum, maximum and standard deviation of each channel, in the unit of the series.
    progress : callable, optional
        Receives the number of samples read, in each pass.
    """

    series: Series
    rate: float
    low: Array
    high: Array
    deviation: Array
    progress: Progress | None = None

    @classmethod
    def from_series(cls, series: Series, rate: float | None, progress: Progress | None = None) -> "Content":
        """Measure the samples of a series, and return the content.

        Parameters
        ----------
        series : Series
        rate : float, optional
            Sampling rate in Hz; overrides that of the series.
        progress : callable, optional
            Receives the number of samples read.

        Raises
        ------
        ParameterError
            If the rate is unknown or invalid.
        InputError
            If samples are not finite.
        """
        known = series.rate if rate is None else rate
        if known is None:
            raise ParameterError(
                f"{series.what} has no sampling rate, which the format requires; pass --rate."
            )
        if not 0 < known < math.inf:
            raise ParameterError(f"--rate must be a number of Hz above 0. Got {known} instead.")
        return cls(series, float(known), *_measure_samples(series, progress), progress)

    @property
    def start(self) -> datetime | None:
        """Date and time of the first sample, if known, in UTC."""
        return None if self.series.t0 is None else datetime.fromtimestamp(self.series.t0, UTC)

    def list_marks(self) -> list[ExportedMark]:
        """Return the events and the gaps, in the order of their rows."""
        gaps, events = self.series.gaps, self.series.events
        rows = get_rows(gaps, events.index)
        stops = get_rows(gaps, events.index + events.duration * self.rate)
        marks = [
            ExportedMark(float(row), float(stop - row) / self.rate, label)
            for row, stop, label in zip(rows, stops, events.label, strict=True)
        ]
        breaks = [
            ExportedMark(row, 0.0, describe_gap(gap))
            for row, gap in zip(get_gap_rows(gaps), gaps, strict=True)
        ]
        return sorted([*breaks, *marks], key=lambda mark: mark.row)

    @property
    def seconds(self) -> float:
        """Duration without gaps."""
        return float(self.series.n_samples / self.rate)

    def read_blocks(self, factor: float) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, samples) with samples in float64, multiplied by a factor."""
        for start, block in self.series.read_blocks(max(1, _BLOCK // self.series.n_channels)):
            yield slice(start, start + len(block)), block.astype(np.float64) * factor
            if self.progress is not None:
                self.progress("writing", start + len(block), self.series.n_samples)

    def read_all(self, factor: float) -> tuple[Array, Array]:
        """Return all samples, (channels, samples), and the largest error of float32 of each channel.

        Both are multiplied by a factor.
        """
        series = self.series
        data, error = np.empty((series.n_channels, series.n_samples)), np.zeros(series.n_channels)
        for where, block in self.read_blocks(factor):
            data[:, where] = block.T
            error = np.maximum(error, np.abs(block.astype(np.float32) - block).max(axis=0))
        return data, error


@dataclass(frozen=True)
class Rounding:
    """Largest rounding error of the exported numbers.

    Parameters
    ----------
    share : float
        Largest error relative to the standard deviation of the channel; 0 if all channels are constant.
    channel : str
        Channel with the largest error.
    """

    share: float
    channel: str

    @classmethod
    def from_errors(cls, error: Array, deviation: Array, names: tuple[str, ...]) -> "Rounding":
        """Return the largest relative error of all channels."""
        share = np.divide(error, deviation, out=np.zeros_like(error), where=deviation > 0)
        worst = int(np.argmax(share))
        return cls(float(share[worst]), names[worst])


@dataclass(frozen=True)
class ExportReport:
    """Result of an export.

    Parameters
    ----------
    numbers : str
        Number format of the file.
    rounding : Rounding
    notes : tuple of str
        Differences from the output.
    """

    numbers: str
    rounding: Rounding
    notes: tuple[str, ...]


def _measure_samples(series: Series, progress: Progress | None) -> tuple[Array, Array, Array]:
    """Return minimum, maximum and standard deviation of each channel."""
    low, high = np.full(series.n_channels, np.inf), np.full(series.n_channels, -np.inf)
    origin: NDArray[Any] | None = None
    total, squares = np.zeros(series.n_channels), np.zeros(series.n_channels)
    for start, block in series.read_blocks(max(1, _BLOCK // series.n_channels)):
        x = block.astype(np.float64)
        if not np.isfinite(x).all():
            row, channel = np.argwhere(~np.isfinite(x))[0]
            raise InputError(
                f"{series.what} has {x[row, channel]} at sample {start + row} of "
                f"{printable(series.channels[channel])}, which the format cannot store; repair or omit it."
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
