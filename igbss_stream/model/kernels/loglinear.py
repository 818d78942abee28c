"""Kernels of the log-linear model.

Arrays are time-major: theta_z and p_z are (samples, sources), x and p_x are (samples, channels). The
incidence `w` is (periods, channels, sources); sample m uses `w[m % periods]`. Sums run in a fixed order,
independent of the number of threads. Notation and formulas are those of `igbss_stream.model.loglinear` and
`igbss_stream.model.solve`, which call these functions.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Array = NDArray[np.float64]

# Types of outputs (F) and inputs (R). Inputs may be read-only: memory-mapped, or from a message.
_F1, _F2, _F3 = (array_type("float64", n) for n in (1, 2, 3))
_R1, _R2, _R3 = (array_type("float64", n, readonly=True) for n in (1, 2, 3))
_PAIR = "UniTuple(float64, 2)"


@kernel(signature(_PAIR, _R3, _R1, _R2, _R2, _R2, _F2, _F2, _F2))
def fill_densities(
    w: Array, c: Array, d: Array, theta_z: Array, theta_a: Array, p_z: Array, p_x: Array, p_a: Array
) -> tuple[float, float]:
    """Fill p of all layers from theta; return psi and p(bottom).

    `c` (sources) and `d` (periods, channels) are the contributions of the mixing nodes below a state to its
    log-density.
    """
    n_samples, n_sources = theta_z.shape
    periods, n_channels, _ = w.shape
    top = 0.0  # the log-density of the bottom state, before normalisation
    period = 0
    for m in range(n_samples):
        for n in range(n_sources):
            p_z[m, n] = theta_z[m, n] + c[n]
            top = max(top, p_z[m, n])
        for i in range(n_channels):
            value = d[period, i]
            for n in range(n_sources):
                value += w[period, i, n] * theta_z[m, n]
            p_x[m, i] = value
            top = max(top, value)
        period = period + 1 if period + 1 < periods else 0
    for i in range(theta_a.shape[0]):
        for s in range(theta_a.shape[1]):
            top = max(top, theta_a[i, s])

    total = math.exp(-top)
    for m in range(n_samples):
        for n in range(n_sources):
            p_z[m, n] = math.exp(p_z[m, n] - top)
            total += p_z[m, n]
        for i in range(n_channels):
            p_x[m, i] = math.exp(p_x[m, i] - top)
            total += p_x[m, i]
    for i in range(theta_a.shape[0]):
        for s in range(theta_a.shape[1]):
            p_a[i, s] = math.exp(theta_a[i, s] - top)
            total += p_a[i, s]

    share = 1.0 / total
    for m in range(n_samples):
        for n in range(n_sources):
            p_z[m, n] *= share
        for i in range(n_channels):
            p_x[m, i] *= share
    for i in range(theta_a.shape[0]):
        for s in range(theta_a.shape[1]):
            p_a[i, s] *= share
    return top + math.log(total), math.exp(-top) * share


@kernel(signature("void", _R3, _R2, _R2, _F2, _F1, _F2))
def fill_expectations(
    w: Array, p_z: Array, p_x: Array, eta_z: Array, z_total: Array, x_total: Array
) -> None:
    """Fill eta of the source layer, and the total mass of each source and of each channel."""
    n_samples, n_sources = p_z.shape
    periods, n_channels, _ = w.shape
    z_total[:] = 0.0
    x_total[:] = 0.0
    period = 0
    for m in range(n_samples):
        for n in range(n_sources):
            value = p_z[m, n]
            z_total[n] += value
            for i in range(n_channels):
                value += w[period, i, n] * p_x[m, i]
            eta_z[m, n] = value
        for i in range(n_channels):
            x_total[period, i] += p_x[m, i]
        period = period + 1 if period + 1 < periods else 0


@kernel(signature("float64", _R3, _R2, _R2, "float64", _R2, _R2, _F2, _F2, _F2, _F2))
def fill_gradient(
    w: Array,
    p_z: Array,
    p_x: Array,
    target_z: float,
    target_x: Array,
    target_eta_z: Array,
    g_z: Array,
    z_error: Array,
    x_error: Array,
    p_total: Array,
) -> float:
    """Fill eta - eta_hat of the source layer; return its largest absolute value relative to eta_hat.

    The kernel sums differences p - p_hat rather than subtracting sums, which agree in almost all digits
    near the optimum. It fills `z_error` (1, sources) and `x_error` (periods, channels) with the summed
    differences, and `p_total` (periods + 1, max(channels, sources)) with the masses of p: one row per
    period for the channels, and the last row for the sources.
    """
    n_samples, n_sources = p_z.shape
    periods, n_channels, _ = w.shape
    z_error[:] = 0.0
    x_error[:] = 0.0
    p_total[:] = 0.0
    worst = 0.0
    period = 0
    for m in range(n_samples):
        for n in range(n_sources):
            g_z[m, n] = p_z[m, n] - target_z
            z_error[0, n] += g_z[m, n]
            p_total[periods, n] += p_z[m, n]
        for i in range(n_channels):
            error = p_x[m, i] - target_x[m, i]
            x_error[period, i] += error
            p_total[period, i] += p_x[m, i]
            for n in range(n_sources):
                g_z[m, n] += w[period, i, n] * error
        for n in range(n_sources):
            worst = max(worst, abs(g_z[m, n]) / target_eta_z[m, n])
        period = period + 1 if period + 1 < periods else 0
    return worst


@kernel(signature("float64", _R2, "float64", _R2, _R2))
def compute_divergence(p_z: Array, target_z: float, p_x: Array, target_x: Array) -> float:
    """Return the contribution of the source and received layers to KL(p_hat || p)."""
    total = 0.0
    for m in range(p_z.shape[0]):
        if target_z > 0.0:
            for n in range(p_z.shape[1]):
                total += target_z * math.log(target_z / p_z[m, n])
        for i in range(p_x.shape[1]):
            if target_x[m, i] > 0.0:
                total += target_x[m, i] * math.log(target_x[m, i] / p_x[m, i])
    return total


@helper
def _fill_source_block(w: Array, p_z: Array, p_x: Array, block: Array) -> None:
    """Fill W' diag(p_x) W + diag(p_z), the information of one sample."""
    n_channels, n_sources = w.shape
    for n in range(n_sources):
        for k in range(n_sources):
            block[n, k] = 0.0
        block[n, n] = p_z[n]
    for i in range(n_channels):
        for n in range(n_sources):
            weight = w[i, n] * p_x[i]
            for k in range(n_sources):
                block[n, k] += weight * w[i, k]


