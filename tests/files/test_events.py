"""The table of events, onsets in trigger channels, and the conversion between rows and indices."""

import numpy as np
import pytest

from igbss_stream.chunk import Gap
from igbss_stream.events import Event, Events, OnsetFinder, format_counts
from igbss_stream.files.gaps import get_indices, get_rows

ROWS = [Event(7.5, "rt", 0.25, "events"), Event(2.0, "square", 0.0, "markers"), Event(7.5, "é", 1.0, "x")]


def test_a_table_is_sorted_and_keeps_the_order_of_simultaneous_events() -> None:
    table = Events.from_rows(ROWS)
    assert list(table) == [ROWS[1], ROWS[0], ROWS[2]]
    assert table[1] == ROWS[0]
    assert list(table[1:]) == [ROWS[0], ROWS[2]]
    assert list(table[table.index > 5]) == [ROWS[0], ROWS[2]]


def test_tables_are_joined_counted_and_cut_to_samples() -> None:
    table = Events.join([Events.from_rows(ROWS), Events(), Events([3, -0.4, 7.5], ["rt"] * 3)])
    assert len(table) == 6
    assert table.count_labels() == {"rt": 4, "square": 1, "é": 1}
    assert format_counts(table.count_labels(), 2) == "rt 4, square 1, ... (1 more labels)"
    assert table.select_samples(8).index.tolist() == [-0.4, 2.0, 3.0]


def test_durations_that_are_unknown_are_zero() -> None:
    assert Events([1, 2, 3], ["a"] * 3, [np.nan, -1, 2]).duration.tolist() == [0, 0, 2]


def test_texts_that_do_not_match_the_events_are_a_fault() -> None:
    with pytest.raises(ValueError, match="2 events have 1 texts"):
        Events([1, 2], ["a"])


@pytest.mark.parametrize("block", [1, 3, 100])
def test_onsets_do_not_depend_on_the_blocks(block: int) -> None:
    values = np.array([5, 5, 0, 0, 3, 3, 7, 0, 0, np.nan, 2.5, 2.5])
    finder = OnsetFinder("trigger", 10.0)
    for at in range(0, len(values), block):
        finder.push(values[at : at + block])
    assert list(finder.finish()) == [
        Event(4, "3", 0.2, "trigger"),
        Event(6, "7", 0.1, "trigger"),
        Event(10, "2.5", 0.2, "trigger"),
    ]


def test_onsets_of_texts_begin_at_the_first_sample() -> None:
    finder = OnsetFinder("state", None, from_start=True)
    finder.push(np.array(["rest", "rest", "", "0", "go", "1.0", "1"]))
    assert [(one.index, one.label) for one in finder.finish()] == [(0, "rest"), (4, "go"), (5, "1")]


def test_bits_that_do_not_count_are_no_events() -> None:
    finder = OnsetFinder("Status", None, mask=0xFF)
    finder.push(np.array([0, 256, 257, 1, 512]))
    assert [(one.index, one.label) for one in finder.finish()] == [(2, "1")]


def test_rows_and_indices_are_inverse_outside_gaps() -> None:
    gaps = [Gap(10, 5, "lost"), Gap(20, 0, "boundary"), Gap(30, 1, "lost")]
    rows = np.sort(np.random.default_rng(0).uniform(0, 40, 200))
    indices = get_indices(gaps, rows)
    inside = [any(gap.start <= i < gap.stop for gap in gaps) for i in indices]
    outside = ~np.array(inside)
    assert outside.sum() > 150
    np.testing.assert_allclose(get_rows(gaps, indices)[outside], rows[outside])
    assert get_rows(gaps, [12, 14.5, 15]).tolist() == [10, 10, 10]
    assert get_rows([], [3.5]).tolist() == [3.5]
