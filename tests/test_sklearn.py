"""Test the estimator with the checks of scikit-learn, and against the function."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from packaging.version import Version
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.sklearn import IGBSS
from tests.published import estimator, separate


def expected_failures(estimator: IGBSS) -> dict[str, str]:
    """Return the checks that an estimator cannot pass with some versions of scikit-learn, and why."""
    if estimator.structure == "learned" and Version(sklearn.__version__) < Version("1.8"):
        return {"check_n_features_in_after_fitting": "draws 10 samples, too few to learn 4 sources from"}
    return {}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [IGBSS(), estimator(), estimator(transform="min-max")], expected_failed_checks=expected_failures
)
@pytest.mark.filterwarnings("ignore::igbss_stream.errors.IgbssWarning")  # of data that the checks draw
def test_scikit_learn_checks(estimator: IGBSS, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.fixture
def x() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(3.0, 2.0, (60, 4))


@pytest.mark.parametrize("transform", ["exp", "min-max"])
@pytest.mark.parametrize("n_sources", [None, 3])
def test_estimator_and_function_agree(x: np.ndarray, transform: str, n_sources: int | None) -> None:
    model = estimator(n_sources, transform=transform)
    sources = model.fit_transform(x)
    want = separate(x, n_sources=n_sources, transform=transform)
    np.testing.assert_array_equal(sources, want.sources)
    np.testing.assert_array_equal(model.transform(x), want.sources)
    np.testing.assert_array_equal(model.components_, want.unmixing)
    np.testing.assert_array_equal(model.mixing_, want.mixing)
    np.testing.assert_array_equal(model.kl_, want.kl)
    np.testing.assert_array_equal(model.theta_z_, want.theta_z)
    np.testing.assert_array_equal(model.theta_a_, want.theta_a)
    assert (model.n_iter_, model.converged_) == (want.n_iter, want.converged)


@pytest.mark.parametrize("transform", ["exp", "min-max", "sum"])
def test_inverse_transform_returns_the_channels(x: np.ndarray, transform: str) -> None:
    x = np.abs(x) + 0.1
    model = estimator(transform=transform).fit(x)
    np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, rtol=1e-8)


def test_inverse_transform_of_fewer_sources_is_a_projection(x: np.ndarray) -> None:
    model = estimator(3).fit(x)
    once = model.inverse_transform(model.transform(x))
    weights = model.mixing_
    np.testing.assert_allclose(once @ np.linalg.pinv(weights).T @ weights.T, once, rtol=1e-9)
    with pytest.raises(InputError, match=r"3 columns, one a source\. Got 4"):
        model.inverse_transform(x)


def test_parameter_with_the_name_of_the_method() -> None:
    model = IGBSS(transform="sum")
    assert model.get_params()["transform"] == "sum"
    assert clone(model).get_params()["transform"] == "sum"
    assert model.set_params(transform="exp", order=2).get_params()["transform"] == "exp"
    assert model.order == 2
    assert callable(model.transform)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(transforms="exp")
    assert "transform='sum'" in repr(IGBSS(transform="sum"))


def test_in_a_pipeline(x: np.ndarray) -> None:
    pipeline = make_pipeline(StandardScaler(), estimator()).set_params(igbss__transform="min-max")
    assert pipeline.fit_transform(x).shape == x.shape
    assert pipeline.get_feature_names_out().tolist() == ["igbss0", "igbss1", "igbss2", "igbss3"]


def test_invalid_parameters_are_refused_in_fit(x: np.ndarray) -> None:
    with pytest.raises(ParameterError, match="transform must be one of exp, min-max, sum"):
        IGBSS(transform="log").fit(x)
    x[:, 2] = 5.0
    with pytest.raises(InputError, match="1 of 4 channels are flat"):
        IGBSS().fit(x)
