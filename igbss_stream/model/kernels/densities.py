"""Kernels for learned densities: histograms of innovations, and look-up of tables at innovations.

Tables have nodes at equal distances on the axis u = t / (1 + t^2)^(1/4), where t is an innovation divided
by its scale. The axis is linear near zero and grows with the square root of large innovations. It requires
square roots only, which are rounded identically on all platforms, unlike logarithms.
"""

import math

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Array = NDArray[np.float64]

LIMIT = 9.0
"""Nodes extend from -LIMIT to LIMIT on the axis u, that is, to about 81 scales."""

_BLOCK = 1024  # samples at a time, for intermediate results to stay in the L1 cache
_F1, _F2 = (array_type("float64", n) for n in (1, 2))
_R1, _R2 = (array_type("float64", n, readonly=True) for n in (1, 2))


@helper
def locate(e: Array, inverse_scale: float, n_nodes: int, out: Array) -> None:
    """Fill out with the position of innovations between nodes; those beyond the nodes are at the ends."""
    per_unit = 0.5 * (n_nodes - 1) / LIMIT
    last = n_nodes - 1.001
    for t in range(len(e)):
        scaled = e[t] * inverse_scale
        u = scaled / math.sqrt(math.sqrt(1.0 + scaled * scaled))
        out[t] = min(max((u + LIMIT) * per_unit, 0.0), last)


@kernel(signature("void", _R2, _R1, _F2))
def count_innovations(e: Array, scale: Array, counts: Array) -> None:
    """Fill counts with histograms of rows; an innovation is shared by the two nodes next to it."""
    n_samples, n_nodes = e.shape[1], counts.shape[1]
    at = np.empty(_BLOCK)
    counts[:] = 0.0
    for i in range(e.shape[0]):
        row = counts[i]
        for start in range(0, n_samples, _BLOCK):
            part = e[i, start : start + _BLOCK]
            locate(part, 1.0 / scale[i], n_nodes, at)
            for t in range(len(part)):
                node = int(at[t])
                beyond = at[t] - node
                row[node] += 1.0 - beyond
                row[node + 1] += beyond


@kernel(signature("void", _R2, _R1, _R2, _R2, _F2, _F1, _F1))
def look_up_scores(
    e: Array, scale: Array, losses: Array, slopes: Array, scores: Array, loss: Array, power: Array
) -> None:
    """Fill scores by look-up in slopes, loss with row means of the losses, power with those of scores^2."""
    n_samples, n_nodes = e.shape[1], losses.shape[1]
    at = np.empty(_BLOCK)
    for i in range(e.shape[0]):
        loss_table, slope_table = losses[i], slopes[i]
        total, square = 0.0, 0.0
        for start in range(0, n_samples, _BLOCK):
            part, score = e[i, start : start + _BLOCK], scores[i, start : start + _BLOCK]
            locate(part, 1.0 / scale[i], n_nodes, at)
            for t in range(len(part)):
                node = int(at[t])
                beyond = at[t] - node
                total += loss_table[node] + beyond * (loss_table[node + 1] - loss_table[node])
                value = slope_table[node] + beyond * (slope_table[node + 1] - slope_table[node])
                score[t] = value
                square += value * value
        loss[i], power[i] = total / n_samples, square / n_samples


@kernel(signature("void", _R2, _R1, _R2, _F2))
def look_up(e: Array, scale: Array, table: Array, out: Array) -> None:
    """Fill out with the values of a table, (rows, nodes), at innovations."""
    at = np.empty(_BLOCK)
    for i in range(e.shape[0]):
        row = table[i]
        for start in range(0, e.shape[1], _BLOCK):
            part, found = e[i, start : start + _BLOCK], out[i, start : start + _BLOCK]
            locate(part, 1.0 / scale[i], table.shape[1], at)
            for t in range(len(part)):
                node = int(at[t])
                found[t] = row[node] + (at[t] - node) * (row[node + 1] - row[node])
