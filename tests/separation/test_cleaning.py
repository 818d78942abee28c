"""Test cleaning against the formula in NumPy, for any chunks, and its errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.model.interactions.learn import LearnedInteractions
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_choice import Excluded
from igbss_stream.separation.stages import LinearStage, PolynomialStage
from igbss_stream.separation.statistics import survey_array
from igbss_stream.streaming.model_updates import Learner, LearningSchedule
from igbss_stream.streaming.pipeline import Item, LearningPlan, Pipeline
from igbss_stream.streaming.stream_model import StreamModel
from tests.published import model_settings
from tests.streaming.test_pipeline import Immediate, cut

NAMES = ("a", "b", "c", "d")
STREAM = Stream("s", 100.0, NAMES, "uV")
SCHEDULE = LearningSchedule(first=150, window=200, every=120, ahead=40, fade=30)
LIKE_A = Cleaning(exclude_like=(("a", 0.7),))

Array = NDArray[np.float64]


@pytest.fixture(scope="module")
def x() -> Array:
    """Return channels of which the first consists mostly of one source, like an EOG."""
    rng = np.random.default_rng(5)
    truth = rng.laplace(size=(600, 4))
    mixing = draw_mixing(0, 4, 4) * [1.0, 1.0, 1.0, 0.3]
    mixing[0] = [0.1, 0.1, 0.1, 2.0]
    return np.asarray(truth @ mixing.T + [4200.0, 0.0, -10.0, 1.0])


def linear(seed: int = 0) -> LinearStage:
    mixing: Array = np.random.default_rng(seed).normal(size=(4, 3))
    return LinearStage(
        mixing[None], np.asarray(np.linalg.pinv(mixing))[None], np.array([5.0, 0.0, -3.0, 1e4])
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_residuals_remain(x: Array, dtype: Any) -> None:
    stage, samples = linear(), x.astype(dtype)
    sources = stage.unmix(samples)
    cleaned = Cleaner(stage, (Excluded(0), Excluded(2, "a", 0.8))).clean(samples, sources)
    assert cleaned.dtype == dtype
    kept = sources.astype(float) * [0, 1, 0]
    whole, without = (s @ stage.mixing[0].T + stage.mean for s in (sources.astype(float), kept))
    want = samples.astype(float) - (whole - without)
    assert np.abs(samples - whole).max() > 1.0  # four channels are more than three sources
    np.testing.assert_allclose(cleaned, want, rtol=2 * np.finfo(dtype).eps, atol=1e-10)


def test_sources_are_found_by_their_correlations(x: Array) -> None:
    stage = linear()
    want = np.corrcoef(stage.unmix(x).T, x.T)[:3, 3:]
    last = int(np.abs(want[:, 1]).argmin())  # one source must be left
    least = float(np.sort(np.abs(want[:, 1]))[:2].mean())
    cleaning = Cleaning(exclude=(0,), exclude_like=(("b", least), ("d", 1e-6 + abs(want[last, 3]))))
    cleaner = cleaning.make_cleaner(stage, survey_array(x * 1e-170, NAMES, covariance=True))
    expected = [(0, "")]
    expected += [(int(i), "b") for i in np.argsort(-np.abs(want[:, 1])) if i != last]
    expected += [
        (int(i), "d") for i in np.argsort(-np.abs(want[:, 3])) if abs(want[i, 3]) > abs(want[last, 3])
    ]
    assert [(one.source, one.channel) for one in cleaner.excluded] == expected
    for one in cleaner.excluded[1:]:
        assert one.correlation == pytest.approx(want[one.source, NAMES.index(one.channel)], rel=1e-9)


def test_without_a_similar_source_nothing_is_removed(x: Array) -> None:
    stage = linear()
    cleaner = Cleaning(exclude_like=(("a", 1.0),)).make_cleaner(
        stage, survey_array(x, NAMES, covariance=True)
    )
    strongest = np.corrcoef(stage.unmix(x).T, x[:, 0])[:3, 3]
    i = int(np.abs(strongest).argmax())
    (notice,) = cleaner.notices
    assert (
        notice
        == f"no source is like a by 1 or more: the strongest correlation is {strongest[i]:.2f}, of source-{i}"
    )
    np.testing.assert_array_equal(cleaner.clean(x, stage.unmix(x)), x)
    assert str(cleaner) == "no source"


def test_products_are_removed_with_their_sources() -> None:
    rng = np.random.default_rng(0)
    sources, weights, offset = rng.normal(size=(60, 2)), rng.normal(size=(3, 3)), np.array([1.0, -2.0, 0.0])
    unused: Any = None  # what separates: sources are given here
    learned = LearnedInteractions(sources, weights, offset, ((0,), (1,), (0, 1)), 0.0, unused, unused)
    stage = PolynomialStage(learned)
    x = stage.mix(sources) + rng.normal(size=(60, 3))
    cleaned = Cleaner(stage, (Excluded(1),)).clean(x, sources)
    own, product = sources[:, [1]] * weights[:, 1], sources[:, [0]] * sources[:, [1]] * weights[:, 2]
    np.testing.assert_allclose(cleaned, x - own - product, atol=1e-10)
    with pytest.raises(ParameterError, match="exclude_like needs order = 1"):
        LIKE_A.make_cleaner(stage, survey_array(x, NAMES[:3], covariance=True))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "must name a source"),
    "a negative number": ({"exclude": (-1,)}, "from 0. Got -1"),
    "no number": ({"exclude": ("x",)}, "Got 'x'"),
    "no correlation": ({"exclude_like": (("a", 0.0),)}, "above 0 and up to 1. Got 0.0 with channel 'a'"),
    "too large": ({"exclude_like": (("a", 1.01),)}, "Got 1.01"),
    "NaN": ({"exclude_like": (("a", float("nan")),)}, "Got nan"),
}


@pytest.mark.parametrize(("values", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_values(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        Cleaning(**values)


def test_unsupported_models(x: Array) -> None:
    with pytest.raises(ParameterError, match="source 4 cannot be removed: there are 4 sources, 0 to 3"):
        SeparationPlan(model_settings(), 4, cleaning=Cleaning(exclude=(4,)))
    with pytest.raises(InputError, match="all 4 sources would be removed"):
        SeparationPlan(model_settings(), 4, cleaning=Cleaning(exclude=(0, 1, 3, 2, 2)))
    with pytest.raises(ParameterError, match=r"needs transform 'exp'.*'min-max'"):
        SeparationPlan(model_settings(transform="min-max"), 4, cleaning=Cleaning(exclude=(0,)))
    with pytest.raises(ParameterError, match="exclude_like needs order = 1"):
        SeparationPlan(ModelSettings(order=2), 4, cleaning=LIKE_A)
    with pytest.raises(ParameterError, match=r"names 'eye', which is the name of none .* a, b, c, d"):
        Pipeline(STREAM, model_settings(), cleaning=Cleaning(exclude_like=(("eye", 0.5),)))
    with pytest.raises(ParameterError, match="names 'a', which is the name of 2"):
        LIKE_A.check_channels(("a", "b", "a"))
    unaware = StreamModel(1, SeparationPlan(model_settings(), 4).prepare(), 0)
    with pytest.raises(ParameterError, match="does not define which sources"):
        Pipeline(STREAM, model_settings(), model=unaware, cleaning=Cleaning(exclude=(0,)))
    changing = SeparationPlan(
        model_settings(structure="cyclic", n_sources=3, solver="joint"), 4, cleaning=LIKE_A
    )
    with pytest.raises(ParameterError, match="the same for all samples"):
        changing.prepare_for(x, NAMES)


def concatenate(items: list[Item]) -> tuple[Any, ...]:
    """Return sources and cleaned channels, after checking that they cover the same samples."""
    chunks = [item for item in items if isinstance(item, Chunk)]
    assert all(chunk.cleaned is not None and len(chunk.cleaned) == len(chunk.data) for chunk in chunks)
    return tuple(np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("data", "cleaned"))


def run(pipeline: Pipeline, items: Any) -> list[Item]:
    return [done for item in items for done in pipeline.push(item)] + pipeline.flush()


def fitted() -> Pipeline:
    known = model_settings(n_sources=3, structure="random", random_state=3)
    return Pipeline(
        STREAM, known, window=(40, 20), cleaning=LIKE_A, learning=LearningPlan(SCHEDULE, Immediate())
    )


def learned() -> Pipeline:
    return Pipeline(STREAM, ModelSettings(), cleaning=LIKE_A, learning=LearningPlan(SCHEDULE, Immediate()))


@pytest.mark.jit
@pytest.mark.parametrize("made", [learned, fitted])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.lists(st.integers(0, 600), max_size=30))
def test_cleaned_channels_do_not_depend_on_the_chunks(
    x: Array, made: Callable[[], Pipeline], at: list[int]
) -> None:
    samples = x.astype(np.float32)
    whole, parts = concatenate(run(made(), [Chunk(samples, 0)])), concatenate(run(made(), cut(samples, at)))
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.jit
def test_cleaned_channels_cross_fade_between_models(x: Array) -> None:
    models: list[StreamModel] = []
    pipeline = learned()
    items: list[Item] = []
    for chunk in cut(x, range(10, 600, 10)):
        items += pipeline.push(chunk)
        if pipeline.model is not None and pipeline.model not in models:
            models.append(pipeline.model)
    _, cleaned = concatenate(items)
    assert len(models) == 4
    for before, model in zip([None, *models], models, strict=False):
        at = slice(model.since, model.since + 30)
        new = compute_cleaned(model, x[at])
        if before is None:
            want = new
        else:
            old, share = compute_cleaned(before, x[at]), (np.arange(30)[:, None] + 1) / 31
            want = old + share * (new - old)
        np.testing.assert_allclose(cleaned[at.start - 190 : at.stop - 190], want, atol=1e-9)


def compute_cleaned(model: StreamModel, x: Array) -> Array:
    """Return cleaned channels, computed from the matrices and the sources similar to channel a."""
    stage, cleaner = model.separator.stage, model.separator.cleaner
    assert cleaner is not None
    assert cleaner.sources
    assert stage.mean is not None
    sources = (x - stage.mean) @ stage.unmixing[0].T
    return np.asarray(x - sources[:, cleaner.sources] @ stage.mixing[0][:, cleaner.sources].T)


def test_cleaned_windows_are_overlapped_and_added(x: Array) -> None:
    known = model_settings(n_sources=3, structure="random", random_state=3)
    separator = SeparationPlan(known, 4, cleaning=Cleaning(exclude=(1,))).prepare_for(x, NAMES)
    pipeline = Pipeline(
        STREAM, known, window=(40, 20), model=StreamModel(1, separator, 0), cleaning=Cleaning(exclude=(1,))
    )
    _, cleaned = concatenate(run(pipeline, [Chunk(x[:200], 0)]))
    mixing = separator.stage.mixing[0]
    total, weights = np.zeros((200, 4)), np.zeros((200, 1))
    weight = np.sin(np.pi * (np.arange(40) + 0.5) / 40)[:, None] ** 2
    for start in range(0, 161, 20):
        at = slice(start, start + 40)
        sources = separator.separate_window(x[at], start).sources
        total[at] += weight * (x[at] - np.outer(sources[:, 1], mixing[:, 1]))
        weights[at] += weight
    # a fit that starts from the one before ends within the tolerance of one that starts from zero
    np.testing.assert_allclose(cleaned, total / weights, rtol=1e-6)


def test_a_given_structure_waits_for_samples_to_find_similar_sources(x: Array) -> None:
    weights = np.array([[0.0, 0.1, 2.0], [1.0, 0.2, 0.1], [0.3, 1.0, 0.1], [0.5, 0.6, 0.2]])
    schedule = LearningSchedule(first=150, window=150)
    pipeline = Pipeline(
        STREAM,
        ModelSettings(structure=weights[:, [0, 1, 2]]),
        window=(40, 20),
        cleaning=LIKE_A,
        learning=LearningPlan(schedule, Immediate()),
    )
    assert isinstance(pipeline.learner, Learner)
    items = run(pipeline, [Chunk(x, 0)])
    assert pipeline.model is not None
    cleaner = pipeline.model.separator.cleaner
    assert cleaner is not None
    assert cleaner.sources == (2,)
    _, cleaned = concatenate(items)
    # by the median: a fit hardly determines samples far below the others, and processors differ in those
    assert spread(cleaned[:, 0]) < 0.25 * spread(x[150:, 0])


def spread(x: Array) -> float:
    """Return the median distance from the median."""
    return float(np.median(np.abs(x - np.median(x))))
