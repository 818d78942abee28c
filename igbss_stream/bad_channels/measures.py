"""Measure the channels of a window: amplitude, noise, hum, and likeness to the other channels.

All measures are robust against short artefacts, or are formed within a window, so that an artefact affects
one window only. They have the unit of the samples, or are ratios.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAINS = (50.0, 60.0)
"""Frequencies of the mains, in Hz."""

_QUARTILES_TO_DEVIATION = 0.7413  # distance of the quartiles to standard deviation, for a Gaussian
_GAIN_OF_CURVATURE = np.sqrt(6.0)  # of white noise by x[t - 1] - 2 x[t] + x[t + 1]
_BESIDE = 4.0  # Hz from the mains, where there is no hum
_NYQUIST_SHARE = 0.45  # of the rate: the highest frequency that is measured
_ROUNDING = 4.0  # rounding errors within which a channel is constant, as in a survey


@dataclass(frozen=True, eq=False)
class WindowMeasures:
    """Measures of the channels of a window.

    Parameters
    ----------
    is_flat : ndarray of shape (channels,)
        Whether a channel is constant, within the rounding of its type.
    spread : ndarray of shape (channels,)
        Robust standard deviation, after removal of a straight line.
    noise : ndarray of shape (channels,)
        Standard deviation of the white noise that would explain the fastest changes, without hum.
    hum : ndarray of shape (channels,)
        Amplitude at the frequency of the mains, above that of the frequencies beside it.
    correlation : ndarray of shape (channels, channels)
        Correlation of the channels; 0 for flat ones.
    difference : ndarray of shape (channels, channels)
        Power of the difference of two channels, as a share of the smaller of their powers, both of the
        changes from sample to sample: slow waves are alike far from each other. Infinite for flat channels
        and on the diagonal.
    """

    is_flat: NDArray[np.bool_]
    spread: Array
    noise: Array
    hum: Array
    correlation: Array
    difference: Array


def measure_window(x: NDArray[Any], rate: float | None = None) -> WindowMeasures:
    """Measure the channels of a window.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        Finite samples, at least three.
    rate : float, optional
        Sampling rate in Hz. Without it, hum is not measured.

    Returns
    -------
    WindowMeasures
    """
    eps = float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0
    low, high = x.min(axis=0).astype(np.float64), x.max(axis=0).astype(np.float64)
    is_flat = high - low <= _ROUNDING * eps * np.maximum(np.abs(low), np.abs(high))
    level = remove_lines(x.astype(np.float64))
    hum, waves = _measure_hum(level, rate)
    covariance, of_changes = level.T @ level, np.diff(level, axis=0)
    variance = np.where(is_flat, 0.0, np.diag(covariance))
    return WindowMeasures(
        is_flat=is_flat,
        spread=np.where(is_flat, 0.0, measure_spread(level)),
        noise=np.where(is_flat, 0.0, measure_noise(level - waves)),
        hum=np.where(is_flat, 0.0, hum),
        correlation=_correlate(covariance, variance),
        difference=_compare_pairs(of_changes.T @ of_changes, is_flat),
    )


def measure_spread(x: Array) -> Array:
    """Return the robust standard deviation of each channel, (channels,), from its quartiles."""
    ordered = np.sort(np.ascontiguousarray(x.T), axis=1)  # a fifth of the time of np.percentile
    low, high = (_interpolate(ordered, share * (len(x) - 1)) for share in (0.25, 0.75))
    return np.asarray(_QUARTILES_TO_DEVIATION * (high - low))


def bound_spread(power: Array | float, n: int) -> Array:
    """Return the largest robust standard deviation that samples can have, after removal of a straight line.

    A quarter of the samples lies at or beyond each quartile, so the square of the distance of the quartiles
    is at most eight times the mean square.

    Parameters
    ----------
    power : ndarray of shape (channels,), or float
        Sum of the squares of the samples, or more.
    n : int
        Number of samples.
    """
    return np.asarray(_QUARTILES_TO_DEVIATION * np.sqrt(8.0 * power / n))


def _interpolate(rows: Array, at: float) -> Array:
    """Return the columns of sorted rows at a place between two, as `np.percentile` does, to the bit."""
    below = int(at)
    left, right, share = rows[:, below], rows[:, min(below + 1, rows.shape[1] - 1)], at - below
    step = right - left
    return np.asarray(right - step * (1.0 - share) if share >= 0.5 else left + step * share)


def measure_noise(x: Array) -> Array:
    """Return the standard deviation of white noise with the same second differences, (channels,)."""
    return np.asarray(measure_spread(np.diff(x, 2, axis=0)) / _GAIN_OF_CURVATURE)


def remove_lines(x: Array) -> Array:
    """Return samples without the straight line that fits each channel best."""
    time = np.arange(len(x)) - (len(x) - 1) / 2
    x = x - x.mean(axis=0)
    slope = time @ x / (time @ time)
    return np.asarray(x - time[:, None] * slope)


def _measure_hum(x: Array, rate: float | None) -> tuple[Array, Array]:
    """Return the amplitude of the stronger of both mains, above what is beside it, and its waves."""
    hum, waves = np.zeros(x.shape[1]), np.zeros_like(x)
    for frequency in MAINS:
        if rate is None or frequency + _BESIDE > _NYQUIST_SHARE * rate or len(x) < rate / _BESIDE:
            continue
        here = _project(x, frequency / rate)
        beside = (_project(x, (frequency + shift) / rate) for shift in (-_BESIDE, _BESIDE))
        power = np.abs(here) ** 2 - sum(np.abs(amplitude) ** 2 for amplitude in beside) / 2
        amplitude = np.sqrt(np.maximum(power, 0.0))
        stronger = amplitude > hum
        hum = np.where(stronger, amplitude, hum)
        turns = np.exp(2j * np.pi * frequency / rate * np.arange(len(x)))
        waves[:, stronger] = (turns[:, None] * here[stronger]).real
    return hum, waves


def _project(x: Array, cycles: float) -> NDArray[np.complex128]:
    """Return the complex amplitude of each channel at a frequency, in cycles per sample."""
    taper = np.hanning(len(x) + 2)[1:-1]
    wave = np.exp(-2j * np.pi * cycles * np.arange(len(x)))
    return np.asarray(2 * (taper * wave) @ x / taper.sum())


def _correlate(covariance: Array, variance: Array) -> Array:
    scale = np.sqrt(np.where(variance > 0, variance, np.inf))
    return np.asarray(covariance / np.outer(scale, scale))


def _compare_pairs(covariance: Array, is_flat: NDArray[np.bool_]) -> Array:
    variance = np.where(is_flat, 0.0, np.diag(covariance))
    of_difference = variance[:, None] + variance - 2 * covariance
    smaller = np.minimum(variance[:, None], variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(smaller > 0, np.maximum(of_difference, 0.0) / smaller, np.inf)
    np.fill_diagonal(share, np.inf)
    return np.asarray(share)