@helper
def _factor(block: Array) -> None:
    """Replace the upper triangle by its Cholesky factor U, block = U' U, but store 1 / U[n, n]."""
    n_sources = block.shape[0]
    for j in range(n_sources):
        # The pivot is zero where the mass underflows; the line search rejects the resulting step.
        scale = 1.0 / math.sqrt(max(block[j, j], 1e-300))
        block[j, j] = scale
        for k in range(j + 1, n_sources):
            block[j, k] *= scale
        for n in range(j + 1, n_sources):
            weight = block[j, n]
            for k in range(n, n_sources):
                block[n, k] -= weight * block[j, k]


@helper
def _solve(factor: Array, vector: Array) -> None:
    """Solve (U' U) y = vector in place, with a factor from `_factor`."""
    n_sources = factor.shape[0]
    for n in range(n_sources):
        value = vector[n] * factor[n, n]
        vector[n] = value
        for k in range(n + 1, n_sources):
            vector[k] -= factor[n, k] * value
    for n in range(n_sources - 1, -1, -1):
        value = vector[n]
        for k in range(n + 1, n_sources):
            value -= factor[n, k] * vector[k]
        vector[n] = value * factor[n, n]


@kernel(signature("void", _R3, _R3, _R2, _R2, _R2, _F3, _F2, _F2, _F1))
def eliminate_sources(
    w: Array,
    design: Array,
    p_z: Array,
    p_x: Array,
    g_z: Array,
    fits: Array,
    step_z: Array,
    shared: Array,
    drive: Array,
) -> None:
    """Reduce the information matrix to the groups of latent nodes, sample by sample.

    `design` (periods, channels, groups) is the derivative of log p(x) in the sum of each group. For each
    sample, v is the weighted least-squares fit of the design by W, with the residual r = design - W v. The
    Schur complement of the source block is r' diag(p_x) r + v' diag(p_z) v, a sum of squares, which remains
    semidefinite under rounding. The kernel adds to `shared` (groups, groups) and `drive` (groups). It fills
    `step_z` with the step of the sources for fixed groups, and `fits` (samples or 1, groups, sources) with
    v, if it has a row per sample.
    """
    n_samples, n_sources = p_z.shape
    periods, n_channels, n_groups = design.shape
    block = np.empty((n_sources, n_sources))
    rest = np.empty((n_groups, n_channels))
    period = 0
    for m in range(n_samples):
        fit = fits[m if len(fits) == n_samples else 0]
        _fill_source_block(w[period], p_z[m], p_x[m], block)
        _factor(block)
        for n in range(n_sources):
            step_z[m, n] = -g_z[m, n]
        _solve(block, step_z[m])
        for g in range(n_groups):
            for n in range(n_sources):
                value = 0.0
                for i in range(n_channels):
                    value += w[period, i, n] * p_x[m, i] * design[period, i, g]
                fit[g, n] = value
            _solve(block, fit[g])
            for i in range(n_channels):
                value = design[period, i, g]
                for n in range(n_sources):
                    value -= w[period, i, n] * fit[g, n]
                rest[g, i] = value
        for g in range(n_groups):
            for n in range(n_sources):
                drive[g] -= fit[g, n] * g_z[m, n]
            for h in range(g + 1):
                value = 0.0
                for i in range(n_channels):
                    value += p_x[m, i] * rest[g, i] * rest[h, i]
                for n in range(n_sources):
                    value += p_z[m, n] * fit[g, n] * fit[h, n]
                shared[g, h] += value
                if h < g:
                    shared[h, g] += value
        period = period + 1 if period + 1 < periods else 0


