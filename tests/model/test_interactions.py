"""Mixtures with products of sources: separation, conventions, and comparison with plain references."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from igbss_stream.cli.demo import make_time_series
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.model import likelihood
from igbss_stream.model.interactions import (
    descent as interaction_descent,
)
from igbss_stream.model.interactions import (
    learn,
    search,
    whitening,
)
from igbss_stream.model.interactions import (
    starts as interaction_starts,
)
from igbss_stream.model.interactions.descent import PolynomialDescent, SigmaSchedule
from igbss_stream.model.interactions.learn import LearnedInteractions, learn_interactions
from igbss_stream.model.kernels import interactions as _interaction_kernels
from igbss_stream.model.kernels import learning
from igbss_stream.model.poset import Poset, list_subsets
from igbss_stream.separation.metrics import rmse

Array = NDArray[np.float64]

MASKS = np.array([0, 1, 2, 4, 3, 5, 6, 7])


def mix_products(truth: Array, order: int, seed: int, n_channels: int | None = None) -> Array:
    """Mix sources and their products with weights of 0.5 to 2, independently of the package."""
    rng = np.random.default_rng(seed)
    n_sources = truth.shape[1]
    x = np.zeros((len(truth), n_channels or n_sources))
    for size in range(1, order + 1):
        for chosen in itertools.combinations(range(n_sources), size):
            x += truth[:, list(chosen)].prod(axis=1, keepdims=True) * rng.uniform(0.5, 2.0, x.shape[1])
    return x


def make_two_sources(n_samples: int = 250) -> Array:
    t = np.linspace(0, 8, n_samples)
    return np.column_stack([np.sin(2 * t), 2 * (1.3 * t % 1.0) - 1])


@pytest.mark.jit
class TestSeparation:
    """Signs are not corrected before comparison; the seeds are not used elsewhere."""

    @pytest.mark.slow
    def test_two_sources_and_their_product(self) -> None:
        truth = make_two_sources()
        errors, linear = [], []
        for seed in (500, 501):
            x = mix_products(truth, 2, seed)
            errors.append(rmse(learn_interactions(x, 2, 2).sources, truth))
            linear.append(rmse(x, truth))
        assert np.median(errors) < 0.05
        assert np.mean(errors) < 0.5 * np.mean(linear)

    def test_other_samples_of_the_mixture(self) -> None:
        truth = make_two_sources(400)
        x = mix_products(truth, 2, 500)
        learned = learn_interactions(x[:300], 2, 2)
        assert rmse(learned.separate(x), truth) < 0.1
        np.testing.assert_allclose(learned.separate(x[:300]), learned.sources, atol=1e-6)

    def test_more_channels_than_sources(self) -> None:
        truth = make_two_sources()
        x = mix_products(truth, 2, 501, n_channels=4)
        learned = learn_interactions(x, 2, 2)
        assert learned.mixing.shape == (4, 3)
        assert rmse(learned.sources, truth) < 0.1
        np.testing.assert_allclose(learned.mix(learned.sources), x, atol=0.05 * x.std())

    @pytest.mark.slow
    def test_time_series_of_the_paper(self) -> None:
        truth = make_time_series()
        errors = [
            rmse(learn_interactions(mix_products(truth, 2, seed), 3, 2).sources, truth)
            for seed in range(500, 506)
        ]
        assert np.mean(errors) < 0.7


@pytest.fixture(scope="class")
def _short_search() -> Iterator[None]:
    """Reduce the search, for tests without compiled code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interaction_starts, "_DEGREES", (2, 3))
        for name, few in (
            ("_MAX_ROUNDS", 1),
            ("_N_BEST", 2),
            ("_N_VARIED", 1),
            ("_N_RECOMBINED", 1),
            ("_N_EXCHANGED", 1),
        ):
            patch.setattr(search, name, few)
        patch.setattr(search, "_N_FIRST", (1, 1, 1))
        patch.setattr(search, "_SCHEDULE", SigmaSchedule(0.5, 0.1, 0.6, 1))
        patch.setattr(learn, "_REFINEMENT", SigmaSchedule(0.1, 0.03, 0.6, 1))
        patch.setattr(learn, "_N_FINALISTS", 1)
        patch.setattr(learn, "_EXCERPT", 110)
        yield


@pytest.fixture(scope="module")
def x() -> Array:
    return mix_products(make_two_sources(130), 2, 501) + 40.0


