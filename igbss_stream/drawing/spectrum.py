"""The spectrum of a source, from what of it is there."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]

_RESOLUTION = 0.5  # Hz, about: segments of two seconds


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
    there = np.concatenate([[False], np.isfinite(x), [False]])
    edges = np.flatnonzero(np.diff(there))
    for start, stop in edges.reshape(-1, 2):
        yield np.asarray(x[start:stop], np.float64)
