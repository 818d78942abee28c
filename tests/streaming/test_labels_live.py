"""Sources of a stream that are labelled when a model is learned, and removed from its channels."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.model_updates import LearningSchedule
from igbss_stream.streaming.pipeline import LearningPlan, Pipeline
from tests.labels.heads import NAMES, RATE, make_sources

AT = [0, 1, 2, 6, 7, 9, 17]
FIRST = 8000


@pytest.mark.jit
def test_sources_are_removed_by_the_labels_of_each_model() -> None:
    courses, maps = make_sources(3)
    x = (20.0 * courses @ maps[AT].T).astype("f4")
    stream = Stream("s", RATE, tuple(NAMES[i] for i in AT), "uV")
    cleaning = Cleaning(exclude_labelled=(("eye", 0.8), ("channel", 0.999)))
    with ThreadPoolExecutor(1) as pool:
        learning = LearningPlan(LearningSchedule(FIRST, FIRST, every=2000), pool)
        pipeline = Pipeline(stream, ModelSettings(), learning=learning, cleaning=cleaning)
        removed = {}
        cleaned = []
        for start in range(0, len(x), 500):
            items = pipeline.push(Chunk(x[start : start + 500], start))
            cleaned += [item.cleaned for item in items if isinstance(item, Chunk)]
            if pipeline.model is not None:
                removed[pipeline.model.version] = pipeline.model.separator.cleaner
    assert sorted(removed) == [1, 2]
    for cleaner in removed.values():
        assert cleaner is not None
        assert [one.label for one in cleaner.excluded] == ["eye blink", "eye movement"]
        assert cleaner.notices[0].startswith("no source is labelled as channel with a score of 0.999")
        assert str(cleaner).startswith(f"source-{cleaner.excluded[0].source} (eye blink 0.9")
    after = np.concatenate([part for part in cleaned if part is not None])
    eyes = courses[FIRST:, :2]
    correlations = np.corrcoef(np.column_stack([after, eyes]).T)[:7, 7:]
    assert np.abs(correlations).max() < 0.1
