"""No model is learned from samples in which channels are replaced, once there is a model."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import InputError
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.model_updates import Learner, LearningSchedule, _collect_samples

X = np.arange(200.0).reshape(100, 2)
ITEMS: list[Chunk | Gap] = [Chunk(X[:40], 1000), Gap(1040, 10, "lost"), Chunk(X[50:], 1050)]


def test_rows_in_spans_are_left_out_and_break_the_run() -> None:
    rows, breaks = _collect_samples(ITEMS, (1010, 1090), [(0, 1012), (1020, 1030), (1060, 1062)])
    expected = [*range(12, 20), *range(30, 40), *range(50, 60), *range(62, 90)]
    assert np.array_equal(rows, X[expected])
    assert breaks == [8, 18, 28]
    assert np.array_equal(_collect_samples(ITEMS, (1010, 1090))[0], X[[*range(10, 40), *range(50, 90)]])


def test_most_of_a_window_in_spans_is_no_window_to_learn_from() -> None:
    with pytest.raises(InputError, match="the model stays as it is"):
        _collect_samples(ITEMS, (1000, 1100), [(1000, 1080)])


@pytest.mark.parametrize(("span", "n_failed"), [((0, 1), 0), ((230, 300), 1)])
def test_the_first_model_is_learned_from_all_samples_and_the_next_is_not(
    span: tuple[int, int], n_failed: int
) -> None:
    x = np.random.default_rng(9331).uniform(1.0, 2.0, (400, 3))
    settings = ModelSettings(structure="systematic", transform="min-max")
    schedule = LearningSchedule(100, 100, 100)
    spans = [(0, 100), span]
    with ThreadPoolExecutor(1) as executor:
        learner = Learner(settings, "abc", schedule, executor, get_excluded=lambda: spans)
        learner.begin(0)
        models = []
        for at in range(0, 400, 100):
            learner.record(Chunk(x[at : at + 100], at))
            models.append(learner.handle_boundary(at + 100))
    assert [model is not None for model in models] == [True, True, not n_failed, True]
    assert learner.counts.failed == n_failed