@pytest.fixture(scope="class")
def learned(x: Array, _short_search: None) -> LearnedInteractions:
    return learn_interactions(x, 2, 2)


@pytest.mark.usefixtures("_short_search")
class TestConventions:
    def test_scale_sign_and_order(self, learned: LearnedInteractions) -> None:
        np.testing.assert_allclose(learned.sources.mean(axis=0), 0.0, atol=1e-9)
        np.testing.assert_allclose(learned.sources.std(axis=0), 1.0, rtol=1e-9)
        own = learned.mixing[:, :2]
        assert np.all(own[np.abs(own).argmax(axis=0), [0, 1]] > 0)
        assert np.sum(own[:, 0] ** 2) >= np.sum(own[:, 1] ** 2)

    def test_channels_are_reconstructed(self, x: Array, learned: LearnedInteractions) -> None:
        z = learned.sources
        features = np.column_stack([z, z[:, 0] * z[:, 1]])
        back = learned.mix(z)
        np.testing.assert_allclose(features @ learned.mixing.T + learned.offset, back, rtol=1e-12)
        assert np.median(np.abs(back - x)) < 1e-9
        np.testing.assert_allclose(learned.separate(x), z, atol=1e-6)

    def test_repeated_runs_are_identical_to_the_bit(self, x: Array, learned: LearnedInteractions) -> None:
        again = learn_interactions(x, 2, 2)
        np.testing.assert_array_equal(again.sources, learned.sources)
        np.testing.assert_array_equal(again.mixing, learned.mixing)

    def test_the_unit_affects_only_the_mixing(self, x: Array, learned: LearnedInteractions) -> None:
        unit = 2.0**-20  # about a microvolt; a power of two causes no rounding
        scaled = learn_interactions(unit * x, 2, 2)
        np.testing.assert_allclose(scaled.sources, learned.sources, atol=1e-6)
        np.testing.assert_allclose(scaled.mixing, unit * learned.mixing, atol=1e-6 * unit)

    def test_samples_not_used_for_learning_are_separated(
        self, x: Array, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(learn, "_MAX_SAMPLES", 110)
        learned = learn_interactions(x, 2, 2)
        assert learned.sources.shape == (130, 2)
        assert np.median(np.abs(learned.mix(learned.sources) - x)) < 1e-6

    def test_wrong_shapes_are_refused(self, learned: LearnedInteractions) -> None:
        with pytest.raises(InputError, match=r"x must have shape \(samples, 2\). Got \(5, 3\) instead"):
            learned.separate(np.zeros((5, 3)))
        with pytest.raises(InputError, match=r"sources must have shape \(samples, 2\). Got \(5, 3\)"):
            learned.mix(np.zeros((5, 3)))


class TestRefusals:
    def test_invalid_numbers_of_sources_and_orders(self, x: Array) -> None:
        with pytest.raises(ParameterError, match=r"n_sources must be at least 2 .* Got 1 instead"):
            learn_interactions(x, 1, 1)
        for order in (1, 3):
            with pytest.raises(
                ParameterError, match=rf"order must be between 2 and n_sources = 2\. Got {order}"
            ):
                learn_interactions(x, 2, order)

    def test_too_few_samples(self, x: Array) -> None:
        with pytest.raises(
            InputError, match=r"3 weights per channel need at least 100 samples\. Got 50 instead"
        ):
            learn_interactions(x[:50], 2, 2)

    def test_too_low_a_rank(self, x: Array) -> None:
        with pytest.raises(InputError, match="span 2 directions, fewer than n_sources = 3"):
            learn_interactions(np.column_stack([x, x.sum(axis=1)]), 3, 2)

    def test_too_many_sets(self) -> None:
        wide = np.random.default_rng(0).normal(size=(3000, 14))
        with pytest.raises(ParameterError, match="14 sources in 14 directions have 469 sets of sources"):
            learn_interactions(wide, 14, 3)

    def test_a_constant_excerpt(self) -> None:
        constant = np.random.default_rng(0).normal(size=(3000, 2))
        constant[800:2200] = 0.0
        with pytest.raises(InputError, match="samples 988 to 2012 are constant"):
            learn_interactions(constant, 2, 2)


class TestParts:
    @pytest.fixture
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)

    def test_sets_equal_those_of_the_poset(self) -> None:
        assert list_subsets(3, 2) == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
        member = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1]]
        np.testing.assert_array_equal(Poset(np.eye(3)[None], order=2).member, member)

    def test_products(self, rng: np.random.Generator) -> None:
        a, b, c = z = rng.normal(size=(3, 20))
        want = [np.ones(20), a, b, c, a * b, a * c, b * c, a * b * c]
        np.testing.assert_allclose(interaction_descent.compute_products(z, MASKS).T, want, rtol=1e-14)

    def test_standardised_sources_give_the_same_mixture(self, rng: np.random.Generator) -> None:
        z, weights = 3.0 + 2.0 * rng.normal(size=(3, 20)), rng.normal(size=(3, 8))
        moved, changed = interaction_descent.standardise(z, weights, MASKS)
        np.testing.assert_allclose(moved.std(axis=1), 1.0)
        before = interaction_descent.compute_products(z, MASKS) @ weights.T
        np.testing.assert_allclose(
            interaction_descent.compute_products(moved, MASKS) @ changed.T, before, rtol=1e-9, atol=1e-9
        )

    def test_misfit_and_volume(self, rng: np.random.Generator) -> None:
        z, weights, x = rng.normal(size=(3, 20)), rng.normal(size=(4, 8)), rng.normal(size=(20, 4))
        gram, step = np.empty((3, 3)), 1e-6
        square = _interaction_kernels.compute_misfit(x, z, MASKS, weights, gram)
        made = interaction_descent.compute_products(z, MASKS) @ weights.T
        np.testing.assert_allclose(square, np.sum((x - made) ** 2))
        slopes = np.array(
            [
                (interaction_descent.compute_products(z + step * row[:, None], MASKS) @ weights.T - made)
                / step
                for row in np.eye(3)
            ]
        )
        np.testing.assert_allclose(gram, np.einsum("itk,jtk->ij", slopes, slopes) / 20, rtol=1e-4)
        volume = 0.5 * np.linalg.slogdet(np.einsum("itk,jtk->tij", slopes, slopes) + 0.1 * np.eye(3))[1]
        np.testing.assert_allclose(
            _interaction_kernels.compute_log_volume(z, MASKS, weights, 0.1), volume.mean(), rtol=1e-4
        )

    def test_gradients_are_those_of_the_loss(self, rng: np.random.Generator) -> None:
        """What the kernels add up, against differences of what they measure, in any direction."""
        n, sigma, masks = 60, 0.3, MASKS[[0, 1, 2, 4]]
        z = interaction_descent.standardise_rows(
            lfilter([1.0], [1.0, -0.9], rng.laplace(size=(2, n)), axis=1)
        )
        x = mix_products(z.T, 2, 502) + 0.3 * rng.normal(size=(n, 2))
        weights = interaction_descent.fit_weights(x, z, masks) + 0.1 * rng.normal(size=(2, 4))
        taps = np.array([[1.0, -0.8, 0.1], [1.0, -0.5, -0.2]])
        shape, floor = np.array([1.0, 2.5]), np.array([0.01, 0.02])
        gram, e, power = np.empty((2, 2)), np.empty((2, n - 2)), np.empty(2)

        def loss(z: Array, weights: Array) -> float:
            square = _interaction_kernels.compute_misfit(x, z, masks, weights, gram)
            learning.filter_rows(z, taps, e)
            learning.compute_mean_power(e, shape, floor, power)
            own = float(np.sum(likelihood.compute_source_loss(shape, power)))
            return n * (own + 0.5 * float(np.linalg.slogdet(gram)[1])) + 0.5 * square / sigma**2

        loss(z, weights)
        spread: Array = np.asarray(np.linalg.inv(gram), np.float64)
        gradient, slopes = np.zeros((n, 2)), np.zeros((2, 4))
        band, cross = np.zeros((2 * n, 6)), np.zeros((2 * n, 8))
        _interaction_kernels.add_prior(e, taps, shape, floor, power, gradient, band)
        _interaction_kernels.add_misfit(
            x, z, masks, weights, sigma**-2, spread, gradient, band, slopes, cross
        )
        for _ in range(5):
            move, turn = rng.normal(size=(2, n)), rng.normal(size=(2, 4))
            ahead, behind = (loss(z + t * move, weights + t * turn) for t in (1e-6, -1e-6))
            slope = np.sum(gradient.T * move) + np.sum(slopes * turn)
            np.testing.assert_allclose((ahead - behind) / 2e-6, slope, rtol=1e-5)

    @pytest.mark.jit
    def test_every_step_lowers_the_loss_of_a_linear_mixture(self, rng: np.random.Generator) -> None:
        """The loss that ends are compared by is then the one that is minimised."""
        z = interaction_descent.standardise_rows(
            lfilter([1.0], [1.0, -0.9], rng.laplace(size=(2, 200)), axis=1)
        )
        x = z.T @ np.array([[1.0, 0.4], [-0.3, 0.9]]) + 0.3 * rng.normal(size=(200, 2))
        start = z + 0.5 * rng.normal(size=z.shape)
        losses = [
            PolynomialDescent(x, MASKS[[0, 1, 2]], 2, 2)
            .run(start, SigmaSchedule(0.3, 0.3, 0.5, n_steps))
            .loss
            for n_steps in range(1, 16)
        ]
        assert np.diff(losses).max() < 1e-6
        assert losses[0] - losses[-1] > 1.0

    def test_a_descent_leads_from_a_disturbed_start_to_the_sources(self, rng: np.random.Generator) -> None:
        truth = make_two_sources(150)
        white = whitening.Whitening.fit(mix_products(truth, 2, 503), 3).apply(mix_products(truth, 2, 503))
        start = truth.T + 0.3 * rng.normal(size=truth.T.shape)
        masks = MASKS[[0, 1, 2, 4]]
        end = PolynomialDescent(white, masks, 2, 2).run(start, SigmaSchedule(0.3, 0.01, 0.7, 3))
        assert rmse(end.z.T, truth) < 0.2 * rmse(start.T, truth)
        np.testing.assert_allclose(end.z.mean(axis=1), 0.0, atol=1e-9)
        np.testing.assert_allclose(end.z.std(axis=1), 1.0, rtol=1e-9)
        made = interaction_descent.compute_products(end.z, masks) @ end.weights.T
        assert np.sqrt(np.mean((made - white) ** 2)) < 0.02  # of channels of variance 1

    def test_a_descent_from_the_truth_stays_there(self) -> None:
        truth = make_two_sources(150)
        x = mix_products(truth, 2, 503)
        white = whitening.Whitening.fit(x, 3).apply(x)
        end = PolynomialDescent(white, MASKS[[0, 1, 2, 4]], 2, 2).run(
            truth.T, SigmaSchedule(0.03, 0.01, 0.5, 2)
        )
        assert rmse(end.z.T, truth) < 0.05

    def test_a_descent_without_a_direction_for_each_source_ends(self, rng: np.random.Generator) -> None:
        """J'J is then singular to the bit, which has no inverse."""
        z, x = rng.laplace(size=(2, 60)), rng.laplace(size=(60, 2))
        weights = np.array([[0.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0]])  # both sources have one direction
        end = PolynomialDescent(x, MASKS[[0, 1, 2, 4]], 2, 2)
        assert end.run(z, SigmaSchedule(0.3, 0.3, 0.5, 2), np.zeros((2, 4))).loss == np.inf
        assert not np.isnan(end.run(z, SigmaSchedule(0.3, 0.3, 0.5, 2), weights).loss)

    def test_banded_systems(self, rng: np.random.Generator) -> None:
        dense = np.zeros((12, 12))
        for k in range(4):
            dense += np.diag(rng.normal(size=12 - k), -k)
        dense = dense @ dense.T + np.eye(12)
        band = np.array([[dense[r, r - k] if k <= r else 0.0 for k in range(4)] for r in range(12)])
        right = rng.normal(size=(12, 3))
        solved = right.copy()
        _interaction_kernels.factor_band(band)
        _interaction_kernels.solve_band(band, solved)
        np.testing.assert_allclose(solved, np.linalg.solve(dense, right), rtol=1e-8, atol=1e-10)

    def test_inversion_finds_the_sources(self, rng: np.random.Generator) -> None:
        z = rng.uniform(0.0, 1.0, size=(3, 30))
        weights = np.zeros((3, 8))
        weights[:, 1:4], weights[:, 4:] = np.eye(3), 0.1 * rng.normal(size=(3, 4))
        x = interaction_descent.compute_products(z, MASKS) @ weights.T
        found = np.full((3, 30), 0.5)
        _interaction_kernels.invert(x, MASKS, weights, 50, found)
        np.testing.assert_allclose(found, z, atol=1e-10)

    def test_inversion_minimises_the_residual_where_no_sources_exist(self) -> None:
        weights = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        found = np.zeros((2, 1))
        x = np.array([[0.3, -0.2, 5.0]])
        _interaction_kernels.invert(x, MASKS[[0, 1, 2, 4]], weights, 50, found)
        np.testing.assert_allclose(found[:, 0], [0.3, -0.2], atol=1e-6)


