"""Test the transforms, their inverses and their errors."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.statistics import Survey, survey_array
from igbss_stream.separation.transform import TRANSFORMS, Exp, MinMax, Sum, as_transform


def surveyed(x: np.ndarray[Any, Any]) -> Survey:
    return survey_array(x, [f"c{i}" for i in range(x.shape[1])], keep_rows=True)


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(0).gamma(2.0, 3.0, (400, 3)) + np.array([0.0, 50.0, 7.0]))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverse_undoes_the_transform_in_any_unit(x: np.ndarray, name: str) -> None:
    for unit in (1.0, 1e-6, 1e-19, 1e6):
        transform = as_transform(name).fit(surveyed(x * unit))
        np.testing.assert_allclose(transform.inverse(transform.log(x * unit)), x * unit, rtol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_unit_does_not_change_the_model(x: np.ndarray, name: str) -> None:
    volts, microvolts = x, x * 1e6
    small = as_transform(name).fit(surveyed(volts)).log(volts)
    large = as_transform(name).fit(surveyed(microvolts)).log(microvolts)
    np.testing.assert_allclose(small, large, rtol=1e-9, atol=1e-9)


def test_exp_estimates_center_from_medians_and_scale_from_spreads(x: np.ndarray) -> None:
    survey = surveyed(x)
    fitted = Exp().fit(survey)
    np.testing.assert_array_equal(fitted.center, np.median(x, axis=0))
    assert fitted.scale == survey.spread
    np.testing.assert_allclose(fitted.log(x), (x - np.median(x, axis=0)) / survey.spread)


def test_exp_keeps_given_values(x: np.ndarray) -> None:
    fitted = Exp(scale=2.0, center=0.0).fit(surveyed(x))
    np.testing.assert_array_equal(fitted.log(x), x / 2.0)


def test_one_outlier_does_not_take_all_the_mass(x: np.ndarray) -> None:
    x[5, 1] = 7e5
    fitted = Exp().fit(surveyed(x))
    assert np.abs(fitted.log(x)).max() == pytest.approx(10.0)


def test_min_max_matches_the_paper(x: np.ndarray) -> None:
    """(x + eps - min) / (max + eps - min), eps a share of the range."""
    eps = 0.25 * (x.max() - x.min())
    want = (x + eps - x.min()) / (x.max() + eps - x.min())
    np.testing.assert_allclose(np.exp(MinMax(margin=0.25).fit(surveyed(x)).log(x)), want, rtol=1e-12)
    given = MinMax(low=-1.0, span=100.0)
    assert given.fit(surveyed(x)) is given


def test_sum_divides_by_the_mean(x: np.ndarray) -> None:
    np.testing.assert_allclose(np.exp(Sum().fit(surveyed(x)).log(x)), x / x.mean(), rtol=1e-12)
    given = Sum(scale=2.0)
    assert given.fit(surveyed(x)) is given
    zero = x.copy()
    zero[3, 1] = 0.0
    assert Sum().fit(surveyed(zero)).log(zero)[3, 1] == -np.inf


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: Sum().fit(surveyed(x - 10.0)),
            InputError,
            "transform 'sum' needs samples >= 0. c0 goes down",
        ),
        (lambda x: MinMax().fit(surveyed(x)).log(x - 100.0), InputError, "whose minimum is above these"),
        (
            lambda x: as_transform("log"),
            ParameterError,
            "one of exp, min-max, sum, or a Transform. Got 'log'",
        ),
        (lambda x: Exp(scale=0.0), ParameterError, "scale must be a finite number above 0. Got 0.0"),
        (lambda x: Sum(scale=np.nan), ParameterError, "scale must be a finite number above 0. Got nan"),
        (lambda x: MinMax(margin=-1.0), ParameterError, "margin must be a finite number above 0. Got -1.0"),
        (lambda x: MinMax(margin=1e-308), ParameterError, "margin must be at least 1e-09"),
        (lambda x: MinMax(low=1.0), ParameterError, "both low and span, or neither"),
        (lambda x: Exp().log(x), RuntimeError, "no state yet"),
    ],
)
def test_errors_name_the_problem(
    x: np.ndarray, call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(x)
