"""Compiled functions that learn a structure.

Signals are (sources, samples), so that loops run along time.
"""

import math

import numpy as np
from numba import types
from numpy.typing import NDArray

from igbss_stream.model._jit import array, kernel

Array = NDArray[np.float64]

_F1, _F2, _F3 = (array(types.float64, n) for n in (1, 2, 3))
_R1, _R2 = (array(types.float64, n, readonly=True) for n in (1, 2))


@kernel(types.void(_R2, _R2, _F2))
def filter_rows(y: Array, taps: Array, out: Array) -> None:
    """Fill out[i, t] = sum over k of taps[i, k] y[i, t + lags - k]: whole overlaps only."""
    lags = taps.shape[1] - 1
    n_out = out.shape[1]
    for i in range(y.shape[0]):
        row, filtered = y[i], out[i]
        filtered[:] = 0.0
        for k in range(lags + 1):
            tap = taps[i, k]
            shifted = row[lags - k : lags - k + n_out]
            for t in range(n_out):
                filtered[t] += tap * shifted[t]


@kernel(types.void(_R2, _R2, _F2))
def filter_rows_adjoint(scores: Array, taps: Array, out: Array) -> None:
    """Fill the transpose of `filter_rows`, (sources, samples) from (sources, samples - lags)."""
    lags = taps.shape[1] - 1
    n_in = scores.shape[1]
    for i in range(scores.shape[0]):
        row = scores[i]
        out[i, :] = 0.0
        for k in range(lags + 1):
            tap = taps[i, k]
            shifted = out[i, lags - k : lags - k + n_in]
            for t in range(n_in):
                shifted[t] += tap * row[t]


@kernel(types.void(_R2, _R1, _R1, _F2, _F1, _F1))
def power_scores(
    e: Array, shape: Array, floor: Array, scores: Array, power: Array, curvature: Array
) -> None:
    """Fill what a generalised-Gaussian density of each row needs, with v = e^2 + floor.

    power = mean of v^(b/2); scores = v^(b/2 - 1) e, its derivative over b; curvature = mean of the
    derivative of the scores.
    """
    n_samples = e.shape[1]
    for i in range(e.shape[0]):
        half, total, bent = 0.5 * shape[i], 0.0, 0.0
        for t in range(n_samples):
            value = e[i, t]
            v = value * value + floor[i]
            v_power = math.exp(half * math.log(v))
            slope = v_power / v
            scores[i, t] = slope * value
            total += v_power
            bent += slope * (1.0 + (shape[i] - 2.0) * value * value / v)
        power[i] = total / n_samples
        curvature[i] = bent / n_samples


@kernel(types.void(_R2, _R1, _R1, _F1))
def mean_power(e: Array, shape: Array, floor: Array, power: Array) -> None:
    """Fill power[i] = mean over t of (e^2 + floor)^(b/2)."""
    for i in range(e.shape[0]):
        half, total = 0.5 * shape[i], 0.0
        for t in range(e.shape[1]):
            total += math.exp(half * math.log(e[i, t] * e[i, t] + floor[i]))
        power[i] = total / e.shape[1]


@kernel(types.float64(_F3, _F2))
def rotate_to_diagonal(matrices: Array, rotation: Array) -> float:
    """Turn every pair of axes once so that symmetric matrices become more diagonal (Cardoso, Souloumiac).

    Changes both in place; returns the sine of the largest angle.
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
