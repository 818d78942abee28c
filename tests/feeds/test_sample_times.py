"""Times between those of samples get the index that the samples have at that time."""

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.feeds.sample_times import SampleTimes
from igbss_stream.feeds.timestamps import TimestampIndexer

RATE, CLOCK = 500.0, 57_000.0
Times = NDArray[np.float64]


def push(indexer: TimestampIndexer, times: Times, block: int = 16) -> None:
    for start in range(0, len(times), block):
        part = times[start : start + block]
        indexer.push(np.zeros((len(part), 1)), part)


@pytest.mark.parametrize("block", [1, 7, 500])
@pytest.mark.parametrize("true_rate", [500.0, 500.05, 499.0])
def test_jitter_is_averaged(true_rate: float, block: int) -> None:
    """Blocks that are stamped up to 10 ms late or early: a marker is found to 1 sample all the same."""
    rng = np.random.default_rng(90_201)
    n = 20_000
    exact = CLOCK + np.arange(n) / true_rate
    indexer, errors = TimestampIndexer(RATE), []
    stamped = exact + np.repeat(rng.uniform(-0.01, 0.01, n // 16 + 1), 16)[:n]
    for start in range(0, n, 500):
        push(indexer, stamped[start : start + 500], block)
        for index in rng.uniform(max(0, start - 50), start + 480, 5):
            found = indexer.times.find_index(CLOCK + index / true_rate)
            assert found is not None
            errors.append(abs(found - index))
    is_near = abs(true_rate / RATE - 1) < 1e-3
    assert np.quantile(errors if is_near else errors[50:], 0.99) < 1.0  # the rate is known from 4 s on


def test_regular_times_give_exact_indices() -> None:
    indexer = TimestampIndexer(RATE)
    push(indexer, CLOCK + np.arange(10_000) / RATE)
    for index in (0.0, 3.25, 5000.5, 9998.9):
        assert indexer.times.find_index(CLOCK + index / RATE) == pytest.approx(index, abs=1e-4)
    assert indexer.times.find_index(CLOCK - 2 / RATE) == pytest.approx(-2.0, abs=1e-4)


def test_a_time_that_the_samples_have_not_reached_is_not_known() -> None:
    times = SampleTimes()
    assert times.find_index(CLOCK) is None
    times.add(100, CLOCK + np.arange(10) / RATE, RATE)
    assert times.find_index(CLOCK + 0.1) is None
    assert times.find_index(CLOCK + 0.1, beyond=True) == pytest.approx(150.0)
    times.add(110, np.zeros(0), RATE)
    assert times.find_index(CLOCK + 9 / RATE) == pytest.approx(109.0)


@pytest.mark.parametrize("n_missing", [40, 5000])
def test_a_time_within_a_gap_has_an_index_of_the_gap(n_missing: int) -> None:
    index = np.concatenate([np.arange(3000), np.arange(3000 + n_missing, 6000 + n_missing)])
    indexer = TimestampIndexer(RATE, tolerance=0.01)
    push(indexer, CLOCK + index / RATE)
    assert indexer.samples_lost == n_missing
    for at in (2999.0, 3000.0 + n_missing / 3, 3001.0 + n_missing, 5000.0 + n_missing):
        assert indexer.times.find_index(CLOCK + at / RATE) == pytest.approx(at, abs=0.01)


@pytest.mark.parametrize("shift", [-100.0, 1e6])
def test_a_clock_that_was_set_begins_another_line(shift: float) -> None:
    times = CLOCK + np.arange(6000) / RATE
    times[3000:] += shift
    indexer = TimestampIndexer(RATE)
    push(indexer, times)
    assert indexer.times.find_index(CLOCK + shift + 5000 / RATE) == pytest.approx(5000.0, abs=0.01)
