"""Missing samples found by timestamps, compared with the samples that were sent."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.timestamps import TimestampIndexer

RATE = 250.0
CLOCK = 123456.789  # seconds since the sender was switched on


def run(
    index: NDArray[np.int_],
    times: NDArray[np.float64],
    cuts: list[int] | None = None,
    rate: float = RATE,
    **options: Any,
) -> tuple[TimestampIndexer, list[Chunk | Gap]]:
    """Index samples whose values are the index at which they were recorded."""
    indexer = TimestampIndexer(rate, **options)
    data = index[:, None].astype(np.float64)
    out: list[Chunk | Gap] = []
    for start, stop in pairwise([0, *(cuts or []), len(index)]):
        out += indexer.push(data[start:stop], times[start:stop])
    out += indexer.flush()
    assert indexer.samples_in == indexer.samples_out == len(index)
    assert indexer.stop == indexer.samples_out + indexer.samples_lost
    for before, after in pairwise(out):
        assert after.start == before.stop
    return indexer, out


def gaps(out: list[Chunk | Gap]) -> list[Gap]:
    return [item for item in out if isinstance(item, Gap)]


def find_indices(out: list[Chunk | Gap]) -> NDArray[np.int_]:
    """Return the index that each sample was given."""
    return np.concatenate([np.arange(item.start, item.stop) for item in out if isinstance(item, Chunk)])


def samples(out: list[Chunk | Gap]) -> NDArray[np.float64]:
    return np.concatenate([item.data[:, 0] for item in out if isinstance(item, Chunk)])


def without(n: int, *lost: tuple[int, int]) -> NDArray[np.int_]:
    return np.setdiff1d(np.arange(n), np.concatenate([np.arange(start, start + k) for start, k in lost]))


@given(st.integers(0, 2**32), st.integers(60, 2000), st.integers(60, 2000), st.floats(0, 0.045))
def test_losses_are_found_through_jitter(seed: int, first: int, second: int, jitter: float) -> None:
    """Losses longer than tolerance and jitter; each sample gets its index back, to within the jitter."""
    chance = np.random.default_rng(seed)
    index = without(first + second + 8000, (2000, first), (5000 + first, second))
    times = CLOCK + index / RATE + chance.uniform(-jitter / 2, jitter / 2, len(index))
    cuts = sorted(chance.integers(0, len(index), 40).tolist())
    _, out = run(index, times, cuts)
    assert [gap.reason for gap in gaps(out)] == ["lost", "lost"]
    off = np.abs(find_indices(out) - index)
    assert off.max() <= 1 + 2 * jitter * RATE
    assert jitter * RATE >= 0.2 or off.max() == 0
    np.testing.assert_array_equal(samples(out), index)


@given(st.lists(st.integers(0, 4000), max_size=30), st.integers(0, 5))
def test_the_output_does_not_depend_on_the_chunks(cuts: list[int], seed: int) -> None:
    chance = np.random.default_rng(seed)
    index = without(5000, (700, 100), (1500, 30), (3000, 400))
    times = CLOCK + index * 1.001 / RATE + chance.uniform(0, 0.02, len(index))
    times[2000:2100] += 0.5  # a burst
    whole = run(index, times)[1]
    pieces = run(index, times, sorted(min(cut, len(index)) for cut in cuts))[1]
    assert gaps(pieces) == gaps(whole)
    np.testing.assert_array_equal(find_indices(pieces), find_indices(whole))


def test_times_that_follow_from_the_index_show_every_single_loss() -> None:
    index = without(3000, (500, 1), (1000, 2), (1800, 7))
    _, out = run(index, CLOCK + index / RATE, tolerance=0.0)
    assert gaps(out) == [Gap(500, 1, "lost"), Gap(1000, 2, "lost"), Gap(1800, 7, "lost")]
    np.testing.assert_array_equal(find_indices(out), index)


@pytest.mark.parametrize("true_rate", [250.003, 248.0, 252.0])
def test_a_rate_that_is_not_quite_the_nominal_one_is_no_loss(true_rate: float) -> None:
    index = np.arange(100_000)
    assert gaps(run(index, CLOCK + index / true_rate)[1]) == []


def test_a_burst_is_no_loss() -> None:
    """A sender that stalls for 0.8 s stamps what it then sends late, until it has caught up."""
    index = np.arange(5000)
    times = CLOCK + index / RATE
    times[2000:2200] = np.maximum(times[2000:2200], times[2200])
    assert gaps(run(index, times)[1]) == []


@pytest.mark.parametrize("shift", [-3600.0, -0.5, 1e6])
def test_a_clock_that_is_set_is_a_break_and_no_loss(shift: float) -> None:
    index = np.arange(5000)
    times = CLOCK + index / RATE
    times[2000:] += shift
    indexer, out = run(index, times)
    assert gaps(out) == [Gap(2000, 0, "restart")]
    assert indexer.restarts == 1
    np.testing.assert_array_equal(find_indices(out), index)


@pytest.mark.parametrize(
    ("away", "expected"),
    [
        (10.0, Gap(1000, 2500, "disconnected")),
        (0.01, Gap(1000, 2, "disconnected")),
        (0.0, Gap(1000, 0, "disconnected")),
        (-500.0, Gap(1000, 0, "restart")),
    ],
)
def test_an_interruption_is_always_declared(away: float, expected: Gap) -> None:
    indexer = TimestampIndexer(RATE)
    assert indexer.interrupt("disconnected") == []
    data, times = np.zeros((1000, 1)), CLOCK + np.arange(1000) / RATE
    assert gaps(indexer.push(data, times)) == []
    assert indexer.interrupt("disconnected") == []
    out = indexer.push(data, times + 4.0 + away)
    assert gaps(out) == [expected]
    assert indexer.push(data[:0], times[:0]) == []
    assert gaps(indexer.push(data, times + 8.0 + away)) == []


def test_what_is_held_back_is_given_before_an_interruption() -> None:
    indexer = TimestampIndexer(RATE)
    times = CLOCK + np.arange(100) / RATE
    indexer.push(np.zeros((100, 1)), times)
    assert indexer.push(np.ones((100, 1)), times + 5.0) == []
    out = indexer.interrupt("disconnected")
    assert (out[0].start, out[0].stop) == (100, 200)


@pytest.mark.parametrize("name", ["tolerance", "settle"])
def test_impossible_options(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be 0 s or more. Got -1"):
        TimestampIndexer(RATE, **{name: -1})


# Rates that differ from the nominal one

WRONG = [(256.0, 200.0), (128.0, 256.0), (100.0, 92.95), (250.0, 253.0), (512.0, 500.0)]


def stamp(index: NDArray[np.int_], nominal: float, true: float, how: str) -> NDArray[np.float64]:
    """Return the timestamps of samples with given indices, as a kind of sender writes them."""
    times = CLOCK + index / true
    if how == "jitter":
        return times + np.random.default_rng(9001).uniform(-0.015, 0.015, len(times))
    if (
        how == "blocks"
    ):  # a block has the time of its last sample, and the others follow from the nominal rate
        block = round(0.1 * true)
        row = np.arange(len(times))
        last = np.minimum((row // block + 1) * block - 1, len(row) - 1)
        return np.asarray(times[last] - (last - row) / nominal)
    if how == "bursts":  # the sender stalls for 0.6 s, every 7 s
        for at in range(round(7 * true), len(times) - round(true), round(7 * true)):
            stalled = slice(at, at + round(0.6 * true))
            times[stalled] = np.maximum(times[stalled], times[stalled.stop])
    return times


@pytest.mark.parametrize("how", ["even", "jitter", "blocks", "bursts"])
@pytest.mark.parametrize(("nominal", "true"), WRONG)
def test_a_wrong_nominal_rate_is_followed_and_is_no_loss(nominal: float, true: float, how: str) -> None:
    index = np.arange(round(120 * true))
    indexer, out = run(index, stamp(index, nominal, true, how), rate=nominal)
    assert gaps(out) == []
    assert indexer.measured_rate == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("how", ["even", "jitter", "blocks"])
@pytest.mark.parametrize("pause", [(0.8, 2.0), (3.0, 2.0), (30.0, 2.0), (30.0, 0.4)])
@pytest.mark.parametrize(("nominal", "true"), WRONG)
def test_a_loss_is_found_whatever_the_nominal_rate(
    nominal: float, true: float, pause: tuple[float, float], how: str
) -> None:
    first, n_lost = round(pause[0] * true), round(pause[1] * true)
    index = without(round(60 * true), (first, n_lost))
    _, out = run(index, stamp(index, nominal, true, how), rate=nominal)
    (gap,) = gaps(out)
    assert gap.reason == "lost"
    assert abs(gap.n_samples - n_lost) <= max(0.1, 0.1 * pause[1]) * true  # the tolerance
    assert abs(gap.start - first) <= 0.5 * true


@pytest.mark.parametrize("how", ["even", "jitter", "blocks", "bursts"])
def test_clocks_of_devices_differ_a_little(how: str) -> None:
    index = np.arange(300_000)
    indexer, out = run(index, stamp(index, 1000.0, 1000.012, how), rate=1000.0)
    assert gaps(out) == []
    assert indexer.measured_rate is None


@pytest.mark.parametrize("how", ["even", "jitter"])
def test_a_rate_that_changes_is_followed(how: str) -> None:
    """A device that is set to another rate, after a minute that shows the first one."""
    n_first = 60 * 250
    index = np.arange(n_first + 60 * 200)
    times = np.where(index < n_first, index / 250.0, 60 + (index - n_first) / 200.0)
    if how == "jitter":
        times += np.random.default_rng(9002).uniform(-0.01, 0.01, len(times))
    indexer, out = run(index, CLOCK + times)
    assert gaps(out) == []
    assert indexer.measured_rate == pytest.approx(200.0, rel=1e-3)


def test_a_wrong_rate_takes_bounded_memory_and_does_not_depend_on_the_chunks() -> None:
    index = without(40_000, (9000, 500))
    times = stamp(index, 256.0, 200.0, "jitter")
    indexer, out = TimestampIndexer(256.0), list[Chunk | Gap]()
    cuts = np.random.default_rng(9003).integers(0, len(index), 3000)
    for start, stop in pairwise([0, *sorted(cuts.tolist()), len(index)]):
        out += indexer.push(index[start:stop, None].astype(float), times[start:stop])
        assert indexer.samples_in - indexer.samples_out <= 4 * 256
    out += indexer.flush()
    whole = run(index, times, rate=256.0)[1]
    assert gaps(out) == gaps(whole)
    np.testing.assert_array_equal(find_indices(out), find_indices(whole))
    np.testing.assert_array_equal(samples(out), index)


@pytest.mark.parametrize("seed", range(9300, 9340))
def test_times_without_any_rate_take_bounded_work_and_memory(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, n = np.random.default_rng(seed), 7500
    steps = [
        10 ** chance.uniform(-1.5, 1.5, n),
        chance.normal(1, 750, n),
        np.repeat(10 ** chance.uniform(-1, 1, 60), n // 60),
        1 + chance.uniform(0, 3) * np.sin(np.arange(n) * chance.uniform(0.0004, 0.04)),
        np.full(n, 1e-12),
    ][seed % 5]
    n_measured, measure = 0, TimestampIndexer._measure_held

    def count(indexer: TimestampIndexer, times: NDArray[np.float64]) -> bool:
        nonlocal n_measured
        n_measured += 1
        assert n_measured < 1000
        return measure(indexer, times)

    monkeypatch.setattr(TimestampIndexer, "_measure_held", count)
    indexer, times = TimestampIndexer(RATE), CLOCK + np.cumsum(steps) / RATE
    indexer.push(np.zeros((n, 1)), times)
    assert indexer.samples_in - indexer.samples_out <= 4 * 8 * RATE
    indexer.flush()
    assert indexer.samples_out == n
