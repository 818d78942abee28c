"""Runs of equal values, against a loop over all values."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream._util.runs import split_runs


def split_naively(values: list[bool]) -> list[tuple[int, int]]:
    runs, start = [], 0
    for _, run in itertools.groupby(values):
        stop = start + len(list(run))
        runs.append((start, stop))
        start = stop
    return runs


@given(st.lists(st.booleans(), max_size=60))
def test_the_runs_are_those_of_a_loop(values: list[bool]) -> None:
    mask, expected = np.array(values, np.bool_), split_naively(values)
    assert list(map(tuple, split_runs(mask).tolist())) == expected
    for value in (True, False):
        wanted = [(start, stop) for start, stop in expected if values[start] is value]
        assert list(map(tuple, split_runs(mask, value).tolist())) == wanted


@pytest.mark.parametrize(
    ("values", "runs"), [([], []), ([7], [[0, 1]]), ([3, 3, 1, 3], [[0, 2], [2, 3], [3, 4]])]
)
def test_values_need_not_be_booleans(values: list[int], runs: list[list[int]]) -> None:
    assert split_runs(np.array(values, np.int64)).tolist() == runs
    assert split_runs(np.array(values, np.int64)).shape == (len(runs), 2)
