"""The spectrum of a source, from what of it is there, or of many, from samples that come block by block."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from igbss_stream._util.runs import split_runs

Array = NDArray[np.float64]

_RESOLUTION = 0.5  # Hz, about: segments of two seconds
_SHORTEST, _LONGEST = 8, 4096  # samples of a segment of spectra that grow
_UNRATED = 512  # samples of a segment where no rate is known


def spectrum(x: NDArray[np.floating], rate: float) -> tuple[Array, Array]:
    """Return the power spectral density by Welch's method, over all that lies between gaps.

    Parameters
    ----------
    x : ndarray of shape (samples,)
        NaN is what is missing.
    rate : float
        In Hz.

    Returns
    -------
    frequency : ndarray
        In Hz, without 0.
    density : ndarray
        In the square of the unit a Hz. Both are empty if no stretch is as long as a segment.
    """
    segment = round(rate / _RESOLUTION)
    whole = [run for run in _runs(x) if len(run) >= segment]
    if not whole or segment < 8:
        return np.empty(0), np.empty(0)
    found = [signal.welch(run, rate, nperseg=segment, detrend="linear")[1] for run in whole]
    frequency = np.fft.rfftfreq(segment, 1 / rate)
    density = np.average(found, axis=0, weights=[len(run) for run in whole])
    return np.asarray(frequency[1:], np.float64), np.asarray(density[1:], np.float64)


def _runs(x: NDArray[np.floating]) -> Iterator[Array]:
    """Yield the stretches of samples between those that are missing."""
    for start, stop in split_runs(np.isfinite(x), True):
        yield np.asarray(x[start:stop], np.float64)


class GrowingSpectra:
    """Power spectral densities by Welch's method, the same however the samples are cut into blocks.

    Parameters
    ----------
    n_traces : int
    rate : float or None
        In Hz. If none is known, frequencies are in cycles a sample.

    Attributes
    ----------
    n_segments : int
        How many were averaged until now.
    """

    def __init__(self, n_traces: int, rate: float | None) -> None:
        self.n_segments = 0
        self._rate = rate or 1.0
        wanted = round(rate / _RESOLUTION) if rate else _UNRATED
        self._length = max(_SHORTEST, min(wanted, _LONGEST))
        self._hop = self._length - self._length // 2
        self._rest: Array = np.empty((0, n_traces))
        self._sum = np.zeros((self._length // 2 + 1, n_traces))

    def update(self, x: NDArray[Any]) -> None:
        """Take in the samples that follow, (samples, traces)."""
        held = np.concatenate([self._rest, np.asarray(x, np.float64)])
        n = max(0, (len(held) - self._length) // self._hop + 1)
        if n:
            used = held[: (n - 1) * self._hop + self._length]
            density = signal.welch(
                used,
                self._rate,
                nperseg=self._length,
                noverlap=self._length - self._hop,
                detrend="linear",
                axis=0,
            )[1]
            self._sum += n * density
            self.n_segments += n
        self._rest = held[n * self._hop :]

    def cut(self) -> None:
        """Note that what comes next does not continue what came before."""
        self._rest = self._rest[:0]

    def finish(self) -> tuple[Array, Array]:
        """Return frequencies without 0, and densities (frequencies, traces); empty without a segment."""
        if self.n_segments == 0:
            return np.empty(0), np.empty((0, self._sum.shape[1]))
        frequency = np.fft.rfftfreq(self._length, 1 / self._rate)
        return np.asarray(frequency[1:], np.float64), np.asarray(self._sum[1:] / self.n_segments)
