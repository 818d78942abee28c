"""Work in threads: the order of results, errors, and memory that is used again."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from igbss_stream._util.compute_pool import Memory, in_order, n_threads, reckoning


def test_results_come_in_the_order_of_the_items_however_long_each_takes() -> None:
    """The first item ends only once the second has."""
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0 and n_threads() > 1:
            assert second.wait(30)
        if item == 1:
            second.set()
        return 10 * item

    with reckoning() as pool:
        assert list(in_order(pool, work, range(20))) == [10 * item for item in range(20)]


def test_items_are_taken_where_results_are_and_work_is_done_elsewhere() -> None:
    here, taken, worked = threading.get_ident(), set(), set()

    def items() -> Iterator[int]:
        for item in range(10):
            taken.add(threading.get_ident())
            yield item

    with reckoning() as pool:
        list(in_order(pool, lambda item: worked.add(threading.get_ident()), items()))
    assert taken == {here}
    assert here not in worked


def test_an_error_comes_in_the_place_of_its_result() -> None:
    def work(item: int) -> int:
        if item >= 3:
            raise ValueError(f"item {item}")
        return item

    with reckoning() as pool:
        results = in_order(pool, work, range(10))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="item 3"):
            next(results)


def test_threads_end_if_the_caller_is_interrupted() -> None:
    before = threading.active_count()

    def interrupted() -> None:
        with reckoning() as pool:
            for _ in in_order(pool, lambda item: item, range(100)):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before


def test_memory_is_not_used_again_while_it_is_waited_for() -> None:
    memory = Memory(4, 2, np.dtype("f4"))

    def items() -> Iterator[np.ndarray]:
        for k in range(50):
            yield memory.copied(np.full((3, 2), k, "f4"))

    with reckoning() as pool:
        for k, rows in enumerate(in_order(pool, lambda rows: rows, items())):
            np.testing.assert_array_equal(rows, np.full((3, 2), k))
