"""Progress of learning: it is reported to the listener of the calling thread, and changes no result."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util.progress import report_to, track
from igbss_stream.model.interactions.learn import learn_interactions
from igbss_stream.model.structure import learn_structure

Reports = list[tuple[str, int, int]]


def by_task(reports: Reports) -> dict[str, list[tuple[int, int]]]:
    """Return the reports of each task; check that tasks follow one another."""
    names = [name for name, _, _ in reports]
    tasks = list(dict.fromkeys(names))
    assert names == sorted(names, key=tasks.index)
    return {task: [(done, total) for name, done, total in reports if name == task] for task in tasks}


def assert_counts(steps: list[tuple[int, int]]) -> None:
    """Assert that steps are counted one by one from 0 to the total, and never exceed the total."""
    *counts, (last, total) = steps
    assert [done for done, _ in counts] == list(range(len(counts)))
    assert all(done <= total for done, total in counts)
    assert last == total == max(1, len(counts) - 1)


def noisy() -> NDArray[np.float64]:
    """Return five channels of three coloured sources, with sensor noise."""
    rng = np.random.default_rng(0)
    sources = np.cumsum(rng.laplace(size=(1000, 3)), axis=0) * 0.05 + rng.laplace(size=(1000, 3))
    return sources @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(1000, 5))


@pytest.mark.jit
def test_each_stage_of_learning_is_reported_and_the_result_is_unchanged() -> None:
    x, reports = noisy(), Reports()
    with report_to(lambda *report: reports.append(report)):
        learned = learn_structure(x, 3)
    stages = by_task(reports)
    first, second, third, *views = stages
    assert [first, second, third] == ["trying starts", "learning from view 1", "estimating sensor noise"]
    assert views[0] == "learning from view 20"
    assert all(view.startswith("learning from ") for view in views)
    for steps in stages.values():
        assert_counts(steps)
    alone = learn_structure(x, 3)
    assert learned.unmixing.tobytes() == alone.unmixing.tobytes()
    n_reports = len(reports)
    with ThreadPoolExecutor(1) as pool, report_to(lambda *report: reports.append(report)):
        pool.submit(learn_structure, x, 3).result()  # in another thread, as in the daemon
    assert len(reports) == n_reports


@pytest.mark.jit
def test_the_search_for_products_is_reported() -> None:
    rng, reports = np.random.default_rng(1), Reports()
    z = rng.laplace(size=(150, 2))
    x = np.column_stack([z, z[:, 0] * z[:, 1]]) @ rng.normal(size=(3, 3))
    with report_to(lambda *report: reports.append(report)):
        learn_interactions(x, 2, 2)
    stages = by_task(reports)
    assert {"searching", "refining the best results"} < set(stages)
    for steps in stages.values():
        assert_counts(steps)


def test_steps_beyond_the_expected_number_raise_the_total() -> None:
    reports = Reports()
    with report_to(lambda *report: reports.append(report)), track("a", 1) as step:
        step()
        step()
    assert reports == [("a", 0, 1), ("a", 1, 1), ("a", 2, 2), ("a", 2, 2)]
