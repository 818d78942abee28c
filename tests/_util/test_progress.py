"""How far a learning is: told step by step, to whoever asked and nobody else, with the same result."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream._util.progress import counted, told_to
from igbss_stream.model.interactions.learn import learn_interactions
from igbss_stream.model.structure import learn

Told = list[tuple[str, int, int]]


def heard(told: Told) -> dict[str, list[tuple[int, int]]]:
    """Return what was told of each kind; kinds come one after the other."""
    kinds = list(dict.fromkeys(doing for doing, _, _ in told))
    assert [doing for doing, _, _ in told] == sorted((doing for doing, _, _ in told), key=kinds.index)
    return {kind: [(done, most) for doing, done, most in told if doing == kind] for kind in kinds}


def assert_counts(steps: list[tuple[int, int]]) -> None:
    """Assert that steps are counted from none to all, one by one, and never exceed what there may be."""
    *counts, (last, most) = steps
    assert [done for done, _ in counts] == list(range(len(counts)))
    assert all(done <= most for done, most in counts)
    assert last == most == max(1, len(counts) - 1)


def noisy() -> NDArray[np.float64]:
    """Return five channels of three coloured sources, with sensor noise that spectra are asked about."""
    rng = np.random.default_rng(0)
    sources = np.cumsum(rng.laplace(size=(1000, 3)), axis=0) * 0.05 + rng.laplace(size=(1000, 3))
    return sources @ rng.normal(size=(3, 5)) + 0.3 * rng.normal(size=(1000, 5))


@pytest.mark.jit
def test_each_stage_of_a_learning_is_counted_and_nothing_changes_by_it() -> None:
    x, told = noisy(), Told()
    with told_to(lambda *what: told.append(what)):
        learned = learn(x, 3)
    stages = heard(told)
    assert list(stages) == [
        "finding starts", "matching spectra", "trying starts", "learning", "comparing halves",
    ]  # fmt: skip
    for steps in stages.values():
        assert_counts(steps)
    alone = learn(x, 3)
    assert learned.unmixing.tobytes() == alone.unmixing.tobytes()
    n_told = len(told)
    with ThreadPoolExecutor(1) as pool, told_to(lambda *what: told.append(what)):
        pool.submit(learn, x, 3).result()  # as the daemon does: not what this thread waits for
    assert len(told) == n_told


@pytest.mark.jit
def test_a_search_for_products_is_counted() -> None:
    rng, told = np.random.default_rng(1), Told()
    z = rng.laplace(size=(150, 2))
    x = np.column_stack([z, z[:, 0] * z[:, 1]]) @ rng.normal(size=(3, 3))
    with told_to(lambda *what: told.append(what)):
        learn_interactions(x, 2, 2)
    stages = heard(told)
    assert {"searching", "improving the best ends"} < set(stages)
    for steps in stages.values():
        assert_counts(steps)


def test_steps_beyond_what_was_thought_are_counted_on() -> None:
    told = Told()
    with told_to(lambda *what: told.append(what)), counted("a", 1) as step:
        step()
        step()
    assert told == [("a", 0, 1), ("a", 1, 1), ("a", 2, 2), ("a", 2, 2)]