class TestStarts:
    """Starting points of descents, compared with plain references."""

    @pytest.fixture
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(0)

    def test_monomials_are_white_and_limited_by_the_number_of_samples(
        self, rng: np.random.Generator
    ) -> None:
        x = rng.normal(size=(200, 2))
        sizes = []
        for each in interaction_starts.compute_monomials(x):
            sizes.append(each.shape[1])
            np.testing.assert_allclose(
                each.T @ each / 200, np.eye(sizes[-1]), atol=0.2 if len(sizes) == 1 else 1e-9
            )
        assert sizes == [2, 5, 9, 14, 20]
        assert len(interaction_starts.compute_monomials(x[:80])) == 3, (
            "9 monomials of degree 3, 14 of degree 4"
        )

    def test_monomials_span_the_polynomials(self, rng: np.random.Generator) -> None:
        x = rng.normal(size=(200, 2))
        cubic = (x[:, 0] - 2.0 * x[:, 1]) ** 3 + x[:, 0] * x[:, 1]
        monomials = np.column_stack([np.ones(200), interaction_starts.compute_monomials(x)[2]])
        fitted = monomials @ np.linalg.lstsq(monomials, cubic, rcond=None)[0]
        np.testing.assert_allclose(fitted, cubic, atol=1e-9)

    def test_components_are_the_sources_of_a_rotation(self, rng: np.random.Generator) -> None:
        slow, fast = (lfilter([1.0], [1.0, -pole], rng.normal(size=4000)) for pole in (0.95, 0.2))
        z = np.linalg.qr(np.column_stack([slow, fast]) - np.mean([slow, fast], axis=1))[0] * np.sqrt(4000)
        turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
        found = interaction_starts.find_components(np.ascontiguousarray(z @ turn))
        np.testing.assert_allclose(np.abs(found @ z / 4000), np.eye(2), atol=0.05)

    def test_choices_are_sorted_by_explained_variance(self, rng: np.random.Generator) -> None:
        rows = interaction_descent.standardise_rows(rng.normal(size=(5, 300)))
        x = mix_products(rows[[3, 1]].T, 2, 504)
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        pairs = list(itertools.combinations(range(5), 2))
        rests = []
        for i, j in pairs:
            features = np.column_stack([np.ones(300), rows[i], rows[j], rows[i] * rows[j]])
            rests.append(np.sum((x - features @ np.linalg.lstsq(features, x, rcond=None)[0]) ** 2))
        best = interaction_starts.pick_explaining(x, rows, pairs, MASKS[[0, 1, 2, 4]], 4)
        wanted = [rows[list(pairs[k])] for k in np.argsort(rests)[:4]]
        np.testing.assert_array_equal(best, wanted)
        np.testing.assert_array_equal(best[0], rows[[1, 3]])

    def test_choices_and_their_sources_are_distinct(self, rng: np.random.Generator) -> None:
        a, b, c = rng.normal(size=(3, 300))
        rows = interaction_descent.standardise_rows(np.array([a, b, a + 0.01 * c, a + 0.4 * c]))
        x = np.column_stack([a, b])
        kept = interaction_starts.pick_explaining(
            x, rows, itertools.combinations(range(4), 2), MASKS[[0, 1, 2, 4]], 6
        )
        np.testing.assert_array_equal(kept, [rows[[0, 1]], rows[[1, 3]]])

    def test_exchanges(self) -> None:
        found = list(search._exchange_rows(2, 2, 6))
        assert found == [(4, 1), (5, 1), (0, 4), (0, 5), (4, 3), (5, 3), (2, 4), (2, 5)]

    def test_additions_have_the_specified_scale(self, rng: np.random.Generator) -> None:
        z = interaction_descent.standardise_rows(rng.normal(size=(2, 200)))
        starts = search._add_products([z], [rng.normal(size=(200, 4))], MASKS[[0, 1, 2, 4]], rng)
        shares = [np.std(start - z, axis=1) for start in starts]
        np.testing.assert_allclose(shares, np.repeat([[0.2], [0.4], [0.6]], 2, axis=1), rtol=1e-9)
        basis = np.column_stack([*z, z[0] * z[1], np.ones(200)])
        left = starts[0].T - basis @ np.linalg.lstsq(basis, starts[0].T, rcond=None)[0]
        np.testing.assert_allclose(left, 0.0, atol=1e-9)
