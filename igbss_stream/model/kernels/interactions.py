"""Kernels for learning with products of sources.

Sources are (sources, samples), channels are (samples, directions), and `weights` are (directions, sets). A
set of sources is a bit mask; its value is the product of its members, or 1 for the empty set. Banded
matrices over (sample, source) store the entry of row r and column r - k in ``band[r, k]``.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

_F1, _F2, _F3 = (array_type("float64", n) for n in (1, 2, 3))
_R1, _R2 = (array_type("float64", n, readonly=True) for n in (1, 2))
_MASKS = array_type("int64", 1, readonly=True)


@helper
def _multiply_members(z: Array, t: int, mask: int) -> float:
    value = 1.0
    for i in range(z.shape[0]):
        if (mask >> i) & 1:
            value *= z[i, t]
    return value


@helper
def _fill_jacobian(z: Array, t: int, masks: Masks, weights: Array, jacobian: Array) -> None:
    """Fill the derivative of each direction with respect to each source, (directions, sources)."""
    jacobian[:] = 0.0
    for s in range(masks.shape[0]):
        for i in range(z.shape[0]):
            if (masks[s] >> i) & 1:
                rest = _multiply_members(z, t, masks[s] ^ (1 << i))
                for k in range(jacobian.shape[0]):
                    jacobian[k, i] += weights[k, s] * rest


@helper
def _fill_residual(x: Array, z: Array, t: int, masks: Masks, weights: Array, residual: Array) -> float:
    """Fill the residual of a sample, (directions,), and return its sum of squares."""
    for k in range(residual.shape[0]):
        residual[k] = x[t, k]
    for s in range(masks.shape[0]):
        value = _multiply_members(z, t, masks[s])
        for k in range(residual.shape[0]):
            residual[k] -= weights[k, s] * value
    square = 0.0
    for k in range(residual.shape[0]):
        square += residual[k] * residual[k]
    return square


@helper
def _factor_small(a: Array) -> None:
    """Replace the lower triangle of a small matrix by its Cholesky factor."""
    for i in range(a.shape[0]):
        for k in range(i + 1):
            value = a[i, k]
            for m in range(k):
                value -= a[i, m] * a[k, m]
            a[i, k] = math.sqrt(value) if i == k else value / a[k, k]


@helper
def _solve_small(factor: Array, b: Array) -> None:
    """Solve a system in place, with a factor from `_factor_small`."""
    size = factor.shape[0]
    for i in range(size):
        for m in range(i):
            b[i] -= factor[i, m] * b[m]
        b[i] /= factor[i, i]
    for i in range(size - 1, -1, -1):
        for m in range(i + 1, size):
            b[i] -= factor[m, i] * b[m]
        b[i] /= factor[i, i]


@kernel(signature("void", _R2, _MASKS, _F2))
def fill_products(z: Array, masks: Masks, out: Array) -> None:
    """Fill the value of each set at each sample, (samples, sets)."""
    for t in range(z.shape[1]):
        for s in range(masks.shape[0]):
            out[t, s] = _multiply_members(z, t, masks[s])


@kernel(signature("float64", _R2, _R2, _MASKS, _R2, _F2))
def compute_misfit(x: Array, z: Array, masks: Masks, weights: Array, gram: Array) -> float:
    """Return the sum of squared residuals, and fill the mean of Jacobian' Jacobian, (sources, sources)."""
    n_sources, n_samples = z.shape
    residual, jacobian = np.empty(x.shape[1]), np.empty((x.shape[1], n_sources))
    gram[:] = 0.0
    total = 0.0
    for t in range(n_samples):
        total += _fill_residual(x, z, t, masks, weights, residual)
        _fill_jacobian(z, t, masks, weights, jacobian)
        for i in range(n_sources):
            for j in range(n_sources):
                for k in range(x.shape[1]):
                    gram[i, j] += jacobian[k, i] * jacobian[k, j] / n_samples
    return total


@kernel(signature("float64", _R2, _MASKS, _R2, "float64"))
def compute_log_volume(z: Array, masks: Masks, weights: Array, softening: float) -> float:
    """Return the mean of log det(Jacobian' Jacobian + softening) / 2."""
    n_sources, n_samples = z.shape
    jacobian, gram = np.empty((weights.shape[0], n_sources)), np.empty((n_sources, n_sources))
    total = 0.0
    for t in range(n_samples):
        _fill_jacobian(z, t, masks, weights, jacobian)
        for i in range(n_sources):
            for j in range(n_sources):
                gram[i, j] = softening if i == j else 0.0
                for k in range(weights.shape[0]):
                    gram[i, j] += jacobian[k, i] * jacobian[k, j]
        _factor_small(gram)
        for i in range(n_sources):
            total += math.log(gram[i, i])
    return float(total / n_samples)


@kernel(signature("void", _R2, _R2, _R1, _R1, _R1, _F2, _F2))
def add_prior(
    e: Array, taps: Array, shape: Array, floor: Array, power: Array, gradient: Array, band: Array
) -> None:
    """Add gradient and majorised curvature of the prior loss of the sources, times the number of samples.

    The loss is log(mean of v^(b/2)) / b, with v = e^2 + floor and innovations e. `gradient` is (samples,
    sources).
    """
    n_sources, n_kept = e.shape
    lags = taps.shape[1] - 1
    share = (n_kept + lags) / n_kept
    for i in range(n_sources):
        stiffness = max(1.0, shape[i] - 1.0)
        for m in range(n_kept):
            v = e[i, m] * e[i, m] + floor[i]
            slope = share * math.exp((0.5 * shape[i] - 1.0) * math.log(v)) / power[i]
            for q in range(lags + 1):
                pull = slope * taps[i, q]
                gradient[m + lags - q, i] += pull * e[i, m]
                for p in range(q + 1):
                    band[(m + lags - p) * n_sources + i, (q - p) * n_sources] += (
                        stiffness * pull * taps[i, p]
                    )


