"""Measure the courses of sources: blinks, steps and heartbeats."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SLOW = (1.0, 8.0)  # Hz; a blink of 0.3 s
_QRS = (6.0, 40.0)  # Hz; a QRS complex of 0.1 s
_TOP_SHARE = 0.12  # of the samples; blinks of 0.3 s at 24 a minute
_HIGH = 4.0  # robust deviations; least height of a deflection
_SPARSE = 1.5  # standard deviations; the same, where deflections make most of the power
_RHYTHM = (0.35, 1.5)  # s; 40 to 170 beats a minute
_PIECE = 12.0  # s, in which a rhythm stays the same


@dataclass(frozen=True, eq=False)
class CourseFacts:
    """Facts of courses, an entry for each source.

    Parameters
    ----------
    n_deflections : ndarray
        Deflections per minute from 1 to 8 Hz: higher than four robust deviations and 1.5 standard
        deviations, 0.06 to 0.6 s wide at half their height, in the direction of the skewness.
    width : ndarray
        Median of their widths in seconds; 0 without deflections.
    skewness : ndarray
        |Skewness| from 1 to 8 Hz: 0 if deflections go up as often as down.
    in_deflections : ndarray
        Share of the power from 1 to 8 Hz in the 12 % of the samples where it is largest: about 0.5 for
        a course that is normally distributed, 1 if nothing else is in the source.
    rhythm : ndarray
        Largest autocorrelation of the QRS envelope at 0.35 to 1.5 s, above the valley before it.
    beats : ndarray
        Beats per minute at that lag.
    peaked : ndarray
        Kurtosis of the course from 6 to 40 Hz, less that of a normal distribution.
    bursts : ndarray
        Largest over median power of half seconds, from 1 Hz on: 1 for a steady course.
    """

    n_deflections: Array
    width: Array
    skewness: Array
    in_deflections: Array
    rhythm: Array
    beats: Array
    peaked: Array
    bursts: Array


def measure_courses(courses: Array, breaks: Sequence[int], rate: float) -> CourseFacts:
    """Return facts of the courses of sources.

    Parameters
    ----------
    courses : ndarray of shape (samples, sources)
    breaks : sequence of int
        Rows that do not continue the row before.
    rate : float
        In Hz.
    """
    edges = [0, *breaks, len(courses)]
    runs = [courses[a:b] for a, b in itertools.pairwise(edges) if b - a >= max(4, 0.5 * rate)]
    runs = runs or [courses]
    slow = np.concatenate([band_pass(run, rate, *_SLOW) for run in runs])
    fast = [band_pass(run, rate, _QRS[0], min(_QRS[1], 0.45 * rate)) for run in runs]
    wide = [band_pass(run, rate, _SLOW[0], rate) for run in runs]
    counts, widths, skewness, shares = np.array([_find_deflections(one, rate) for one in slow.T]).T
    rhythm, beats = _measure_rhythm(fast, rate)
    return CourseFacts(
        n_deflections=counts,
        width=widths,
        skewness=skewness,
        in_deflections=shares,
        rhythm=rhythm,
        beats=beats,
        peaked=_kurtosis(np.concatenate(fast)),
        bursts=_measure_bursts(np.concatenate(wide), rate),
    )


def band_pass(x: Array, rate: float, low: float, high: float) -> Array:
    """Return a band of a run, (samples, sources), by the Fourier transform; edges rise over an octave."""
    n = len(x)
    mirrored = np.concatenate([x, x[::-1]])  # so that the ends do not jump
    frequency = np.fft.rfftfreq(2 * n, 1 / rate)
    octaves = np.log2(np.maximum(frequency, 1e-9))
    rise = np.clip(octaves - np.log2(low) + 0.5, 0.0, 1.0)
    fall = np.clip(np.log2(high) + 0.5 - octaves, 0.0, 1.0)
    gain = np.sin(np.pi / 2 * rise) ** 2 * np.sin(np.pi / 2 * fall) ** 2
    return np.asarray(np.fft.irfft(np.fft.rfft(mirrored, axis=0) * gain[:, None], 2 * n, axis=0)[:n])


def _kurtosis(x: Array) -> Array:
    centred = x - x.mean(axis=0)
    squares = centred * centred
    square = np.maximum(np.mean(squares, axis=0), 1e-100)
    return np.asarray(np.mean(squares * squares, axis=0) / square**2 - 3.0)


def _find_deflections(x: Array, rate: float) -> tuple[float, float, float, float]:
    """Return number per minute, width, |skewness| and share of power of the deflections of a course."""
    size = 1.4826 * float(np.median(np.abs(x - np.median(x)))) or 1.0
    centred = x - x.mean()
    deviation = float(centred.std()) or 1.0
    skewness = float(np.mean(centred * centred * centred)) / deviation**3
    up = x if skewness >= 0 else -x
    widths = _measure_deflections(up - np.median(up), max(_HIGH * size, _SPARSE * deviation), rate)
    power = np.sort(x**2)
    share = float(power[-max(1, round(_TOP_SHARE * len(x))) :].sum() / max(power.sum(), 1e-300))
    minutes = len(x) / rate / 60.0
    return len(widths) / minutes, float(np.median(widths)) if widths else 0.0, abs(skewness), share


def _measure_deflections(x: Array, least: float, rate: float) -> list[float]:
    """Return the widths at half height, in seconds, of deflections above the threshold."""
    above = np.flatnonzero(np.diff(np.concatenate([[False], x > least, [False]]).astype(np.int8)))
    widths, last = [], -1
    for start, stop in above.reshape(-1, 2).tolist():
        if start < last:
            continue
        at = start + int(x[start:stop].argmax())
        below = x < x[at] / 2
        before, after = below[:at][::-1], below[at:]
        left = int(before.argmax()) if before.any() else at
        right = int(after.argmax()) if after.any() else len(after)
        width = (left + right) / rate
        if 0.06 <= width <= 0.6:
            widths.append(width)
        last = at + right + round(0.1 * rate)
    return widths


def _measure_rhythm(fast: list[Array], rate: float) -> tuple[Array, Array]:
    """Return the height and the beats per minute of the rhythm of an envelope."""
    length = round(_PIECE * rate)
    step = max(1, round(rate / 50.0))  # the envelope has no more than 50 Hz
    pieces = [
        _envelope(run[a : a + length], rate)[::step] for run in fast for a in _starts(len(run), length)
    ]
    n_sources, slow = fast[0].shape[1], rate / step
    lags = np.arange(max(2, round(_RHYTHM[0] * slow)), round(_RHYTHM[1] * slow) + 1)
    if not pieces or len(pieces[0]) < 2 * lags[-1]:
        nothing = np.full(n_sources, np.nan)
        return nothing, nothing
    found = np.array([_autocorrelate(piece, lags[-1] + 1) for piece in pieces])
    lows = np.minimum.accumulate(found, axis=1)  # the valley before each lag
    above = (found - np.maximum(lows, -0.5))[:, lags]
    at = above.argmax(axis=1)
    height = np.take_along_axis(above, at[:, None], axis=1)[:, 0]
    return np.median(height, axis=0), 60.0 * slow / np.median(lags[at], axis=0)


def _starts(n: int, length: int) -> range:
    return range(0, n - length + 1, length) if n >= length else range(0)


def _envelope(x: Array, rate: float) -> Array:
    """Return the power smoothed over 0.12 s; its largest values are cut, so that no beat outweighs all."""
    length = max(1, round(0.12 * rate))
    sums = np.cumsum(np.concatenate([np.zeros((1, x.shape[1])), x**2]), axis=0)
    envelope = np.sqrt(np.maximum(sums[length:] - sums[:-length], 0.0) / length)
    return np.asarray(np.minimum(envelope, np.quantile(envelope, 0.97, axis=0)))


def _autocorrelate(x: Array, n_lags: int) -> Array:
    """Return the autocorrelation (lags, sources), corrected for the samples that a lag leaves."""
    centred = x - x.mean(axis=0)
    n = len(x)
    spectrum = np.fft.rfft(centred, 2 * n, axis=0)
    found = np.fft.irfft(np.abs(spectrum) ** 2, 2 * n, axis=0)[:n_lags]
    found /= (n - np.arange(n_lags))[:, None] / n
    return np.asarray(found / np.maximum(found[0], 1e-300))


def _measure_bursts(x: Array, rate: float) -> Array:
    length = max(1, round(0.5 * rate))
    n = len(x) // length
    if n < 4:
        return np.full(x.shape[1], np.nan)
    power = np.mean(x[: n * length].reshape(n, length, -1) ** 2, axis=1)
    return np.asarray(power.max(axis=0) / np.maximum(np.median(power, axis=0), 1e-300))
