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


def make_deviations(n_channels: int, n_used: int, dtype: Any) -> tuple[Any, Any, Any, Any]:
    """Return center, weights, offset and limit of a test, the weights with rows of zeros at the end."""
    rng = np.random.default_rng(9341)
    weights = np.zeros((-(-n_channels // 4) * 4, n_used), np.float32)
    weights[:n_channels] = rng.standard_normal((n_channels, n_used))
    center, offset = rng.standard_normal(n_channels), rng.standard_normal(n_used)
    return center.astype(dtype), weights, offset.astype(np.float32), np.full(n_used, 12.0, np.float32)


@pytest.mark.parametrize("n_used", [0, 3, 7])
def test_far_samples_are_those_whose_deviation_exceeds_the_limit(x: Any, n_used: int) -> None:
    y = np.where(np.isfinite(x), x, 5.0).astype(x.dtype)
    center, weights, offset, limit = make_deviations(7, n_used, x.dtype)
    found, is_far = np.zeros((2, n_used), np.float32), np.empty(len(y), bool)
    any_far = channels.find_far(y, center, weights, offset, limit, found, is_far)
    deviations = np.abs((y - center).astype(np.float64) @ weights[:7].astype(np.float64) + offset)
    assert np.array_equal(is_far, (deviations > 12.0).any(axis=1))
    assert any_far == is_far.any() == (n_used > 0)
    np.testing.assert_allclose(found[0], deviations.max(axis=0, initial=0.0), rtol=1e-5)
    np.testing.assert_allclose(found[1], (deviations**2).sum(axis=0), rtol=1e-4)


def test_a_deviation_that_is_no_number_is_far() -> None:
    y = np.zeros((5, 4), np.float32)
    y[3] = 3e38, -3e38, 0.0, 0.0
    center, weights = np.zeros(4, np.float32), np.full((4, 1), 10.0, np.float32)
    found, is_far = np.zeros((2, 1), np.float32), np.empty(5, bool)
    limit = np.full(1, np.inf, np.float32)
    with np.errstate(all="ignore"):
        assert channels.find_far(y, center, weights, np.zeros(1, np.float32), limit, found, is_far)
    assert is_far.tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("block", [1, 13, 300])
def test_screening_gives_what_the_single_kernels_give_or_changes_nothing(x: Any, block: int) -> None:
    """Blocks with a sample that is not usable or far, or with a run that reaches its limit, do not pass."""
    center, weights, offset, limit = make_deviations(7, 5, x.dtype)
    y = np.where(np.isfinite(x), x, 1.0).astype(x.dtype)
    y[100, 3], y[200:203, 6] = np.nan, 40.0
    runs = np.zeros((4, 7), np.int64)
    runs[0] = 4, 5, 8, 9, 10, 11, 50
    found, last = np.zeros((2, 5), np.float32), np.full(7, np.nan, x.dtype)
    n_passed, reasons = 0, set()
    for at in range(0, len(y), block):
        part, is_new = y[at : at + block], at % 100 == 0
        before: list[Any] = [found.copy(), runs.copy(), last.copy()]
        passes = channels.screen(
            part, 1e30, center, weights, np.stack((offset, limit)), found, is_new, runs, last
        )
        expected = found_apart, runs_apart, last_apart = [state.copy() for state in before]
        usable, is_far = np.empty(part.shape, bool), np.empty(len(part), bool)
        is_usable = channels.mark_usable(part, 1e30, usable)
        is_near = is_usable and not channels.find_far(
            part, center, weights, offset, limit, found_apart, is_far
        )
        reached = np.zeros((7 * block, 3), np.int64)
        length, longest, ended = runs_apart[1:]
        n = channels.track_runs(part, usable, is_new, runs[0], last_apart, length, longest, ended, reached)
        assert passes == (is_near and n == 0)
        if passes:
            n_passed += len(part)
        else:
            reasons.add("unusable" if not is_usable else "run" if is_near else "far")
            expected = before
        for state, other in zip((found, runs, last), expected, strict=True):
            np.testing.assert_array_equal(state, other)
    assert (n_passed > 0) == (block < 300)
    assert (
        reasons == {1: {"unusable", "far", "run"}, 13: {"unusable", "far", "run"}, 300: {"unusable"}}[block]
    )


def test_what_is_usual_of_runs_is_learned_from_good_channels_that_were_not_stuck() -> None:
    rng = np.random.default_rng(9342)
    runs, good = rng.integers(0, 40, (4, 50)), rng.random(50) < 0.7
    usual, n_cells = rng.integers(0, 10, 50), rng.integers(5, 12, 50)
    learned = good & (runs[2] < runs[0])
    longest = np.where(learned, np.maximum(usual, runs[3]), usual)
    cells = n_cells + (learned & (runs[2] < 30))
    limit = np.maximum(8, 4 * longest)
    limit = np.where(cells >= 8, limit, np.maximum(limit, 25))
    length = runs[1].copy()
    channels.finish_runs(runs, good, usual, n_cells, 30, 8, 4, 25, 8)
    assert np.array_equal(usual, longest)
    assert np.array_equal(n_cells, cells)
    assert np.array_equal(runs, [limit, length, np.zeros(50), np.zeros(50)])


@pytest.mark.parametrize("is_learned", [False, True])
def test_what_is_usual_of_deviations_is_learned_from_good_channels(is_learned: bool) -> None:
    rng = np.random.default_rng(9343)
    found, used = rng.random((2, 30)).astype(np.float32), np.sort(rng.permutation(50)[:30])
    good, largest, usual = rng.random(50) < 0.7, rng.random(50), rng.random(50)
    found[0, 3] = np.nan
    most, expected = largest.copy(), usual.copy()
    most[used] = np.fmax(most[used], found[0])
    if is_learned:
        expected[good] = np.maximum(expected, most)[good]
    power = channels.finish_deviations(found, used, good, is_learned, largest, usual)
    assert power == found[1].max()
    assert np.array_equal(usual, expected)
    assert not largest.any()
    found[1, 7] = np.nan
    assert channels.finish_deviations(found, used, good, is_learned, largest, usual) == np.inf


def test_a_screen_keeps_what_the_rounding_of_its_center_leaves(x: Any) -> None:
    level, usual = np.array([1e7 + 0.3, -2.0, 0.1]), np.array([0.0, 4.0, 9.0])
    center, rounding, limit = np.empty(3, x.dtype), np.empty(3, np.float32), np.empty(2, np.float32)
    channels.begin_screen(level, usual, np.array([0, 2]), 15.0, 3.0, center, rounding, limit)
    assert np.array_equal(center, level.astype(x.dtype))
    assert np.array_equal(rounding, (center - level).astype(np.float32))
    assert limit.tolist() == [np.inf, 27.0]
    channels.begin_screen(level, usual, np.array([1, 2]), 15.0, 3.0, center, rounding, limit)
    assert limit.tolist() == [15.0, 27.0]


def test_a_range_is_widened_where_channels_are_used(x: Any) -> None:
    low, high = np.array([np.inf, 1.0, 1.0, 1.0]), np.array([-np.inf, 2.0, 2.0, 2.0])
    lower, higher = np.array([5, 0, 3, 0], x.dtype), np.array([6, 7, 1, 7], x.dtype)
    channels.widen(low, high, lower, higher, np.array([True, True, True, False]))
    assert low.tolist() == [5.0, 0.0, 1.0, 1.0]
    assert high.tolist() == [6.0, 7.0, 2.0, 2.0]


def test_deviations_are_the_same_for_all_blocks(x: Any) -> None:
    y = np.where(np.isfinite(x), x, 1.0).astype(x.dtype)
    center, weights, offset, limit = make_deviations(7, 5, x.dtype)
    totals = []
    for block in (1, 2, 7, 300):
        found = np.zeros((2, 5), np.float32)
        for at in range(0, len(y), block):
            part = y[at : at + block]
            channels.find_far(part, center, weights, offset, limit, found, np.empty(len(part), bool))
        totals.append(found.tobytes())
    assert len(set(totals)) == 1


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
