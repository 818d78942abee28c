"""Runs of NaN, compared with a loop over all samples."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.files.nonfinite_runs import NonfiniteRuns


def walked(x: NDArray[np.float64]) -> list[tuple[int, int, int]]:
    """Return (start, length, channel) of each run, by start and channel."""
    found = []
    for channel in range(x.shape[1]):
        row = 0
        for is_bad, group in itertools.groupby(~np.isfinite(x[:, channel])):
            length = len(list(group))
            if is_bad:
                found.append((row, length, channel))
            row += length
    return sorted(found, key=lambda run: (run[0], run[2]))


def run_over(x: NDArray[np.float64], block: int, most: int = 10_000) -> NonfiniteRuns:
    runs = NonfiniteRuns(x.shape[1], most)
    for at in range(0, len(x), block):
        runs.update(x[at : at + block])
    return runs


@given(
    seed=st.integers(0, 10_000),
    share=st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]),
    block=st.integers(1, 40),
)
def test_runs_do_not_depend_on_the_blocks(seed: int, share: float, block: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rng.integers(1, 80), rng.integers(1, 5)))
    x[rng.random(x.shape) < share] = rng.choice([np.nan, np.inf, -np.inf])
    runs = run_over(x, block)
    assert runs.finish().tolist() == walked(x)
    assert runs.n_runs == len(walked(x))


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_the_longest_of_many_runs_are_kept(block: int) -> None:
    rng = np.random.default_rng(0)
    x = np.where(rng.random((1000, 3)) < 0.5, np.nan, 1.0)
    runs = run_over(x, block, most=20)
    kept = runs.finish().tolist()
    lengths = sorted((run[1] for run in walked(x)), reverse=True)
    assert sorted((run[1] for run in kept), reverse=True) == lengths[:20]
    assert set(kept) <= set(walked(x))
    assert runs.n_runs == len(lengths)