@kernel(signature("void", _R2, _R2, _MASKS, _R2, "float64", _R2, _F2, _F2, _F2, _F2))
def add_misfit(
    x: Array, z: Array, masks: Masks, weights: Array, precision: float, spread: Array,
    gradient: Array, band: Array, slopes: Array, cross: Array,
) -> None:  # fmt: skip
    """Add the Gauss-Newton terms of the residuals, and the gradient of log det of the Gram matrix.

    `precision` is 1 / sigma^2, and `spread` is the inverse of the Gram matrix from `compute_misfit`. The
    kernel adds to `gradient` (samples, sources), to `band`, and to `slopes` (directions, sets), the
    gradient in the weights. It fills `cross` (samples * sources, directions * sets), the mixed second
    derivative.
    """
    n_sources, n_samples = z.shape
    n_directions, n_sets = weights.shape
    residual, jacobian = np.empty(n_directions), np.empty((n_directions, n_sources))
    pulled = np.empty((n_directions, n_sources))
    for t in range(n_samples):
        _fill_residual(x, z, t, masks, weights, residual)
        _fill_jacobian(z, t, masks, weights, jacobian)
        for k in range(n_directions):
            for i in range(n_sources):
                pulled[k, i] = 0.0
                for j in range(n_sources):
                    pulled[k, i] += jacobian[k, j] * spread[j, i]
        for s in range(n_sets):
            value = _multiply_members(z, t, masks[s])
            for k in range(n_directions):
                slopes[k, s] -= precision * residual[k] * value
                for i in range(n_sources):
                    cross[t * n_sources + i, k * n_sets + s] = precision * jacobian[k, i] * value
            for i in range(n_sources):
                if (masks[s] >> i) & 1:
                    rest = masks[s] ^ (1 << i)
                    value = _multiply_members(z, t, rest)
                    bend = 0.0
                    for k in range(n_directions):
                        slopes[k, s] += pulled[k, i] * value
                        bend += pulled[k, i] * weights[k, s]
                    for j in range(n_sources):
                        if (rest >> j) & 1:
                            gradient[t, j] += bend * _multiply_members(z, t, rest ^ (1 << j))
        for i in range(n_sources):
            for k in range(n_directions):
                gradient[t, i] -= precision * jacobian[k, i] * residual[k]
                for j in range(i + 1):
                    band[t * n_sources + i, i - j] += precision * jacobian[k, i] * jacobian[k, j]


@kernel(signature("void", _F2))
def factor_band(band: Array) -> None:
    """Replace a positive-definite banded matrix by its Cholesky factor."""
    size, width = band.shape
    for r in range(size):
        for c in range(max(0, r - width + 1), r + 1):
            value = band[r, r - c]
            for m in range(max(0, r - width + 1), c):
                value -= band[r, r - m] * band[c, c - m]
            band[r, r - c] = math.sqrt(value) if c == r else value / band[c, 0]


@kernel(signature("void", _R2, _F2))
def solve_band(factor: Array, b: Array) -> None:
    """Solve for right-hand sides (size, n) in place, with a factor from `factor_band`."""
    size, width = factor.shape
    for r in range(size):
        for m in range(max(0, r - width + 1), r):
            for n in range(b.shape[1]):
                b[r, n] -= factor[r, r - m] * b[m, n]
        for n in range(b.shape[1]):
            b[r, n] /= factor[r, 0]
    for r in range(size - 1, -1, -1):
        for n in range(b.shape[1]):
            b[r, n] /= factor[r, 0]
        for m in range(max(0, r - width + 1), r):
            for n in range(b.shape[1]):
                b[m, n] -= factor[r, r - m] * b[r, n]


@kernel(signature("void", _R2, _MASKS, _R2, "int64", _F2))
def invert(x: Array, masks: Masks, weights: Array, n_steps: int, z: Array) -> None:
    """Solve for the sources of each sample in place, by damped Gauss-Newton steps.

    If no sources reproduce the channels, the result is a local minimum of the residual near the start.
    """
    n_sources, n_directions = z.shape[0], x.shape[1]
    residual, jacobian = np.empty(n_directions), np.empty((n_directions, n_sources))
    normal, step = np.empty((n_sources, n_sources)), np.empty(n_sources)
    for t in range(z.shape[1]):
        damping = 1e-3
        here = _fill_residual(x, z, t, masks, weights, residual)
        for _ in range(n_steps):
            if here < 1e-24:
                break
            _fill_residual(x, z, t, masks, weights, residual)
            _fill_jacobian(z, t, masks, weights, jacobian)
            for i in range(n_sources):
                step[i] = 0.0
                for k in range(n_directions):
                    step[i] += jacobian[k, i] * residual[k]
                for j in range(n_sources):
                    normal[i, j] = damping if i == j else 0.0
                    for k in range(n_directions):
                        normal[i, j] += jacobian[k, i] * jacobian[k, j]
            _factor_small(normal)
            _solve_small(normal, step)
            for i in range(n_sources):
                z[i, t] += step[i]
            there = _fill_residual(x, z, t, masks, weights, residual)
            if there < here:
                here, damping = there, 0.1 * damping
            else:
                damping = max(10.0 * damping, 1e-6)
                for i in range(n_sources):
                    z[i, t] -= step[i]
