"""Thread pool: order of results, errors, interruption and reuse of blocks."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from igbss_stream._util.compute_pool import BlockPool, compute_pool, get_n_threads, map_in_order


def test_results_are_in_the_order_of_the_items() -> None:
    """The first item finishes only after the second one."""
    second = threading.Event()

    def work(item: int) -> int:
        if item == 0 and get_n_threads() > 1:
            assert second.wait(30)
        if item == 1:
            second.set()
        return 10 * item

    with compute_pool() as pool:
        assert list(map_in_order(pool, work, range(20))) == [10 * item for item in range(20)]


def test_items_are_consumed_in_the_calling_thread_and_processed_in_others() -> None:
    caller, consumers, workers = threading.get_ident(), set(), set()

    def items() -> Iterator[int]:
        for item in range(10):
            consumers.add(threading.get_ident())
            yield item

    with compute_pool() as pool:
        list(map_in_order(pool, lambda item: workers.add(threading.get_ident()), items()))
    assert consumers == {caller}
    assert caller not in workers


def test_an_error_is_raised_in_place_of_its_result() -> None:
    def work(item: int) -> int:
        if item >= 3:
            raise ValueError(f"item {item}")
        return item

    with compute_pool() as pool:
        results = map_in_order(pool, work, range(10))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="item 3"):
            next(results)


def test_threads_end_when_the_caller_is_interrupted() -> None:
    before = threading.active_count()

    def interrupted() -> None:
        with compute_pool() as pool:
            for _ in map_in_order(pool, lambda item: item, range(100)):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert threading.active_count() == before


def test_blocks_are_not_reused_while_results_are_pending() -> None:
    blocks = BlockPool(4, 2, np.dtype("f4"))

    def items() -> Iterator[np.ndarray]:
        for k in range(50):
            yield blocks.copy(np.full((3, 2), k, "f4"))

    with compute_pool() as pool:
        for k, rows in enumerate(map_in_order(pool, lambda rows: rows, items())):
            np.testing.assert_array_equal(rows, np.full((3, 2), k))
