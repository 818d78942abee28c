"""Kernels that watch the channels of a stream, in float32 or float64, block by block.

They go through the samples one by one: what they find is the same for every division into blocks.
"""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels.jit import array_type, helper, kernel, signature

Samples = NDArray[np.float32] | NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float32]
Reals = NDArray[np.float64]

ROWS = 4
"""Samples, and inputs of a sum, that are processed at a time: a quarter of the loads and stores."""

_REALS = ("float32", "float64")
_F1, _F2 = array_type("float32", 1), array_type("float32", 2)
_D1 = array_type("float64", 1)
_I1, _I2 = array_type("int64", 1), array_type("int64", 2)
_B1, _B2 = array_type("boolean", 1), array_type("boolean", 2)


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


# Deviations are a linear map of samples: `weights` times their distance from a `center`, plus an `offset`.
# Sums run in float32, which is twice as fast, and precise as long as the center is near. Their order is
# fixed.


@helper
def _sum_rows(z: Floats, weights: Floats, offset: Floats, rows: Floats) -> None:
    """Fill rows = z @ weights + offset, of four samples with a multiple of four inputs."""
    for m in range(ROWS):
        for n in range(weights.shape[1]):  # a slice would compile the message of an error, for seconds
            rows[m, n] = offset[n]
    for i in range(0, weights.shape[0], 4):
        a, b, c, d = z[0, i], z[0, i + 1], z[0, i + 2], z[0, i + 3]
        e, f, g, h = z[1, i], z[1, i + 1], z[1, i + 2], z[1, i + 3]
        j, k, l, m = z[2, i], z[2, i + 1], z[2, i + 2], z[2, i + 3]  # noqa: E741
        o, p, q, r = z[3, i], z[3, i + 1], z[3, i + 2], z[3, i + 3]
        for n in range(weights.shape[1]):
            s, t, u, v = weights[i, n], weights[i + 1, n], weights[i + 2, n], weights[i + 3, n]
            rows[0, n] = (((rows[0, n] + a * s) + b * t) + c * u) + d * v
            rows[1, n] = (((rows[1, n] + e * s) + f * t) + g * u) + h * v
            rows[2, n] = (((rows[2, n] + j * s) + k * t) + l * u) + m * v
            rows[3, n] = (((rows[3, n] + o * s) + p * t) + q * u) + r * v


@helper
def _find_far(
    x: Samples, center: Samples, weights: Floats, offset: Floats, limit: Floats, found: Floats, is_far: Mask
) -> bool:
    """Do what `find_far` does."""
    n_samples, n_channels = x.shape
    n_used, any_far = weights.shape[1], False
    z, rows = np.zeros((ROWS, weights.shape[0]), np.float32), np.empty((ROWS, n_used), np.float32)
    for start in range(0, n_samples, ROWS):
        size = min(ROWS, n_samples - start)
        for m in range(size):
            for k in range(n_channels):
                z[m, k] = np.float32(x[start + m, k] - center[k])
        _sum_rows(z, weights, offset, rows)
        for m in range(size, ROWS):
            for n in range(n_used):
                rows[m, n] = 0.0
        all_near = True
        for n in range(n_used):
            a, b, c, d = abs(rows[0, n]), abs(rows[1, n]), abs(rows[2, n]), abs(rows[3, n])
            most = limit[n]
            all_near &= (a <= most) & (b <= most) & (c <= most) & (d <= most)
            found[0, n] = max(found[0, n], max(max(a, b), max(c, d)))
            found[1, n] = (((found[1, n] + a * a) + b * b) + c * c) + d * d
        for m in range(size):
            is_far[start + m] = False
        if not all_near:  # nearly never
            any_far = True
            for m in range(size):
                for n in range(n_used):
                    is_far[start + m] |= not abs(rows[m, n]) <= limit[n]
    return any_far


@kernel(
    *(signature("boolean", _samples(real), array_type(real, 1), _F2, _F1, _F1, _F2, _B1) for real in _REALS)
)
def find_far(
    x: Samples, center: Samples, weights: Floats, offset: Floats, limit: Floats, found: Floats, is_far: Mask
) -> bool:
    """Fill which samples have a deviation beyond its limit, or not a number; return whether any has.

    `weights` is (channels, deviations), with rows of zeros up to a multiple of four. `found` has the
    largest magnitude and the sum of squares of each deviation so far, and is updated.
    """
    return _find_far(x, center, weights, offset, limit, found, is_far)


