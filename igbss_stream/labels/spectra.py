"""Measure the spectra of sources: how fast they fall, and what stands out of them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_RESOLUTION = 0.5  # Hz: segments of two seconds
_MAINS = (50.0, 60.0)  # Hz
_TOP = 0.45  # of the sampling rate; filters against aliasing take what is above


@dataclass(frozen=True, eq=False)
class SpectrumFacts:
    """Facts of spectra, an entry for each source; NaN where the sampling rate is too low.

    Parameters
    ----------
    high : ndarray
        Mean density from 25 Hz up to the top or 100 Hz, without mains, over that from 4 to 14 Hz.
    low : ndarray
        Share of the power from 1 Hz up that is below 4 Hz.
    mains : ndarray
        Share of the power that is in the peaks at 50 or 60 Hz and their multiples.
    mains_frequency : ndarray
        50 or 60, whichever has the larger peak.
    alpha : ndarray
        Density of the largest peak from 7 to 14 Hz, over the line through its surroundings.
    alpha_frequency : ndarray
        Of that peak, in Hz.
    fall : ndarray
        Exponent of the fall with frequency from 5 to 38 Hz, where the peaks of alpha and mains are left
        out: 0 for white noise, 1 to 2 for brain activity.
    """

    high: Array
    low: Array
    mains: Array
    mains_frequency: Array
    alpha: Array
    alpha_frequency: Array
    fall: Array


def measure_spectra(courses: Array, breaks: Sequence[int], rate: float) -> SpectrumFacts:
    """Return facts of the spectra of sources.

    Parameters
    ----------
    courses : ndarray of shape (samples, sources)
    breaks : sequence of int
        Rows that do not continue the row before.
    rate : float
        In Hz.
    """
    frequency, density = estimate_density(courses, breaks, rate)
    top = min(100.0, _TOP * rate)
    peaks = [_near_mains(frequency, mains) for mains in _MAINS]
    free = ~np.logical_or(*peaks)
    power = np.maximum(density[(frequency >= 1.0)].sum(axis=0), 1e-300)
    shares = np.array([_measure_peak(frequency, density, mains, top) for mains in _MAINS]) / power
    larger = shares.argmax(axis=0)
    alpha, alpha_frequency = _measure_alpha(frequency, density)
    return SpectrumFacts(
        high=_mean(density, free & (frequency >= 25.0) & (frequency <= top))
        / np.maximum(_mean(density, (frequency >= 4.0) & (frequency <= 14.0)), 1e-300),
        low=density[(frequency >= 1.0) & (frequency < 4.0)].sum(axis=0) / power,
        mains=shares.max(axis=0),
        mains_frequency=np.array(_MAINS)[larger],
        alpha=alpha,
        alpha_frequency=alpha_frequency,
        fall=_fit_fall(frequency, density, free & (frequency <= min(38.0, top))),
    )


def estimate_density(courses: Array, breaks: Sequence[int], rate: float) -> tuple[Array, Array]:
    """Return frequencies in Hz and densities (frequencies, sources), by Welch's method with a Hann window.

    Segments of two seconds, or of the longest run without a break if that is shorter, overlap by half.

    Parameters
    ----------
    courses : ndarray of shape (samples, sources)
    breaks : sequence of int
    rate : float
    """
    edges = [0, *breaks, len(courses)]
    longest = int(np.max(np.diff(edges)))
    length = max(2, min(round(rate / _RESOLUTION), longest))
    window = np.hanning(length + 1)[:-1, None] if length > 2 else np.ones((length, 1))
    total, count = np.zeros((length // 2 + 1, courses.shape[1])), 0
    for start, stop in itertools.pairwise(edges):
        for first in range(start, stop - length + 1, max(1, length // 2)):
            segment = courses[first : first + length]
            spectrum = np.fft.rfft((segment - segment.mean(axis=0)) * window, axis=0)
            total += np.abs(spectrum) ** 2
            count += 1
    scale = rate * np.sum(window**2) * max(1, count) / 2
    return np.asarray(np.fft.rfftfreq(length, 1 / rate), np.float64), total / scale


def _mean(density: Array, where: NDArray[np.bool_]) -> Array:
    if not where.any():
        return np.full(density.shape[1], np.nan)
    return np.asarray(density[where].mean(axis=0))


def _near_mains(frequency: Array, mains: float, half_width: float = 1.5) -> NDArray[np.bool_]:
    order = np.maximum(np.round(frequency / mains), 1)
    return np.asarray(np.abs(frequency - order * mains) <= half_width)


def _measure_peak(frequency: Array, density: Array, mains: float, top: float) -> Array:
    """Return the power in the peaks at a frequency and its multiples, above their surroundings."""
    power = np.zeros(density.shape[1])
    for multiple in np.arange(mains, max(top, mains + 0.5), mains):
        peak = np.abs(frequency - multiple) <= 1.5
        around = (np.abs(frequency - multiple) <= 5.0) & ~peak
        if not (peak.any() and around.any() and frequency[-1] >= multiple):
            break
        floor = np.median(density[around], axis=0)
        power += np.maximum(density[peak] - floor, 0.0).sum(axis=0)
    return power


def _measure_alpha(frequency: Array, density: Array) -> tuple[Array, Array]:
    """Return the height of the peak from 7 to 14 Hz over a line in the logarithms, and its frequency."""
    inside = (frequency >= 7.0) & (frequency <= 14.0)
    around = ((frequency >= 3.0) & (frequency < 6.5)) | ((frequency > 15.0) & (frequency <= 25.0))
    if inside.sum() < 2 or around.sum() < 4:
        nothing = np.full(density.shape[1], np.nan)
        return nothing, nothing
    logs = np.log(np.maximum(density, 1e-300))
    basis = np.column_stack([np.ones(len(frequency)), np.log(np.maximum(frequency, 1e-6))])
    line = basis @ np.linalg.lstsq(basis[around], logs[around], rcond=None)[0]
    above = (logs - line)[inside]
    at = above.argmax(axis=0)
    return np.exp(above.max(axis=0)), frequency[inside][at]


def _fit_fall(frequency: Array, density: Array, where: NDArray[np.bool_]) -> Array:
    chosen = where & (frequency >= 5.0) & ~((frequency >= 7.0) & (frequency <= 14.0))
    if chosen.sum() < 4:
        return np.full(density.shape[1], np.nan)
    basis = np.column_stack([np.ones(chosen.sum()), np.log(frequency[chosen])])
    logs = np.log(np.maximum(density[chosen], 1e-300))
    return np.asarray(-np.linalg.lstsq(basis, logs, rcond=None)[0][1])
