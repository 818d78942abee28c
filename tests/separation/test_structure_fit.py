"""Test learned structures through `separate` and the estimator."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream import Separation, separate
from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.model import structure
from igbss_stream.model.structure import LearnedStructure, learn_structure
from igbss_stream.separation.metrics import rmse
from igbss_stream.sklearn import IGBSS
from tests import published

Array = NDArray[np.float64]


def laplace(n_samples: int = 2000, n_sources: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).laplace(size=(n_samples, n_sources))


@pytest.fixture(scope="module")
def x() -> Array:
    return np.asarray(make_time_series(300) @ draw_mixing(7).T)


@pytest.fixture(scope="module")
def separation(x: Array) -> Separation:
    return separate(x)


@pytest.fixture(scope="module")
def powers() -> Array:
    """Return channels that are products of powers of sources: the model with transform "sum"."""
    return np.asarray(np.exp(laplace(200) * 0.3 @ draw_mixing(5).T + [0.0, 3.0, -2.0]))


@pytest.fixture(scope="module")
def mixed() -> Array:
    truth = make_time_series(400)
    products = np.column_stack(
        [truth[:, 0] * truth[:, 1], truth[:, 0] * truth[:, 2], truth[:, 1] * truth[:, 2]]
    )
    weights = np.random.default_rng(79).uniform(0.5, 2.0, (3, 6))
    return np.asarray(np.column_stack([truth, products]) @ weights.T)


class TestSeparate:
    @pytest.mark.jit
    def test_is_the_default(self, x: Array, separation: Separation) -> None:
        np.testing.assert_array_equal(separation.sources, separate(x, structure="learned").sources)
        assert rmse(separation.sources, make_time_series(300)) < 0.1
        assert separation.mean is not None
        back = separation.sources @ separation.mixing.T + separation.mean
        np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)

    def test_model_of_the_closed_form(self, separation: Separation) -> None:
        np.testing.assert_allclose(separation.kl[-1], 0.0, atol=1e-12)
        np.testing.assert_allclose(separation.theta_z, separation.sources, rtol=1e-9, atol=1e-9)
        gap = np.log(separation.p_z) - separation.theta_z
        np.testing.assert_allclose(gap, gap[0, 0], atol=1e-9)

    @pytest.mark.parametrize("factor", [1e-19, 1.0, 1e6])
    def test_joint_fit_agrees_with_the_closed_form(self, factor: float) -> None:
        """The model includes weights of both signs, and does not depend on the unit of the channels."""
        x = laplace(80) @ np.array([[1.0, -0.6, 0.3], [0.4, 1.0, 0.2], [-0.5, 0.1, 0.9]]) * factor
        fit = separate(x, solver="joint")
        assert fit.mixing.min() < 0.0
        assert (fit.solver, fit.converged) == ("joint", True)
        np.testing.assert_allclose(fit.sources, separate(x).sources, rtol=1e-6, atol=1e-6)

    def test_latent_mass_requires_a_fit(self, x: Array) -> None:
        fit = separate(x, latent_mass=1e-3)
        assert (fit.solver, fit.converged) == ("joint", True)
        assert fit.kl[-1] > 0.0

    @pytest.mark.parametrize("transform", ["sum", "min-max"])
    @pytest.mark.filterwarnings("ignore:sources correlate")  # few samples
    def test_other_transforms_are_learned_in_logarithms(self, powers: Array, transform: str) -> None:
        model = IGBSS(transform=transform)
        sources = model.fit_transform(powers)
        np.testing.assert_allclose(sources.std(axis=0), 1.0, rtol=1e-3)
        np.testing.assert_allclose(sources.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(model.transform(powers), sources)
        np.testing.assert_allclose(model.inverse_transform(sources), powers, rtol=1e-8)
        np.testing.assert_allclose(model.theta_z_, sources, rtol=1e-9, atol=1e-9)

    @pytest.mark.jit
    def test_products_of_powers_are_separated(self, powers: Array) -> None:
        assert rmse(separate(powers, transform="sum").sources, laplace(200)) < 0.25
        fit = separate(powers, transform="sum", solver="joint")
        np.testing.assert_allclose(
            fit.sources, separate(powers, transform="sum").sources, rtol=1e-5, atol=1e-5
        )

    def test_zeros_have_no_logarithm(self, powers: Array) -> None:
        powers = powers.copy()
        powers[7, 1] = 0.0
        with pytest.raises(
            InputError, match=r"structure 'learned' needs values above zero. Got 0 at sample 7"
        ):
            separate(powers, transform="sum")

    def test_samples_are_independent(self, x: Array) -> None:
        model = IGBSS().fit(x.astype(np.float32))
        whole = model.transform(x.astype(np.float32))
        parts = [model.transform(x[at : at + 7].astype(np.float32)) for at in range(0, 300, 7)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)


class TestConventions:
    def test_back_projected_sources_have_the_unit_of_their_strongest_channel(
        self, x: Array, separation: Separation
    ) -> None:
        plain, projected = separation, separate(x, scaling="back-projected")
        strongest = np.abs(plain.mixing).argmax(axis=0)
        gain = plain.mixing[strongest, range(3)]
        np.testing.assert_allclose(projected.sources, plain.sources * gain, rtol=1e-9)
        np.testing.assert_allclose(projected.mixing[strongest, range(3)], 1.0, rtol=1e-12)
        assert projected.mean is not None
        back = projected.sources @ projected.mixing.T + projected.mean
        np.testing.assert_allclose(back, x, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scaling": "max"}, "scaling must be one of unit-variance, back-projected. Got 'max'"),
            ({"scaling": "back-projected", "structure": "cyclic"}, "requires structure 'learned'"),
            ({"order": 2, "transform": "sum"}, "with order = 2 needs transform = exp. Got 'sum'"),
            ({"order": 2, "solver": "joint"}, "with order = 2 needs solver = auto. Got 'joint'"),
        ],
    )
    def test_contradicting_options(self, x: Array, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParameterError, match=message):
            separate(x, **options)

    @pytest.mark.jit
    def test_order_and_signs_of_an_earlier_separation_are_kept(self, x: Array) -> None:
        earlier = separate(x)
        turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
        turned = IGBSS(warm_start=True).fit(x)
        turned.components_, turned.mixing_ = turn @ earlier.unmixing, earlier.mixing @ turn.T
        model = turned.fit(x[100:])
        gains = model.components_ @ earlier.mixing
        np.testing.assert_allclose(gains, turn, atol=0.1)
        again = separate(x[100:], previous=earlier)
        np.testing.assert_allclose(again.unmixing @ earlier.mixing, np.eye(3), atol=0.1)
        np.testing.assert_allclose(
            np.linalg.norm(again.mixing, axis=0), np.linalg.norm(earlier.mixing, axis=0), rtol=1e-12
        )

    def test_an_earlier_separation_of_other_channels_is_refused(
        self, x: Array, separation: Separation
    ) -> None:
        with pytest.raises(InputError, match=r"learned from 3 channels. Got 2"):
            separate(x[:, :2], previous=separation)
        with pytest.raises(ParameterError, match="previous requires structure 'learned'"):
            published.separate(x, previous=separation)


class TestEstimator:
    def test_agrees_with_the_function(self, x: Array, separation: Separation) -> None:
        model = IGBSS().fit(x)
        np.testing.assert_array_equal(model.transform(x), separation.sources)
        np.testing.assert_allclose(model.inverse_transform(model.transform(x)), x, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.mean_, x.mean(axis=0))
        assert not published.estimator().fit(x).mean_.any()

    @pytest.mark.jit
    def test_first_fit_with_warm_start_equals_a_cold_start(self, x: Array) -> None:
        np.testing.assert_array_equal(IGBSS(warm_start=True).fit(x).components_, IGBSS().fit(x).components_)


@pytest.mark.jit
class TestProducts:
    """Sources mixed with products of sources, with a seed that no other test uses."""

    def test_sources_are_recovered_that_no_linear_map_separates(self, mixed: Array) -> None:
        separation = separate(mixed, order=2)
        linear = rmse(separate(mixed).sources, make_time_series(400))
        assert rmse(separation.sources, make_time_series(400)) < 0.5 * linear
        assert separation.solver == "inversion"
        assert separation.mixing.shape == (3, 6)
        assert separation.kl[-1] < 0.01 * separation.kl[0]
        np.testing.assert_allclose(separation.theta_z, separation.sources)

    @pytest.mark.slow
    def test_estimator_reproduces_the_channels(self, mixed: Array) -> None:
        model = IGBSS(order=2).fit(mixed)
        sources = model.transform(mixed)
        back = model.inverse_transform(sources)
        missed = np.abs(back - mixed) / np.abs(mixed).max()
        assert np.median(missed) < 1e-9
        assert missed.max() < 1e-3  # where the mixture folds, no source meets a sample to the last digit
        np.testing.assert_array_equal(sources, separate(mixed, order=2).sources)

    def test_products_are_refused_with_previous(self, mixed: Array) -> None:
        with pytest.raises(ParameterError, match="previous requires order = 1"):
            separate(mixed, order=2, previous=separate(mixed))


class TestRank:
    def test_a_rank_below_the_channels_raises_a_warning(self, x: Array) -> None:
        wide = np.column_stack([x, x @ [1.0, -2.0, 0.5]]) + 4200.0
        with pytest.warns(IgbssWarning, match="the 4 channels have rank 3 .* 3 sources are separated"):
            separation = separate(wide)
        assert separation.mean is not None
        assert separation.sources.shape == (300, 3)
        assert np.abs(separation.sources).max() < 10.0
        np.testing.assert_allclose(
            separation.sources @ separation.mixing.T + separation.mean, wide, rtol=1e-9
        )
        assert separation.kl[-1] == pytest.approx(0.0, abs=1e-9)
        with pytest.raises(InputError, match="n_sources must be at most the rank of the samples"):
            separate(wide, n_sources=4)

    def test_fewer_sources_than_the_rank_are_fitted(self) -> None:
        x = laplace(300, 4)
        separation = separate(x, n_sources=2)
        assert 0.0 < separation.kl[-1] < separation.kl[0]
        np.testing.assert_allclose(separation.p_x.sum(), 1.0)
        projected = separate(x, n_sources=2, solver="joint")
        assert projected.converged
        assert projected.kl[-1] < separation.kl[-1]  # what the e-projection minimises

    def test_too_few_samples_are_refused(self) -> None:
        with pytest.raises(InputError, match=r"learning 4 sources requires at least 12 samples\. Got 11"):
            separate(laplace(11, 4))


class TestExcerpt:
    @pytest.mark.jit
    def test_long_recordings_are_learned_from_segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", 3 * 800)
        seen: list[Array] = []
        real = structure.learn_structure

        def spy(x: Array, *more: Any, **options: Any) -> LearnedStructure:
            seen.append(x)
            return real(x, *more, **options)

        monkeypatch.setattr("igbss_stream.separation.structure_fit.learn_structure", spy)
        x = laplace(4000)
        separate(x)
        starts = [0, 557, 1114, 1671, 2228, 2785, 3342, 3900]
        np.testing.assert_array_equal(seen[0], np.concatenate([x[start : start + 100] for start in starts]))

    def test_a_channel_that_is_constant_in_the_segments_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("igbss_stream.separation.excerpt._MAX_NUMBERS", 3 * 800)
        x = laplace(4000)
        x[:, 1] = 0.0
        x[300, 1] = 1.0  # between two segments
        with pytest.raises(InputError, match="channel 1 is constant in all samples"):
            separate(x)

    def test_samples_of_too_low_rank_are_refused(self) -> None:
        x = laplace(100, 2) @ np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])
        with pytest.raises(InputError, match="fewer than 3 directions"):
            learn_structure(x, 3)
