"""Kernels for learning a structure.

Signals are (sources, samples), for loops along time. Arrays are assigned to slices in loops: numba takes
seconds to compile such an assignment.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Array = NDArray[np.float64]

_BLOCK = 1024  # samples at a time, for intermediate results to stay in the L1 cache
_F1, _F2, _F3 = (array_type("float64", n) for n in (1, 2, 3))
_R1, _R2 = (array_type("float64", n, readonly=True) for n in (1, 2))


@helper
def add_taps(out: Array, signal: Array, at: int, taps: Array) -> None:
    """Add sum over k of taps[k] signal[at + t - k] to out[t], four taps at a time."""
    n_out, n_taps = len(out), len(taps)
    whole = n_taps - n_taps % 4
    for k in range(0, whole, 4):
        a, b, c, d = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
        first, second = signal[at - k : at - k + n_out], signal[at - k - 1 : at - k - 1 + n_out]
        third, fourth = signal[at - k - 2 : at - k - 2 + n_out], signal[at - k - 3 : at - k - 3 + n_out]
        for t in range(n_out):
            out[t] = out[t] + a * first[t] + b * second[t] + c * third[t] + d * fourth[t]
    for k in range(whole, n_taps):
        a, first = taps[k], signal[at - k : at - k + n_out]
        for t in range(n_out):
            out[t] += a * first[t]


@kernel(signature("void", _R2, _R2, _F2))
def filter_rows(y: Array, taps: Array, out: Array) -> None:
    """Fill out[i, t] = sum over k of taps[i, k] y[i, t + lags - k], for complete overlaps only."""
    lags = taps.shape[1] - 1
    for i in range(y.shape[0]):
        for start in range(0, out.shape[1], _BLOCK):
            part = out[i, start : start + _BLOCK]
            part[:] = 0.0
            add_taps(part, y[i], start + lags, taps[i])


@kernel(signature("void", _R2, _R2, _F2))
def filter_rows_adjoint(scores: Array, taps: Array, out: Array) -> None:
    """Apply the transpose of `filter_rows`, from (sources, samples - lags) to (sources, samples)."""
    lags = taps.shape[1] - 1
    padded = np.zeros(scores.shape[1] + 2 * lags)
    for i in range(scores.shape[0]):
        for t in range(scores.shape[1]):
            padded[lags + t] = scores[i, t]
        reversed_taps = taps[i, ::-1].copy()
        for start in range(0, out.shape[1], _BLOCK):
            part = out[i, start : start + _BLOCK]
            part[:] = 0.0
            add_taps(part, padded, start + lags, reversed_taps)


@helper
def raise_to(v: Array, sixteenths: int, root: Array, out: Array) -> None:
    """Fill out = v^(sixteenths / 16) by products and square roots, which are vectorised.

    Square roots are rounded identically on all platforms; logarithms are not.
    """
    for t in range(len(v)):
        root[t], out[t] = v[t], 1.0
    for _ in range(sixteenths // 16):
        for t in range(len(v)):
            out[t] *= v[t]
    rest, half = sixteenths % 16, 8
    while rest > 0:
        for t in range(len(v)):
            root[t] = math.sqrt(root[t])
        if rest >= half:
            for t in range(len(v)):
                out[t] *= root[t]
            rest -= half
        half //= 2


@kernel(signature("void", _R2, _R1, _R1, _F2, _F1, _F1))
def compute_power_scores(
    e: Array, shape: Array, floor: Array, scores: Array, power: Array, curvature: Array
) -> None:
    """Fill power, scores and curvature of a generalised-Gaussian density of each row, with v = e^2 + floor.

    power is the mean of v^(b/2), scores are its derivative divided by b, v^(b/2 - 1) e, and curvature is
    the mean derivative of the scores. Shapes b are multiples of 1/8.
    """
    n_samples = e.shape[1]
    square, v, root, slope, total, bent = np.empty((6, min(_BLOCK, n_samples)))
    for i in range(e.shape[0]):
        total[:] = 0.0
        bent[:] = 0.0
        for start in range(0, n_samples, _BLOCK):
            value, score = e[i, start : start + _BLOCK], scores[i, start : start + _BLOCK]
            n = len(value)
            for t in range(n):
                square[t] = value[t] * value[t]
                v[t] = square[t] + floor[i]
            raise_to(v[:n], int(8.0 * shape[i]), root[:n], slope[:n])
            for t in range(n):
                total[t] += slope[t]
                ratio = slope[t] / v[t]
                score[t] = ratio * value[t]
                # the second term of the derivative is (b - 2) v^(b/2 - 2) e^2
                bent[t] = (bent[t] + ratio) + square[t] / v[t] * ratio * (shape[i] - 2.0)
        power[i] = total.sum() / n_samples
        curvature[i] = bent.sum() / n_samples


@kernel(signature("void", _R2, _R1, _R1, _F1))
def compute_mean_power(e: Array, shape: Array, floor: Array, power: Array) -> None:
    """Fill power[i] = mean over t of (e^2 + floor)^(b/2). Shapes b are multiples of 1/8."""
    n_samples = e.shape[1]
    v, root, out, total = np.empty((4, min(_BLOCK, n_samples)))
    for i in range(e.shape[0]):
        total[:] = 0.0
        for start in range(0, n_samples, _BLOCK):
            value = e[i, start : start + _BLOCK]
            n = len(value)
            for t in range(n):
                v[t] = value[t] * value[t] + floor[i]
            raise_to(v[:n], int(8.0 * shape[i]), root[:n], out[:n])
            for t in range(n):
                total[t] += out[t]
        power[i] = total.sum() / n_samples


@kernel(signature("void", _F2, _R1, _R1))
def compute_root_weights(e: Array, shape: Array, floor: Array) -> None:
    """Replace innovations by (e^2 + floor)^(b/4 - 1/2), the square roots of weights for a regression."""
    n_samples = e.shape[1]
    v, root = np.empty((2, min(_BLOCK, n_samples)))
    for i in range(e.shape[0]):
        for start in range(0, n_samples, _BLOCK):
            part = e[i, start : start + _BLOCK]
            n = len(part)
            for t in range(n):
                v[t] = part[t] * part[t] + floor[i]
            raise_to(v[:n], int(8.0 * shape[i]), root[:n], part)
            for t in range(n):
                part[t] = math.sqrt(part[t] / v[t])


@kernel(signature("void", _R2, _R2, _F2))
def compute_tap_slopes(y: Array, scores: Array, slopes: Array) -> None:
    """Fill slopes[i, k] = mean over t of scores[i, t] y[i, t + lags - k]."""
    lags = slopes.shape[1] - 1
    n_samples = scores.shape[1]
    slopes[:] = 0.0
    for i in range(y.shape[0]):
        for start in range(0, n_samples, _BLOCK):
            part = scores[i, start : start + _BLOCK]
            for k in range(lags + 1):
                slopes[i, k] += np.dot(part, y[i, start + lags - k : start + lags - k + len(part)])
        for k in range(lags + 1):
            slopes[i, k] /= n_samples


@kernel(signature("float64", _F3, _F2))
def rotate_to_diagonal(matrices: Array, rotation: Array) -> float:
    """Rotate each pair of axes once to jointly diagonalise symmetric matrices (Cardoso, Souloumiac).

    Updates matrices and rotation in place, and returns the sine of the largest angle.
    """
    n_matrices, size, _ = matrices.shape
    largest = 0.0
    for i in range(size):
        for j in range(i + 1, size):
            on, off = 0.0, 0.0
            for k in range(n_matrices):
                gap = matrices[k, i, i] - matrices[k, j, j]
                cross = 2.0 * matrices[k, i, j]
                on += gap * gap - cross * cross
                off += 2.0 * gap * cross
            angle = 0.25 * math.atan2(off, on)
            c, s = math.cos(angle), math.sin(angle)
            largest = max(largest, abs(s))
            for k in range(n_matrices):
                for n in range(size):
                    a, b = matrices[k, i, n], matrices[k, j, n]
                    matrices[k, i, n], matrices[k, j, n] = c * a + s * b, c * b - s * a
                for n in range(size):
                    a, b = matrices[k, n, i], matrices[k, n, j]
                    matrices[k, n, i], matrices[k, n, j] = c * a + s * b, c * b - s * a
            for n in range(size):
                a, b = rotation[i, n], rotation[j, n]
                rotation[i, n], rotation[j, n] = c * a + s * b, c * b - s * a
    return largest
