"""Compiled functions over samples as they come, in float32 or float64.

Sums run in float64 and in one fixed order, so that a sample comes out the same to the bit whatever block
it lies in.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel

Samples = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int64]
Array = NDArray[np.float64]

_TILE = 64  # samples that are turned at a time: they stay in the first cache
_NARROW = 24  # outputs up to which that pays

_F1 = array_type(types.float64, 1)
_R1, _R3 = (array_type(types.float64, n, readonly=True) for n in (1, 3))


def _each_precision(make: Callable[[Any], Any]) -> list[Any]:
    return [make(types.float32), make(types.float64)]


@kernel(
    *_each_precision(
        lambda real: types.void(
            array_type(real, 1, readonly=True), array_type(real, 1), array_type(real, 1), _F1
        )
    )
)
def survey(x: Samples, low: Samples, high: Samples, total: Array) -> None:
    """Update minimum, maximum and sum of each channel; a sum that is not finite tells of a bad sample.

    `x` holds whole rows one after the other; the other arrays hold one entry a column of a row that
    may be several samples wide, which lets narrow recordings run as fast as wide ones.
    """
    width = low.shape[0]
    for m in range(x.shape[0] // width):
        row = x[m * width : (m + 1) * width]
        for k in range(width):
            low[k] = min(low[k], row[k])
            high[k] = max(high[k], row[k])
            total[k] += row[k]


# Four inputs at a time, and two samples where the weights allow it: a quarter of the loads and stores,
# while each sum keeps its order.


@helper
def _sum_one(x: Samples, weights: Array, offset: Array, row: Array) -> None:
    """Fill row = offset + x @ weights, inputs in their order."""
    n_in, n_out = weights.shape
    fours = n_in - n_in % 4
    row[:] = offset
    for i in range(0, fours, 4):
        a, b, c, d = np.float64(x[i]), np.float64(x[i + 1]), np.float64(x[i + 2]), np.float64(x[i + 3])
        for n in range(n_out):
            row[n] = (((row[n] + a * weights[i, n]) + b * weights[i + 1, n]) + c * weights[i + 2, n]) + (
                d * weights[i + 3, n]
            )
    for i in range(fours, n_in):
        value = np.float64(x[i])
        for n in range(n_out):
            row[n] += value * weights[i, n]


@helper
def _sum_pair(x: Samples, y: Samples, weights: Array, offset: Array, row: Array, other: Array) -> None:
    """Do `_sum_one` for two samples."""
    n_in, n_out = weights.shape
    fours = n_in - n_in % 4
    row[:] = offset
    other[:] = offset
    for i in range(0, fours, 4):
        a, b, c, d = np.float64(x[i]), np.float64(x[i + 1]), np.float64(x[i + 2]), np.float64(x[i + 3])
        e, f, g, h = np.float64(y[i]), np.float64(y[i + 1]), np.float64(y[i + 2]), np.float64(y[i + 3])
        for n in range(n_out):
            p, q, r, s = weights[i, n], weights[i + 1, n], weights[i + 2, n], weights[i + 3, n]
            row[n] = (((row[n] + a * p) + b * q) + c * r) + d * s
            other[n] = (((other[n] + e * p) + f * q) + g * r) + h * s
    for i in range(fours, n_in):
        value, its = np.float64(x[i]), np.float64(y[i])
        for n in range(n_out):
            row[n] += value * weights[i, n]
            other[n] += its * weights[i, n]


@helper
def _sum_tile(x: Array, weights: Array, offset: float, source: Array) -> None:
    """Do `_sum_one` for one output of many samples, channels first."""
    n_in = weights.shape[0]
    fours = n_in - n_in % 4
    source[:] = offset
    for i in range(0, fours, 4):
        a, b, c, d = x[i], x[i + 1], x[i + 2], x[i + 3]
        p, q, r, s = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for m in range(_TILE):
            source[m] = (((source[m] + a[m] * p) + b[m] * q) + c[m] * r) + d[m] * s
    for i in range(fours, n_in):
        a, p = x[i], weights[i]
        for m in range(_TILE):
            source[m] += a[m] * p


@helper
def _unmix_narrow(x: Samples, unmixing: Array, offset: Array, out: Samples) -> None:
    """Do `unmix` where rows are too short to fill registers: tiles of samples are turned for it."""
    n_samples, n_in = x.shape
    n_out = unmixing.shape[1]
    turned, sources = np.zeros((n_in, _TILE)), np.empty((n_out, _TILE))
    weights = np.ascontiguousarray(unmixing.T)
    for start in range(0, n_samples, _TILE):
        size = min(_TILE, n_samples - start)
        for m in range(size):
            for i in range(n_in):
                turned[i, m] = x[start + m, i]
        for n in range(n_out):
            _sum_tile(turned, weights[n], offset[n], sources[n])
        for m in range(size):
            for n in range(n_out):
                out[start + m, n] = sources[n, m]


@kernel(
    *_each_precision(
        lambda real: types.void(
            array_type(real, 2, readonly=True), _R3, _R1, types.int64, array_type(real, 2)
        )
    )
)
def unmix(x: Samples, unmixing: Array, offset: Array, start: int, out: Samples) -> None:
    """Fill out[m] = unmixing.T @ x[m] + offset; unmixing is (periods, inputs, outputs).

    `start` is the index of the first sample.
    """
    n_samples = x.shape[0]
    periods, _, n_out = unmixing.shape
    if periods == 1 and n_out <= _NARROW and n_samples >= _TILE:
        _unmix_narrow(x, unmixing[0], offset, out)
        return
    rows = np.empty((2, n_out))
    paired = n_samples - n_samples % 2 if periods == 1 else 0
    for m in range(0, paired, 2):
        _sum_pair(x[m], x[m + 1], unmixing[0], offset, rows[0], rows[1])
        for n in range(n_out):
            out[m, n], out[m + 1, n] = rows[0, n], rows[1, n]
    for m in range(paired, n_samples):
        _sum_one(x[m], unmixing[(start + m) % periods], offset, rows[0])
        for n in range(n_out):
            out[m, n] = rows[0, n]


@helper
def _unmix_triple(x: Samples, weight: float, out: Samples) -> None:
    """Three channels, each source cut off its own: three loads and three stores that run side by side."""
    flat, flat_out = x.reshape(-1), out.reshape(-1)
    for m in range(x.shape[0]):
        a, b, c = np.float64(flat[3 * m]), np.float64(flat[3 * m + 1]), np.float64(flat[3 * m + 2])
        mean = (a + b + c) * weight
        flat_out[3 * m] = mean - a
        flat_out[3 * m + 1] = mean - b
        flat_out[3 * m + 2] = mean - c


@kernel(
    *_each_precision(
        lambda real: types.void(
            array_type(real, 2, readonly=True),
            array_type(types.int64, 1, readonly=True),
            types.boolean,
            types.float64,
            array_type(real, 2),
        )
    )
)
def unmix_complement(x: Samples, cut: Indices, in_order: bool, weight: float, out: Samples) -> None:
    """Fill out[m, n] = weight * (sum of x[m]) - x[m, cut[n]], the unmixing of ones less a permutation.

    `in_order` says that cut[n] = n. The sum runs in four strands of fixed membership: one alone would wait
    for each addition, and the strands do not depend on the block.
    """
    n_samples, n_channels = x.shape
    if in_order and n_channels == 3:
        _unmix_triple(x, weight, out)
        return
    whole = n_channels - n_channels % 4
    for m in range(n_samples):
        first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
        for i in range(0, whole, 4):
            first += np.float64(x[m, i])
            second += np.float64(x[m, i + 1])
            third += np.float64(x[m, i + 2])
            fourth += np.float64(x[m, i + 3])
        for i in range(whole, n_channels):
            first += np.float64(x[m, i])
        mean = ((first + second) + (third + fourth)) * weight
        if in_order:
            for n in range(n_channels):
                out[m, n] = mean - x[m, n]
        else:
            for n in range(n_channels):
                out[m, n] = mean - x[m, cut[n]]
