"""Views of the sources: densities, descents, sampling errors, and the choice among views."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import gaussian_kde

from igbss_stream.model import newton, selection, views
from igbss_stream.model.densities import Densities
from igbss_stream.model.drift import has_drift, remove_drift
from igbss_stream.model.kernels import learning
from igbss_stream.model.selection import compute_contradiction
from igbss_stream.model.spectra import compute_bands, compute_overlap
from igbss_stream.model.structure import LearnedStructure, learn_structure

Array = NDArray[np.float64]


def draw_sources(n_samples: int, n_sources: int, seed: int) -> Array:
    """Return autoregressive sources with sparse innovations, (samples, sources)."""
    rng = np.random.default_rng(seed)
    poles = np.linspace(0.5, 0.95, n_sources)
    return np.column_stack([lfilter([1.0], [1.0, -p], rng.laplace(size=n_samples)) for p in poles])


def compute_interference(learned: LearnedStructure, mixing: Array, truth: Array) -> Array:
    """Return the ratio of each learned source to the interference of all other true ones, in dB."""
    power = (learned.unmixing @ mixing) ** 2 * truth.var(axis=0)
    return np.asarray(10.0 * np.log10(power.max(axis=1) / (power.sum(axis=1) - power.max(axis=1))))


def draw_picture(rng: np.random.Generator) -> Array:
    """Return a picture of bright and dark blobs, 32 x 32, in three colours that are almost the same."""
    frequency = np.fft.fftfreq(32)
    distance = np.hypot(*np.meshgrid(frequency, frequency))
    distance[0, 0] = np.inf

    def draw_clouds() -> Array:
        return np.fft.ifft2(np.fft.fft2(rng.normal(size=(32, 32))) * distance**-1.2).real

    clouds = draw_clouds()
    clouds /= clouds.std()
    blobs = np.where(clouds > np.quantile(clouds, 0.6), 1.0, -1.0) + 0.3 * clouds
    return np.concatenate([(blobs + 0.03 * draw_clouds()).ravel() for _ in range(3)])


class TestDensities:
    @pytest.mark.parametrize(
        "draw", [np.random.Generator.standard_normal, np.random.Generator.standard_exponential]
    )
    def test_density_agrees_with_a_kernel_estimate(self, draw: Callable[..., Array]) -> None:
        x = draw(np.random.default_rng(0), 20_000)
        x = (x - x.mean())[None]
        scores = np.empty_like(x)
        loss, power = Densities.learn(x, np.array([20_000.0])).compute_scores(x, scores)
        expected = -np.log(gaussian_kde(x[0], bw_method="silverman")(x[0, ::20])).mean()
        assert loss[0] == pytest.approx(expected, abs=0.03)
        assert power[0] == pytest.approx(np.mean(scores**2))

    def test_scores_and_bends_are_derivatives(self) -> None:
        rng = np.random.default_rng(1)
        x = rng.laplace(size=(2, 5000)) * [[1e-3], [1e3]]
        learned = Densities.learn(x, np.full(2, 5000.0))
        for row in range(2):
            at = np.linspace(-3.0, 3.0, 41) * x[row].std()
            step = 1e-3 * x[row].std()
            one = Densities(*(table[[row]] for table in vars(learned).values()))

            def evaluate(values: Array, density: Densities = one) -> tuple[Array, Array, Array]:
                scores = np.empty((len(values), 1))
                losses = [
                    density.compute_scores(v, s)[0][0]
                    for v, s in zip(values[:, None, None], scores[:, None], strict=True)
                ]
                return np.array(losses), scores[:, 0], density.compute_bends(values[None])[0]

            (less, _, _), (more, _, _), (_, score, bend) = (
                evaluate(at - step),
                evaluate(at + step),
                evaluate(at),
            )
            numeric = (more - less) / (2.0 * step)
            np.testing.assert_allclose(score, numeric, atol=0.03 * np.abs(score).max())
            _, before, _ = evaluate(at - 20 * step)
            _, after, _ = evaluate(at + 20 * step)
            np.testing.assert_allclose(
                bend, (after - before) / (40.0 * step), atol=0.15 * np.abs(bend).max()
            )

    def test_no_innovation_is_impossible(self) -> None:
        learned = Densities.learn(np.random.default_rng(0).normal(size=(1, 500)), np.array([500.0]))
        scores = np.empty((1, 3))
        loss, _ = learned.compute_scores(np.array([[-1e6, 40.0, 1e6]]), scores)
        assert np.isfinite(loss).all()
        assert np.isfinite(scores).all()


class TestDescent:
    @pytest.mark.parametrize("ridge", [0.01, 1.0, np.inf])
    def test_gradient_is_the_derivative_of_the_loss(self, ridge: float) -> None:
        z = draw_sources(4000, 3, 0).T
        z = np.linalg.qr((z - z.mean(axis=1, keepdims=True)).T)[0].T * np.sqrt(4000)
        covariances = np.array([z[:, k:] @ z[:, : 4000 - k].T / 4000 for k in range(6)])
        descent = views.ViewDescent(np.ascontiguousarray(z), covariances, compute_bands(z))
        w = np.eye(3) + 0.1 * np.random.default_rng(1).normal(size=(3, 3))
        state = descent._evaluate(w, np.ascontiguousarray(w @ z), np.eye(3), ridge, 0.0)
        gradient, _ = descent._differentiate(state, 0.0)
        for i, j in ((0, 1), (1, 2), (2, 0)):
            losses = []
            for step in (-1e-3, 1e-3):
                move = np.eye(3)
                move[i, j] = step
                e = np.array(
                    [
                        np.convolve(row, tap, "valid")
                        for row, tap in zip(move @ state.y, state.taps, strict=True)
                    ]
                )
                losses.append(state.densities.compute_scores(e, np.empty_like(e))[0].sum())
            correlation = np.mean(state.y[i] * state.y[j])
            expected = (losses[1] - losses[0]) / 2e-3 + state.pull * correlation
            assert gradient[i, j] == pytest.approx(expected, abs=5e-3)

    def test_curvature_of_a_rotation_is_that_of_the_loss(self) -> None:
        """The pull towards zero correlation does not bend the loss along rotations."""
        z = draw_sources(20_000, 2, 0).T
        z = np.ascontiguousarray(np.linalg.qr((z - z.mean(axis=1, keepdims=True)).T)[0].T * np.sqrt(20_000))
        covariances = np.array([z[:, k:] @ z[:, : 20_000 - k].T / 20_000 for k in range(6)])
        descent = views.ViewDescent(z, covariances, compute_bands(z))
        unmixing = descent.run(np.eye(2), 5.0, 50).unmixing
        losses = []
        for angle in (-0.05, 0.0, 0.05):
            w = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ unmixing
            losses.append(descent._evaluate(w, np.ascontiguousarray(w @ z), np.eye(2), 5.0, 0.0).loss)
        expected = (losses[0] - 2.0 * losses[1] + losses[2]) / 0.05**2
        state = descent._evaluate(unmixing, np.ascontiguousarray(unmixing @ z), np.eye(2), 5.0, 0.0)
        _, hessian = descent._differentiate(state, 0.0)
        assert hessian[0, 1] + hessian[1, 0] - 2.0 * (1.0 + state.pull) == pytest.approx(expected, rel=0.4)

    def test_sampling_error_is_that_of_repeated_draws(self) -> None:
        deviations, predicted = [], []
        for seed in range(30):
            truth = draw_sources(3000, 3, seed)
            z = np.ascontiguousarray(truth.T / truth.std(axis=0)[:, None])
            covariances = np.array([z[:, k:] @ z[:, : 3000 - k].T / 3000 for k in range(11)])
            fit = views.ViewDescent(z, covariances, compute_bands(z)).run(np.eye(3), 0.1, 50)
            deviations.append(fit.unmixing / np.diag(fit.unmixing)[:, None] - np.eye(3))
            predicted.append(fit.error)
        pairs = ~np.eye(3, dtype=bool)
        ratio = np.mean(predicted, axis=0)[pairs] / np.mean(np.square(deviations), axis=0)[pairs]
        assert ratio.min() > 0.3
        assert ratio.max() < 4.0

    def test_steps_of_independent_pairs_solve_their_equations(self) -> None:
        gradient, hessian = np.array([[0.0, 0.1], [-0.2, 0.0]]), np.array([[1.0, 3.0], [2.0, 1.0]])
        step = newton.solve_pairs(gradient, hessian)
        expected = np.linalg.solve([[3.0, 1.0], [1.0, 2.0]], [-0.1, 0.2])
        np.testing.assert_allclose([step[0, 1], step[1, 0]], expected)

    def test_remembered_steps_shorten_a_descent(self) -> None:
        rng = np.random.default_rng(2)
        factor = rng.normal(size=(6, 6))
        curvature = factor @ factor.T + np.eye(6)  # of the off-diagonal entries of D, coupled
        target, pairs = rng.normal(size=6) * 0.05, ~np.eye(3, dtype=bool)

        def descend(n_remembered: int) -> int:
            memory, at, gradient = newton.StepMemory(n_steps=n_remembered), np.zeros(6), np.zeros((3, 3))
            gradient[pairs] = curvature @ (at - target)
            for n_steps in range(500):
                if np.abs(gradient).max() < 1e-8:
                    return n_steps
                step = memory.propose(gradient, np.full((3, 3), np.linalg.eigvalsh(curvature)[-1]))
                at = at + step[pairs]
                before, gradient = gradient, np.zeros((3, 3))
                gradient[pairs] = curvature @ (at - target)
                memory.remember(step, gradient - before)
            return 500

        assert 3 * descend(7) < descend(0)

    def test_a_step_that_does_not_descend_is_forgotten(self) -> None:
        memory = newton.StepMemory()
        gradient, hessian = np.array([[0.0, 0.1], [-0.2, 0.0]]), np.full((2, 2), 2.0)
        memory.remember(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0.0, -1.0], [0.0, 0.0]]))
        np.testing.assert_array_equal(
            memory.propose(gradient, hessian), newton.solve_pairs(gradient, hessian)
        )

    @pytest.mark.parametrize("n_lags", [1, 4, 7, 20])
    def test_filters_agree_with_convolution(self, n_lags: int) -> None:
        rng = np.random.default_rng(n_lags)
        y, taps = rng.normal(size=(2, 2500)), rng.normal(size=(2, n_lags + 1))
        filtered, adjoint = np.empty((2, 2500 - n_lags)), np.empty((2, 2500))
        learning.filter_rows(y, taps, filtered)
        learning.filter_rows_adjoint(filtered, taps, adjoint)
        for i in range(2):
            np.testing.assert_allclose(filtered[i], np.convolve(y[i], taps[i], "valid"), atol=1e-12)
            np.testing.assert_allclose(adjoint[i], np.convolve(filtered[i], taps[i, ::-1]), atol=1e-11)


@pytest.mark.jit
class TestSelection:
    def test_innovations_are_selected_without_noise(self) -> None:
        truth = draw_sources(10_000, 4, 0)
        learned = learn_structure(truth @ np.random.default_rng(1).normal(size=(4, 4)).T, 4)
        assert learned.learning.view <= 0.1
        assert max(learned.learning.contradictions.values()) < 50.0

    def test_noise_contradicts_innovations(self) -> None:
        rng = np.random.default_rng(2)
        slow = np.column_stack(
            [
                lfilter([1.0], [1.0, -1.96 * np.cos(0.05 * (k + 1)), 0.96], rng.laplace(size=10_000) ** 3)
                for k in range(4)
            ]
        )
        mixing = rng.normal(size=(4, 4))
        x = slow @ mixing.T
        x += 0.03 * x.std(axis=0) * rng.normal(size=x.shape)
        learned = learn_structure(x, 4)
        assert learned.learning.view > 0.0
        assert max(learned.learning.contradictions.values()) > selection.MAX_CONTRADICTION
        forced = learn_structure(x, 4, view=0.0)
        better, worse = (compute_interference(each, mixing, slow).mean() for each in (learned, forced))
        assert better > worse + 3.0

    @pytest.mark.parametrize("view", [0.0, 0.3, 5.0, 20.0])
    def test_a_view_can_be_set(self, view: float) -> None:
        truth = draw_sources(3000, 3, 3)
        mixing = np.random.default_rng(4).normal(size=(3, 3))
        learned = learn_structure(truth @ mixing.T, 3, view=view)
        assert learned.learning.view == view
        assert compute_interference(learned, mixing, truth).min() > 12.0

    def test_contradiction_is_relative_to_the_error(self) -> None:
        near = np.eye(3) + 0.01 * np.random.default_rng(0).normal(size=(3, 3))
        robust = views.ViewFit(np.eye(3), (0.0,), np.full((3, 3), 1e-4))
        small = compute_contradiction(near, robust)
        assert 0.1 < small < 5.0
        tight = views.ViewFit(np.eye(3), (0.0,), np.full((3, 3), 1e-6))
        assert compute_contradiction(near, tight) > 5.0 * small
        assert compute_contradiction(np.diag([2.0, 0.1, 1.0]), robust) == 0.0  # scales do not matter

    def test_reliability_predicts_the_interference(self) -> None:
        gaps = []
        for seed in range(6):
            truth = draw_sources(5000, 4, 100 + seed)
            mixing = np.random.default_rng(seed).normal(size=(4, 4))
            learned = learn_structure(truth @ mixing.T, 4)
            gaps.append(learned.learning.reliability - compute_interference(learned, mixing, truth))
        assert np.mean(np.abs(gaps) < 6.0) > 0.6
        assert np.mean(np.array(gaps) > 10.0) < 0.1

    @pytest.mark.jit
    @pytest.mark.parametrize("n_sources", [2, 4])
    @pytest.mark.filterwarnings("ignore:sources are not determined")
    def test_white_gaussian_sources_are_not_reliable(self, n_sources: int) -> None:
        """They are Gaussian in each rotation; what one rotation seems to have above others is chance."""
        promised = []
        for seed in range(4):
            truth = np.random.default_rng(seed).normal(size=(10_000, n_sources))
            promised.append(learn_structure(truth, n_sources).learning.reliability)
        assert np.median(promised) < 3.0
        assert np.max(promised) < 15.0

    @pytest.mark.jit
    def test_one_gaussian_source_is_reliable(self) -> None:
        rng = np.random.default_rng(0)
        truth = np.column_stack([rng.normal(size=10_000), rng.laplace(size=(10_000, 2))])
        assert learn_structure(truth, 3).learning.reliability.min() > 15.0

    def test_rejected_views_lower_the_reliability(self) -> None:
        rng = np.random.default_rng(2)
        truth = draw_sources(10_000, 4, 9)
        x = truth @ rng.normal(size=(4, 4)).T
        x += 0.3 * x.std(axis=0) * lfilter([1.0], [1.0, -0.9], rng.normal(size=x.shape), axis=0)
        learned = learn_structure(x, 4).learning
        assert any(view < learned.view for view in learned.contradictions)
        set_view = learn_structure(x, 4, view=learned.view).learning
        assert set_view.reliability.mean() > learned.reliability.mean()

    @pytest.mark.jit
    def test_parts_that_share_an_error_do_not_contradict_views_that_agree(self) -> None:
        """The colours of a picture are alike: as parts of the samples they show no error of robust views."""
        rng = np.random.default_rng(1)
        truth = np.column_stack([draw_picture(rng) for _ in range(3)])
        mixing = rng.uniform(1.0, 6.0, (3, 3))
        learned = learn_structure(truth @ mixing.T, 3)
        assert max(learned.learning.contradictions.values()) > selection.MAX_CONTRADICTION
        assert learned.learning.view == selection.INNOVATIONS
        assert compute_interference(learned, mixing, truth).min() > 30.0

    @pytest.mark.jit
    def test_sources_of_many_samples_hardly_correlate(self) -> None:
        """More sources than channels, large at once: no view separates them, robust ones decorrelate them."""
        rng = np.random.default_rng(0)
        truth = rng.laplace(size=(12_000, 8)) * np.repeat(rng.gamma(0.5, size=(60, 1)), 200, axis=0)
        learned = learn_structure(truth @ rng.normal(size=(8, 4)), 4, view=5.0)
        assert np.abs(learned.correlation - np.eye(4)).max() < 0.02

    def test_overlap_is_the_variance_of_chance_correlations(self) -> None:
        rng = np.random.default_rng(0)
        sources = lfilter([1.0], [1.0, -0.9], rng.normal(size=(200, 4000)), axis=1)
        chance = np.corrcoef(sources)[np.triu_indices(200, 1)]
        z = sources[:2] / sources[:2].std(axis=1, keepdims=True)
        assert compute_overlap(compute_bands(z)) == pytest.approx(4000 * chance.var(), rel=0.15)

    def test_starts_are_tried_on_blocks_of_long_recordings(self) -> None:
        z = np.arange(100_000.0)[None]
        blocks = selection.take_blocks(z, 8000)
        assert blocks.shape == (1, 8000)
        assert blocks[0, 0] == 0.0
        assert blocks[0, -1] == z[0, -1]
        assert np.count_nonzero(np.diff(blocks[0]) != 1.0) == 7
        assert selection.take_blocks(z, 60_000) is z

    def test_updates_keep_order_and_sign_in_every_view(self) -> None:
        truth = draw_sources(4000, 3, 5)
        x = truth @ np.random.default_rng(6).normal(size=(3, 3)).T
        for view in (0.0, 5.0):
            first = learn_structure(x[:2000], 3, view=view)
            flipped = -first.unmixing[[2, 0, 1]]
            later = learn_structure(x[2000:], 3, flipped, view=view)
            gains = later.unmixing @ np.linalg.inv(flipped)
            assert np.abs(gains).argmax(axis=1).tolist() == [0, 1, 2]
            assert np.diag(gains).min() > 0.0


class TestDrift:
    def test_drift_is_recognised(self) -> None:
        rng = np.random.default_rng(0)
        fast = rng.normal(size=(3, 20_000))
        slow = np.cumsum(rng.normal(size=(3, 20_000)), axis=1)
        assert not has_drift(fast)
        assert has_drift(fast + slow)

    def test_slow_oscillations_are_removed_and_fast_ones_kept(self) -> None:
        t = np.arange(20_000.0)
        slow, fast = np.sin(2 * np.pi * t / 10_000), np.sin(2 * np.pi * t / 50)
        x = (100.0 * slow + fast)[None].copy()
        remove_drift(x, [])
        np.testing.assert_allclose(x[0, 500:-500], fast[500:-500], atol=0.05)

    def test_runs_are_filtered_separately(self) -> None:
        x = np.random.default_rng(0).normal(size=(2, 6000)).cumsum(axis=1)
        parts = x[:, :2500].copy(), x[:, 2500:].copy()
        remove_drift(x, [2500])
        for part, after in zip(parts, (x[:, :2500], x[:, 2500:]), strict=True):
            assert after.std() < 0.5 * part.std()
            assert abs(after.mean()) < 0.1 * part.std()

    @pytest.mark.jit
    def test_sources_are_found_behind_drift(self) -> None:
        truth = draw_sources(20_000, 3, 7)
        rng = np.random.default_rng(8)
        mixing = rng.normal(size=(3, 3))
        t = np.linspace(0.0, 2.0 * np.pi, 20_000)[:, None]
        drift = sum(np.cos(k * t + rng.uniform(0, 6, 3)) * rng.normal(size=3) for k in range(1, 9))
        x = truth @ mixing.T + 100.0 * drift
        removed, kept = learn_structure(x, 3), learn_structure(x, 3, keep_drift=True)
        assert removed.learning.drift_removed
        assert not kept.learning.drift_removed
        assert compute_interference(removed, mixing, truth).min() > 10.0
        assert (
            compute_interference(removed, mixing, truth).mean()
            > compute_interference(kept, mixing, truth).mean()
        )


def test_views_from_robust_to_efficient() -> None:
    assert list(selection.LADDER) == sorted(selection.LADDER, reverse=True)
