"""Test that a plan prepares independent, immutable separators."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_choice import Excluded
from igbss_stream.separation.stages import LinearStage
from igbss_stream.separation.transform import Exp
from tests.published import model_settings

NAMES = ("a", "b", "c")

Array = NDArray[np.float64]


@pytest.fixture
def x() -> Array:
    mixing = np.array([[2.0, 0.1, 0.3], [0.5, 1.0, 0.1], [0.2, 0.4, 1.5]])
    return np.asarray(np.random.default_rng(0).laplace(size=(200, 3)) @ mixing)


@pytest.mark.parametrize(
    ("settings", "needs_survey"),
    [
        (model_settings(), False),
        (model_settings(transform="min-max"), True),
        (model_settings(solver="joint"), True),
        (ModelSettings(), True),
    ],
)
def test_a_survey_is_required_where_the_separator_depends_on_it(
    x: Array, settings: ModelSettings, needs_survey: bool
) -> None:
    plan = SeparationPlan(settings, 3)
    assert plan.needs_survey == needs_survey
    assert plan.prepare_for(x, NAMES).solver == plan.solver
    if needs_survey:
        with pytest.raises(RuntimeError, match="pass a survey"):
            plan.prepare()
    else:
        np.testing.assert_array_equal(
            plan.prepare().separate_samples(x), plan.prepare_for(x, NAMES).separate_samples(x)
        )


def test_plan_and_separator_are_immutable(x: Array) -> None:
    plan = SeparationPlan(ModelSettings(), 3)
    separator = plan.prepare_for(x, NAMES)
    for frozen, name in (plan, "cleaning"), (separator, "cleaner"), (separator, "transform"):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, name, None)


def test_separators_of_a_plan_are_independent(x: Array) -> None:
    plan = SeparationPlan(ModelSettings(), 3)
    first = plan.prepare_for(x, NAMES)
    sources = first.separate_samples(x)
    other = plan.prepare_for(3.0 * x[::-1] + 5.0, NAMES)
    assert not np.array_equal(other.separate_samples(x), sources)
    np.testing.assert_array_equal(first.separate_samples(x), sources)


def test_another_cleaner_leaves_the_separator_unchanged(x: Array) -> None:
    separator = SeparationPlan(ModelSettings(), 3).prepare_for(x, NAMES)
    cleaner = Cleaner(separator.stage, (Excluded(1),))
    cleaning = separator.with_cleaner(Cleaning(exclude=(1,)), cleaner)
    sources = separator.separate_samples(x)
    assert separator.clean_channels(x, sources) is None
    assert cleaning.clean_channels(x, sources) is not None
    np.testing.assert_array_equal(cleaning.separate_samples(x), sources)


def test_a_stored_model_is_restored_to_the_bit(x: Array) -> None:
    settings = ModelSettings(transform=Exp(scale=2.0))
    learned = SeparationPlan(settings, 3).prepare_for(x, NAMES)
    assert isinstance(learned.stage, LinearStage)
    restored = SeparationPlan(settings, 3).restore(
        learned.poset, learned.stage, learned.transform, learned.learning
    )
    np.testing.assert_array_equal(restored.separate_samples(x), learned.separate_samples(x))
    assert restored.learning is learned.learning
    again = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(again.separate_samples(x), learned.separate_samples(x))


def test_a_plan_refuses_settings_that_do_not_fit_the_channels() -> None:
    with pytest.raises(InputError, match=r"at least 2 channels\. Got 1 instead"):
        SeparationPlan(ModelSettings(), 1)
    with pytest.raises(ParameterError, match="one source per channel, 3"):
        SeparationPlan(model_settings(solver="closed-form", n_sources=2), 3)
