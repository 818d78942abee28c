"""Kernels that watch the channels of a stream, in float32 or float64, block by block.

They go through the samples one by one: what they find is the same for every division into blocks.
"""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, kernel, signature

Samples = NDArray[np.float32] | NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]

_REALS = ("float32", "float64")
_F1, _I1, _I2 = array_type("float64", 1), array_type("int64", 1), array_type("int64", 2)
_B2 = array_type("boolean", 2)


def _samples(real: str) -> str:
    return array_type(real, 2, readonly=True)


@kernel(*(signature("boolean", _samples(real), "float64", _B2) for real in _REALS))
def mark_usable(x: Samples, largest: float, usable: Mask) -> bool:
    """Fill which samples are finite and of at most this magnitude; return whether all are."""
    all_usable = True
    for m in range(x.shape[0]):
        for k in range(x.shape[1]):
            good = abs(x[m, k]) <= largest
            usable[m, k] = good
            all_usable &= good
    return all_usable


@kernel(*(signature("boolean", _samples(real), _F1, _F1) for real in _REALS))
def find_largest(x: Samples, limit: NDArray[np.float64], largest: NDArray[np.float64]) -> bool:
    """Update the largest magnitude of each channel; return whether a sample exceeds its limit."""
    exceeds = False
    for m in range(x.shape[0]):
        for k in range(x.shape[1]):
            size = np.float64(abs(x[m, k]))
            largest[k] = max(largest[k], size)
            exceeds |= size > limit[k]
    return exceeds


@kernel(
    *(
        signature("int64", _samples(real), _B2, "boolean", _I1, array_type(real, 1), _I1, _I1, _I1, _I2)
        for real in _REALS
    )
)
def track_runs(
    x: Samples,
    usable: Mask,
    is_new: bool,
    limit: Counts,
    last: Samples,
    length: Counts,
    longest: Counts,
    longest_ended: Counts,
    reached: Counts,
) -> int:
    """Continue the runs of samples that repeat the previous one or are not usable.

    `last` and `length` are those of the last sample, `longest` and `longest_ended` the lengths of the
    longest run and of the longest that ended. Rows of `reached`, (row, channel, whether it repeats a
    value), state where runs reach their limit, or exceed it at the first sample if `is_new`, except where
    half of the channels do. Returns their number.
    """
    n_channels, n_reached = x.shape[1], 0
    is_equal, is_first = np.zeros(n_channels, np.bool_), np.zeros(n_channels, np.bool_)
    n_running = 0
    for k in range(n_channels):
        n_running += length[k] > 0
    for m in range(x.shape[0]):
        repeats = False
        for k in range(n_channels):
            is_equal[k] = x[m, k] == last[k]
            last[k] = x[m, k]
            repeats |= is_equal[k] | (not usable[m, k])
        if not repeats and n_running == 0:  # nearly always
            continue
        n_stuck, n_first, n_running = 0, 0, 0
        for k in range(n_channels):
            before = length[k]
            is_first[k] = False
            if is_equal[k] or not usable[m, k]:
                length[k] = before + 1
                n_running += 1
                longest[k] = max(longest[k], length[k])
                if length[k] >= limit[k]:
                    n_stuck += 1
                    is_first[k] = before < limit[k] or (is_new and m == 0)
                    n_first += is_first[k]
            elif before > 0:
                longest_ended[k] = max(longest_ended[k], before)
                length[k] = 0
        if n_first > 0 and 2 * n_stuck < n_channels:
            for k in range(n_channels):
                if is_first[k]:
                    reached[n_reached, 0], reached[n_reached, 1] = m, k
                    reached[n_reached, 2] = is_equal[k]
                    n_reached += 1
    return n_reached