@helper
def _track_runs(
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
    """Do what `track_runs` does."""
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
    return _track_runs(x, usable, is_new, limit, last, length, longest, longest_ended, reached)


@helper
def _has_long_run(x: Samples, is_new: bool, runs: Counts, last: Samples) -> bool:
    """Return whether a run of usable samples reaches its limit, otherwise continue the runs."""
    after, fewest = runs.copy(), runs[0, 0]
    for k in range(x.shape[1]):
        fewest = min(fewest, runs[0, k])
    usable = np.ones(x.shape, np.bool_)
    reached = np.empty(((x.shape[0] // fewest + 2) * x.shape[1], 3), np.int64)
    if _track_runs(x, usable, is_new, runs[0], last.copy(), after[1], after[2], after[3], reached) > 0:
        return True
    for k in range(x.shape[1]):
        runs[1, k], runs[2, k], runs[3, k] = after[1, k], after[2, k], after[3, k]
    return False


@kernel(
    *(
        signature(
            "boolean", _samples(real), "float64", array_type(real, 1), _F2, _F2, _F2,
            "boolean", _I2, array_type(real, 1),
        )
        for real in _REALS
    )
)  # fmt: skip
def screen(
    x: Samples,
    largest: float,
    center: Samples,
    weights: Floats,
    bounds: Floats,
    found: Floats,
    is_new: bool,
    runs: Counts,
    last: Samples,
) -> bool:
    """Do what `mark_usable`, `find_far` and `track_runs` do if nothing is unusual; return whether it is so.

    The rows of `bounds` are the offset and the limit of the deviations. Those of `runs` are `limit`,
    `length`, `longest` and `longest_ended` of `track_runs`: each array of a call takes as long as four
    samples. Nothing is updated if a sample is not usable or far, or a run reaches its limit.
    """
    usable, has_run = True, False
    for k in range(x.shape[1]):
        usable &= abs(x[0, k]) <= largest
        has_run |= (x[0, k] == last[k]) | (runs[1, k] > 0)
    for m in range(1, x.shape[0]):
        for k in range(x.shape[1]):
            usable &= abs(x[m, k]) <= largest
            has_run |= x[m, k] == x[m - 1, k]
    if not usable:
        return False
    trial = found.copy()
    is_far = np.empty(x.shape[0], np.bool_)
    if _find_far(x, center, weights, bounds[0], bounds[1], trial, is_far):
        return False
    if has_run and _has_long_run(x, is_new, runs, last):
        return False
    for n in range(found.shape[1]):
        found[0, n], found[1, n] = trial[0, n], trial[1, n]
    for k in range(x.shape[1]):
        last[k] = x[x.shape[0] - 1, k]
    return True


@kernel(signature("void", _I2, _B1, _I1, _I1, "int64", "int64", "int64", "int64", "int64"))
def finish_runs(
    runs: Counts,
    good: Mask,
    usual: Counts,
    n_cells: Counts,
    cell: int,
    fewest: int,
    times_usual: int,
    least_at_first: int,
    cells_to_learn: int,
) -> None:
    """End a cell of `runs`, which `screen` describes: learn what is usual, and set the limits.

    `usual` is the length of the longest run of each channel while it was `good`, and `n_cells` the number
    of such cells that were not one run. A limit is a multiple of what is usual, and at least `fewest`.
    Until enough cells were learned from, it is at least `least_at_first` as well.
    """
    for k in range(runs.shape[1]):
        if good[k] and runs[2, k] < runs[0, k]:
            usual[k] = max(usual[k], runs[3, k])
            n_cells[k] += runs[2, k] < cell
        runs[2, k], runs[3, k] = 0, 0
        runs[0, k] = max(fewest, times_usual * usual[k])
        if n_cells[k] < cells_to_learn:
            runs[0, k] = max(runs[0, k], least_at_first)


@kernel(
    *(
        signature("void", _D1, _D1, _I1, "float64", "float64", array_type(real, 1), _F1, _F1)
        for real in _REALS
    )
)
def begin_screen(
    level: Reals,
    usual: Reals,
    used: Counts,
    least: float,
    times_usual: float,
    center: Samples,
    rounding: Floats,
    limit: Floats,
) -> None:
    """Fill what `screen` needs: `center`, its `rounding`, and the `limit` of each of the `used` channels.

    A limit is a multiple of what is usual, and at least `least`; it is infinite where nothing is usual.
    """
    for k in range(len(level)):
        center[k] = level[k]
        rounding[k] = np.float32(np.float64(center[k]) - level[k])
    for n in range(len(used)):
        most = usual[used[n]]
        limit[n] = np.float32(max(least, times_usual * most)) if most > 0.0 else np.float32(np.inf)


@kernel(signature("float64", _F2, _I1, _B1, "boolean", _D1, _D1))
def finish_deviations(
    found: Floats, used: Counts, good: Mask, is_learned: bool, largest: Reals, usual: Reals
) -> float:
    """End a cell of deviations of some `used` channels, which `find_far` has `found`.

    `largest` is the largest deviation of each channel before those that were found; it is set to zero. If
    `is_learned`, `usual` becomes the largest so far of the channels that were `good`. Returns the largest
    sum of squares; infinity if it is not a number.
    """
    power = 0.0
    for n in range(len(used)):
        largest[used[n]] = max(largest[used[n]], np.float64(found[0, n]))
        power = max(power, np.float64(found[1, n])) if found[1, n] >= 0.0 else np.inf
    for k in range(len(largest)):
        if is_learned and good[k] and not usual[k] >= largest[k]:
            usual[k] = largest[k]
        largest[k] = 0.0
    return power


@kernel(*(signature("void", _D1, _D1, array_type(real, 1), array_type(real, 1), _B1) for real in _REALS))
def widen(low: Reals, high: Reals, lower: Samples, higher: Samples, used: Mask) -> None:
    """Extend the range of the channels that are used to another range."""
    for k in range(len(low)):
        if used[k]:
            low[k], high[k] = min(low[k], np.float64(lower[k])), max(high[k], np.float64(higher[k]))
