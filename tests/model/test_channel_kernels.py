"""Kernels that watch channels, against twins that look at each sample anew."""

from typing import Any

import numpy as np
import pytest

from igbss_stream.model.kernels import channels
from tests.reference import count_runs


@pytest.fixture(params=[np.float32, np.float64])
def x(request: pytest.FixtureRequest) -> Any:
    """Return samples in coarse steps, which often repeat, with some that are missing or infinite."""
    rng = np.random.default_rng(9340)
    found = rng.integers(0, 3, (300, 7)).astype(request.param)
    found[100:160, 2], found[40:95, 5], found[200:230, :] = 1.0, np.nan, 2.0
    found[rng.random(found.shape) < 0.02] = np.inf
    return found


def test_usable_samples_are_those_within_the_limit(x: Any) -> None:
    usable = np.empty(x.shape, bool)
    assert not channels.mark_usable(x, 1.5, usable)
    assert np.array_equal(usable, np.isfinite(x) & (x <= 1.5))
    assert channels.mark_usable(np.zeros((3, 2), x.dtype), 0.0, np.empty((3, 2), bool))


def test_the_largest_magnitude_and_whether_one_exceeds_its_limit(x: Any) -> None:
    y = np.nan_to_num(x, nan=0.0, posinf=-4.0)
    largest = np.full(7, 0.5)
    assert not channels.find_largest(y, np.full(7, 4.0), largest)
    assert np.array_equal(largest, np.abs(y).max(axis=0))
    limit = np.full(7, 4.0)
    limit[3] = 3.9
    assert channels.find_largest(y, limit, largest)


@pytest.mark.parametrize("block", [1, 13, 300])
def test_runs_reach_their_limit_where_counting_anew_says_so(x: Any, block: int) -> None:
    usable = np.isfinite(x)
    limit = np.array([4, 5, 8, 9, 10, 11, 50])
    last = np.full(7, np.nan, x.dtype)
    length, longest, ended = (np.zeros(7, np.int64) for _ in range(3))
    found = []
    for at in range(0, len(x), block):
        part, reached = x[at : at + block], np.empty((7 * block, 3), np.int64)
        n = channels.track_runs(
            part, usable[at : at + block], at == 0, limit, last, length, longest, ended, reached
        )
        found += [(row + at, channel, bool(repeats)) for row, channel, repeats in reached[:n].tolist()]
    runs = count_runs(x, usable)
    is_stuck = runs >= limit
    expected = [
        (m, k, bool(x[m, k] == x[m - 1, k]))
        for m, k in np.argwhere(is_stuck).tolist()
        if runs[m, k] == limit[k] and 2 * is_stuck[m].sum() < 7
    ]
    assert found == expected
    assert len(found) > 5
    assert np.array_equal(longest, runs.max(axis=0))
    ends = np.where(runs[1:] == 0, runs[:-1], 0)
    assert np.array_equal(ended, ends.max(axis=0))
