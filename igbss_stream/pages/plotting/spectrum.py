"""Estimate power spectra by Welch's method, from samples with gaps or block by block."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from igbss_stream._util.runs import split_runs

Array = NDArray[np.float64]

_RESOLUTION = 0.5  # Hz, approximately: segments of two seconds
_MIN_LENGTH, _MAX_LENGTH = 8, 4096  # samples in a segment of `SpectrumAverager`
_DEFAULT_LENGTH = 512  # samples in a segment if the sampling rate is not known


def compute_spectrum(x: NDArray[np.floating], rate: float) -> tuple[Array, Array]:
    """Return the power spectral density by Welch's method, averaged over the runs between gaps.

    Parameters
    ----------
    x : ndarray of shape (samples,)
        NaN marks missing samples.
    rate : float
        In Hz.

    Returns
    -------
    frequency : ndarray
        In Hz, without 0.
    density : ndarray
        In the squared unit per Hz. Both are empty if no run is as long as a segment.
    """
    segment = round(rate / _RESOLUTION)
    whole = [run for run in _iter_runs(x) if len(run) >= segment]
    if not whole or segment < 8:
        return np.empty(0), np.empty(0)
    found = [signal.welch(run, rate, nperseg=segment, detrend="linear")[1] for run in whole]
    frequency = np.fft.rfftfreq(segment, 1 / rate)
    density = np.average(found, axis=0, weights=[len(run) for run in whole])
    return np.asarray(frequency[1:], np.float64), np.asarray(density[1:], np.float64)


def _iter_runs(x: NDArray[np.floating]) -> Iterator[Array]:
    """Yield the runs of samples between missing ones."""
    for start, stop in split_runs(np.isfinite(x), True):
        yield np.asarray(x[start:stop], np.float64)


class SpectrumAverager:
    """Average power spectral densities by Welch's method; the result does not depend on the size of blocks.

    Parameters
    ----------
    n_traces : int
    rate : float or None
        In Hz. If None, frequencies are in cycles per sample.

    Attributes
    ----------
    n_segments : int
        Number of segments averaged so far.
    """

    def __init__(self, n_traces: int, rate: float | None) -> None:
        self.n_segments = 0
        self._rate = rate or 1.0
        length = round(rate / _RESOLUTION) if rate else _DEFAULT_LENGTH
        self._length = max(_MIN_LENGTH, min(length, _MAX_LENGTH))
        self._hop = self._length - self._length // 2
        self._rest: Array = np.empty((0, n_traces))
        self._sum = np.zeros((self._length // 2 + 1, n_traces))

    def update(self, x: NDArray[Any]) -> None:
        """Add the next samples, an array of shape (samples, traces)."""
        samples = np.concatenate([self._rest, np.asarray(x, np.float64)])
        n = max(0, (len(samples) - self._length) // self._hop + 1)
        if n:
            used = samples[: (n - 1) * self._hop + self._length]
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
        self._rest = samples[n * self._hop :]

    def end_run(self) -> None:
        """End the current run: the next samples do not continue it."""
        self._rest = self._rest[:0]

    def finish(self) -> tuple[Array, Array]:
        """Return frequencies without 0, and densities (frequencies, traces); empty without a segment."""
        if self.n_segments == 0:
            return np.empty(0), np.empty((0, self._sum.shape[1]))
        frequency = np.fft.rfftfreq(self._length, 1 / self._rate)
        return np.asarray(frequency[1:], np.float64), np.asarray(self._sum[1:] / self.n_segments)
