"""Kernels on blocks of samples, in float32 or float64.

Sums run in float64 and in a fixed order: the result for a sample is identical to the bit for every division
into blocks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import substitutes
from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Samples = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int64]
Array = NDArray[np.float64]

_TILE = 64  # samples transposed at a time, for them to stay in the L1 cache
_NARROW = 24  # largest number of outputs for which transposing is faster

_F1 = array_type("float64", 1)
_R1, _R3 = (array_type("float64", n, readonly=True) for n in (1, 3))


def _declare_precisions(make: Callable[[Any], Any]) -> list[Any]:
    return [make("float32"), make("float64")]


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void", array_type(real, 2, readonly=True), array_type(real, 1), array_type(real, 1), _F1
        )
    ),
    substitute=substitutes.survey,
)
def survey(x: Samples, low: Samples, high: Samples, total: Array) -> None:
    """Update minimum, maximum and sum of each column; a sum that is not finite indicates a bad sample.

    A row may contain several samples, which makes narrow recordings as fast as wide ones. Processing four
    rows at a time needs a quarter of the loads and stores; the order of each sum is unchanged.
    """
    n_rows, width = x.shape
    fours = n_rows - n_rows % 4
    for m in range(0, fours, 4):
        for k in range(width):
            a, b, c, d = x[m, k], x[m + 1, k], x[m + 2, k], x[m + 3, k]
            low[k] = min(min(min(min(low[k], a), b), c), d)
            high[k] = max(max(max(max(high[k], a), b), c), d)
            total[k] = (((total[k] + a) + b) + c) + d
    for m in range(fours, n_rows):
        for k in range(width):
            low[k] = min(low[k], x[m, k])
            high[k] = max(high[k], x[m, k])
            total[k] += x[m, k]


# Processing four inputs at a time, and two samples where possible, needs a quarter of the loads and stores.
# The order of each sum is unchanged.


@helper
def _sum_one(x: Samples, weights: Array, offset: Array, row: Array) -> None:
    """Fill row = offset + x @ weights, summing inputs in order."""
    n_in, n_out = weights.shape
    fours = n_in - n_in % 4
    for n in range(n_out):
        row[n] = offset[n]
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
    """Apply `_sum_one` to two samples."""
    n_in, n_out = weights.shape
    fours = n_in - n_in % 4
    for n in range(n_out):  # a slice would compile the message of an error, for seconds
        row[n] = other[n] = offset[n]
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
    """Apply `_sum_one` to one output of many samples, (channels, samples)."""
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
    """Apply `unmix` to rows that are too short for vector registers, by transposing tiles of samples."""
    n_samples, n_in = x.shape
    n_out = unmixing.shape[1]
    transposed, sources = np.zeros((n_in, _TILE)), np.empty((n_out, _TILE))
    weights = np.ascontiguousarray(unmixing.T)
    for start in range(0, n_samples, _TILE):
        size = min(_TILE, n_samples - start)
        for m in range(size):
            for i in range(n_in):
                transposed[i, m] = x[start + m, i]
        for n in range(n_out):
            _sum_tile(transposed, weights[n], offset[n], sources[n])
        for m in range(size):
            for n in range(n_out):
                out[start + m, n] = sources[n, m]


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void", array_type(real, 2, readonly=True), _R3, _R1, "int64", array_type(real, 2)
        )
    ),
    substitute=substitutes.unmix,
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
    """Apply `unmix_complement` to three channels in order, with parallel loads and stores."""
    flat, flat_out = x.reshape(-1), out.reshape(-1)
    for m in range(x.shape[0]):
        a, b, c = np.float64(flat[3 * m]), np.float64(flat[3 * m + 1]), np.float64(flat[3 * m + 2])
        mean = (a + b + c) * weight
        flat_out[3 * m] = mean - a
        flat_out[3 * m + 1] = mean - b
        flat_out[3 * m + 2] = mean - c


@kernel(
    *_declare_precisions(
        lambda real: signature(
            "void",
            array_type(real, 2, readonly=True),
            array_type("int64", 1, readonly=True),
            "boolean",
            "float64",
            array_type(real, 2),
        )
    ),
    substitute=substitutes.unmix_complement,
)
def unmix_complement(x: Samples, cut: Indices, in_order: bool, weight: float, out: Samples) -> None:
    """Fill out[m, n] = weight * (sum of x[m]) - x[m, cut[n]], for W of ones minus a permutation.

    `in_order` states that cut[n] = n. The sum is split into four independent partial sums, which avoids
    waiting for each addition. Their composition does not depend on the block.
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