@kernel(signature("void", _R3, _R2, _R3, _R1, _R2, _R2, _R1, _F2))
def follow_groups(
    w: Array, moved: Array, fits: Array, sums: Array, p_z: Array, p_x: Array, offset: Array, step_z: Array
) -> None:
    """Complete the step of theta_z from `eliminate_sources`, given the sums of the groups.

    `moved` (periods, channels) is the effect of the sums on log p(x); `offset` (sources) converts the step
    of log p(z) to that of theta_z. If the fits are not stored, each sample is solved again, which needs no
    memory.
    """
    n_samples, n_sources = p_z.shape
    periods, n_channels, _ = w.shape
    block = np.empty((n_sources, n_sources))
    follow = np.empty(n_sources)
    period = 0
    for m in range(n_samples):
        if len(fits) == n_samples:
            follow[:] = 0.0
            for g in range(len(sums)):
                for n in range(n_sources):
                    follow[n] += fits[m, g, n] * sums[g]
        else:
            _fill_source_block(w[period], p_z[m], p_x[m], block)
            _factor(block)
            for n in range(n_sources):
                follow[n] = 0.0
                for i in range(n_channels):
                    follow[n] += w[period, i, n] * p_x[m, i] * moved[period, i]
            _solve(block, follow)
        for n in range(n_sources):
            step_z[m, n] -= follow[n] + offset[n]
        period = period + 1 if period + 1 < periods else 0


@kernel(signature(_PAIR, _R3, _R1, _R2, _R2, _R2, _R2, _R2, _F2, _F2))
def fill_response(
    w: Array, c: Array, d: Array, step_z: Array, g_z: Array, p_z: Array, p_x: Array, u_z: Array, u_x: Array
) -> tuple[float, float]:
    """Fill u, the change of log p + psi along a step, for the source and received layers.

    Returns the contributions of these layers to the mean of u under p, and to the slope of the divergence.
    """
    n_samples, n_sources = step_z.shape
    periods, n_channels, _ = w.shape
    mean = 0.0
    slope = 0.0
    period = 0
    for m in range(n_samples):
        for n in range(n_sources):
            u_z[m, n] = step_z[m, n] + c[n]
            mean += p_z[m, n] * u_z[m, n]
            slope += g_z[m, n] * step_z[m, n]
        for i in range(n_channels):
            value = d[period, i]
            for n in range(n_sources):
                value += w[period, i, n] * step_z[m, n]
            u_x[m, i] = value
            mean += p_x[m, i] * value
        period = period + 1 if period + 1 < periods else 0
    return mean, slope


@helper
def _compute_exp_excess(x: float) -> float:
    """Return exp(x) - 1 - x to full precision; infinity if exp overflows."""
    if x > 700.0:
        return math.inf
    if abs(x) > 0.1:
        return math.expm1(x) - x
    series = 1.0
    for k in range(11, 2, -1):
        series = 1.0 + x / k * series
    return 0.5 * x * x * series


@helper
def _sum_layer_excess(p: Array, u: Array, mean: float, t: float) -> float:
    total = 0.0
    for m in range(p.shape[0]):
        for n in range(p.shape[1]):
            total += p[m, n] * _compute_exp_excess(t * (u[m, n] - mean))
    return total


@kernel(signature("float64", _R2, _R2, _R2, _R2, _R2, _R2, "float64", "float64", "float64"))
def compute_exp_excess(
    p_z: Array,
    u_z: Array,
    p_x: Array,
    u_x: Array,
    p_a: Array,
    u_a: Array,
    p_bottom: float,
    mean: float,
    t: float,
) -> float:
    """Return the sum over all states of p (exp(v) - 1 - v) with v = t (u - mean); u of bottom is 0."""
    total = p_bottom * _compute_exp_excess(-t * mean)
    total += _sum_layer_excess(p_a, u_a, mean, t)
    total += _sum_layer_excess(p_z, u_z, mean, t)
    total += _sum_layer_excess(p_x, u_x, mean, t)
    return total


@kernel(signature("void", _R3, _R3, _R2, _R2, _F3, _F3))
def fill_fisher_blocks(w: Array, below: Array, p_z: Array, p_x: Array, blocks: Array, cross: Array) -> None:
    """Fill the uncentred information of the source layer and its cross terms with the mixing layer.

    `blocks` (samples, sources, sources) has one block per sample. `cross` (samples, sources, subsets) is
    the mass above a source node and a mixing node, which does not depend on the channel of the latter. On
    entry, `cross` must contain the membership of sources in subsets (1 where n is in S).
    """
    n_samples, n_sources = p_z.shape
    periods, n_channels, n_subsets = below.shape
    period = 0
    for m in range(n_samples):
        _fill_source_block(w[period], p_z[m], p_x[m], blocks[m])
        for n in range(n_sources):
            for s in range(n_subsets):
                value = cross[m, n, s] * p_z[m, n]
                for i in range(n_channels):
                    value += below[period, i, s] * w[period, i, n] * p_x[m, i]
                cross[m, n, s] = value
        period = period + 1 if period + 1 < periods else 0
