"""Learned structures: separation, conventions, and comparison of parts with plain references."""

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from igbss_stream.cli.demo import draw_mixing, make_time_series
from igbss_stream.model import likelihood, newton, spectra, starts, views
from igbss_stream.model.kernels import learning
from igbss_stream.model.structure import LearnedStructure, learn_structure
from igbss_stream.separation.metrics import match_sources, rmse, sir
from tests.realdata import DATA, needs_data

Array = NDArray[np.float64]


def apply_unmixing(learned: LearnedStructure, x: Array) -> Array:
    return (x - learned.mean) @ learned.unmixing.T


def draw_laplace(n_samples: int = 2000, n_sources: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).laplace(size=(n_samples, n_sources))


@pytest.mark.jit
class TestSeparation:
    """Signs and order are not corrected before comparison; the seeds are not used elsewhere."""

    def test_time_series_of_the_paper(self) -> None:
        truth = make_time_series()
        errors = [
            rmse(apply_unmixing(learn_structure(x, 3), x), truth)
            for x in (truth @ draw_mixing(seed).T for seed in range(100, 110))
        ]
        assert np.mean(errors) < 0.012
        assert max(errors) < 0.05

    def test_white_heavy_tails(self) -> None:
        errors = []
        for seed in range(100, 110):
            rng = np.random.default_rng(seed)
            truth = rng.standard_t(1.3, (1000, 2)) * [0.2, 0.1]
            x = truth @ rng.uniform(0.5, 2.0, (2, 2)).T
            errors.append(rmse(apply_unmixing(learn_structure(x, 2), x), truth))
        assert np.median(errors) < 0.02

    def test_gaussian_sources_that_differ_only_in_spectrum(self) -> None:
        rng = np.random.default_rng(1)
        filters = [1.0, -0.9], [1.0, 0.0, 0.8], [1.0, 0.7]
        noise = rng.normal(size=(5000, 3))
        truth = np.column_stack([lfilter([1.0], f, noise[:, i]) for i, f in enumerate(filters)])
        x = truth @ rng.uniform(0.5, 2.0, (3, 3)).T
        assert sir(apply_unmixing(learn_structure(x, 3), x), truth).min() > 25.0

    def test_white_sources_of_several_shapes(self) -> None:
        rng = np.random.default_rng(2)
        truth = np.column_stack(
            [
                rng.uniform(-1, 1, 5000),
                rng.laplace(size=5000),
                rng.exponential(size=5000),
                rng.choice([-1.0, 1.0], 5000),
            ]
        )
        x = truth @ rng.uniform(0.5, 2.0, (4, 4)).T
        assert sir(apply_unmixing(learn_structure(x, 4), x), truth).min() > 25.0

    def test_more_channels_than_sources(self) -> None:
        rng = np.random.default_rng(3)
        truth = draw_laplace()
        x = truth @ rng.uniform(0.5, 2.0, (8, 3)).T + 0.001 * rng.normal(size=(2000, 8))
        assert sir(apply_unmixing(learn_structure(x, 3), x), truth).min() > 20.0

    def test_the_mixing_matrix_does_not_matter(self) -> None:
        truth = draw_laplace(seed=4)
        results = [
            apply_unmixing(learn_structure(x, 3), x)
            for x in (truth @ np.random.default_rng(seed).uniform(0.5, 2.0, (3, 3)).T for seed in range(4))
        ]
        for result in results[1:]:
            np.testing.assert_allclose(
                result[:, match_sources(result, truth)],
                results[0][:, match_sources(results[0], truth)],
                atol=0.02,
            )


@pytest.fixture(scope="module")
def correlated() -> Array:
    """Return four noisy channels at a scale of 10, with an offset of 4200."""
    rng = np.random.default_rng(5)
    return np.asarray(
        4200.0 + draw_laplace(400) @ (10.0 * rng.normal(size=(4, 3))).T + rng.normal(size=(400, 4))
    )


@pytest.fixture(scope="module")
def learned(correlated: Array) -> LearnedStructure:
    return learn_structure(correlated, 4)


class TestConventions:
    def test_scale_sign_and_order(self, correlated: Array, learned: LearnedStructure) -> None:
        np.testing.assert_allclose(apply_unmixing(learned, correlated).std(axis=0), 1.0, rtol=1e-9)
        strongest = np.abs(learned.mixing).argmax(axis=0)
        assert np.all(learned.mixing[strongest, np.arange(4)] > 0)
        explained = np.sum(learned.mixing**2, axis=0)
        assert np.all(np.diff(explained) <= 0)

    def test_channels_are_reconstructed(self, correlated: Array, learned: LearnedStructure) -> None:
        np.testing.assert_allclose(learned.unmixing @ learned.mixing, np.eye(4), atol=1e-10)
        back = apply_unmixing(learned, correlated) @ learned.mixing.T + learned.mean
        np.testing.assert_allclose(back, correlated, rtol=1e-12)

    @pytest.mark.jit
    def test_repeated_runs_are_identical_to_the_bit(
        self, correlated: Array, learned: LearnedStructure
    ) -> None:
        again = learn_structure(correlated, 4)
        np.testing.assert_array_equal(again.mixing, learned.mixing)
        np.testing.assert_array_equal(again.unmixing, learned.unmixing)

    @pytest.mark.jit
    @pytest.mark.parametrize("factor", [1e-19, 1e6])
    def test_the_unit_affects_only_the_mixing(
        self, correlated: Array, learned: LearnedStructure, factor: float
    ) -> None:
        scaled = learn_structure(correlated * factor, 4)
        np.testing.assert_allclose(scaled.mixing, learned.mixing * factor, rtol=1e-4, atol=1e-4 * factor)

    def test_order_and_sign_follow_an_earlier_structure(
        self, correlated: Array, learned: LearnedStructure
    ) -> None:
        order, sign = [2, 0, 3, 1], np.array([-1.0, 1.0, 1.0, -1.0])
        before = learned.unmixing[order] * sign[:, None]
        after = learn_structure(correlated[200:], 4, previous=before)
        gains = after.unmixing @ np.linalg.pinv(before)
        assert np.abs(gains).argmax(axis=1).tolist() == [0, 1, 2, 3]
        assert np.all(np.diag(gains) > 0)


class TestParts:
    def test_filter_and_its_adjoint(self) -> None:
        rng = np.random.default_rng(0)
        y, taps = rng.normal(size=(2, 30)), rng.normal(size=(2, 4))
        out = np.empty((2, 27))
        learning.filter_rows(y, taps, out)
        for row, tap, filtered in zip(y, taps, out, strict=True):
            np.testing.assert_allclose(filtered, np.convolve(row, tap, "valid"), rtol=1e-12)
        other, back = rng.normal(size=(2, 27)), np.empty((2, 30))
        learning.filter_rows_adjoint(other, taps, back)
        np.testing.assert_allclose(np.sum(out * other, axis=1), np.sum(y * back, axis=1), rtol=1e-12)

    def test_scores_are_the_derivative_of_the_power(self) -> None:
        rng = np.random.default_rng(0)
        e, shape, floor = rng.normal(size=(3, 50)), np.array([0.5, 1.0, 4.0]), np.full(3, 1e-2)
        scores, power, curvature = np.empty((3, 50)), np.empty(3), np.empty(3)
        learning.compute_power_scores(e, shape, floor, scores, power, curvature)
        np.testing.assert_allclose(power, np.mean((e**2 + floor[:, None]) ** (shape[:, None] / 2), axis=1))

        def at(offset: float) -> tuple[Array, Array]:
            moved, value = np.empty((3, 50)), np.empty(3)
            learning.compute_power_scores(e + offset, shape, floor, moved, value, np.empty(3))
            return moved, value

        (up, more), (down, less) = at(1e-6), at(-1e-6)
        np.testing.assert_allclose((more - less) / 2e-6, shape * scores.mean(axis=1), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose((up - down).mean(axis=1) / 2e-6, curvature, rtol=1e-6)
        again = np.empty(3)
        learning.compute_mean_power(e, shape, floor, again)
        np.testing.assert_allclose(again, power, rtol=1e-14)

    @pytest.mark.parametrize("ridge", [0.0, 0.3, 5.0])
    def test_levinson_solves_the_normal_equations(self, ridge: float) -> None:
        lagged = np.array([[1.0, 0.6, 0.3, 0.1], [1.0, -0.2, 0.5, 0.0]])
        for taps, row in zip(views.fit_ridge_taps(lagged, ridge), lagged, strict=True):
            np.testing.assert_allclose(
                taps[1:], -solve_toeplitz(row[:3] + ridge * (np.arange(3) == 0), row[1:]), rtol=1e-9
            )
            assert taps[0] == 1.0

    @pytest.mark.parametrize("shape", [1.0, 1.5, 2.0, 6.0])
    @pytest.mark.parametrize("with_curvature", [True, False])
    def test_newton_steps_converge_to_the_taps_of_the_process(
        self, shape: float, with_curvature: bool
    ) -> None:
        rng = np.random.default_rng(0)
        noise = rng.gamma(1.0 / shape, size=4000) ** (1.0 / shape) * rng.choice([-1.0, 1.0], 4000)
        y = lfilter([1.0], [1.0, -1.2, 0.5], noise)[None, :]
        e, scores, power, curvature = np.empty((1, 3998)), np.empty((1, 3998)), np.empty(1), np.empty(1)
        taps, shapes, decreases = np.array([[1.0, 0.0, 0.0]]), np.array([shape]), []
        for _ in range(20):
            learning.filter_rows(y, taps, e)
            floor = 1e-4 * np.mean(e**2, axis=1)
            learning.compute_power_scores(e, shapes, floor, scores, power, curvature)
            given = curvature if with_curvature else None
            slope, step = likelihood.compute_tap_step(y, e, scores, shapes, floor, given)
            np.testing.assert_allclose(
                slope[0, 1:], [np.mean(scores[0] * y[0, 2 - k : 4000 - k]) for k in (1, 2)], atol=1e-12
            )
            assert slope[0, 0] == step[0, 0] == 0.0
            decreases.append(-float(np.sum(slope * step)) / power[0])
            taps = taps + step
        np.testing.assert_allclose(taps, [[1.0, -1.2, 0.5]], atol=0.02)
        assert decreases[-1] < 1e-3 * decreases[0]

    @pytest.mark.parametrize("shape", likelihood.SHAPES)
    def test_powers_by_square_roots(self, shape: float) -> None:
        e = np.random.default_rng(0).normal(size=(1, 2500)) * np.geomspace(1e-6, 1e3, 2500)
        power, floor, weights = np.empty(1), np.array([1e-9]), e.copy()
        learning.compute_mean_power(e, np.array([shape]), floor, power)
        np.testing.assert_allclose(power, np.mean((e**2 + floor) ** (shape / 2)), rtol=1e-12)
        learning.compute_root_weights(weights, np.array([shape]), floor)
        np.testing.assert_allclose(weights, (e**2 + floor) ** (shape / 4 - 0.5), rtol=1e-12)

    def test_rotation_diagonalises_commuting_matrices(self) -> None:
        rng = np.random.default_rng(0)
        axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
        matrices = np.array([axes.T @ np.diag(rng.normal(size=4)) @ axes for _ in range(5)])
        found = starts.diagonalise_jointly(matrices)
        gains = np.abs(found @ axes.T)
        np.testing.assert_allclose(np.sort(gains, axis=1)[:, -1], 1.0, atol=1e-6)
        np.testing.assert_allclose(found @ found.T, np.eye(4), atol=1e-12)

    def test_filtered_power_is_that_of_the_filtered_signals(self) -> None:
        rng = np.random.default_rng(0)
        y, taps = rng.normal(size=(2, 20_000)), np.array([[1.0, -0.5, 0.2], [1.0, 0.9, 0.0]])
        lagged = np.array([[np.mean(row[k:] * row[: len(row) - k]) for k in range(3)] for row in y])
        want = [[np.mean(np.convolve(row, tap, "valid") ** 2) for row in y] for tap in taps]
        np.testing.assert_allclose(newton.compute_filtered_power(taps, lagged), want, rtol=2e-3)

    def test_gradient_of_the_prior(self) -> None:
        rng = np.random.default_rng(1)
        prior = newton.Prior(0.7, np.eye(3) + 0.2 * rng.normal(size=(3, 3)))
        slope = prior.compute_gradient()
        for i, j in ((0, 1), (2, 0), (1, 2)):
            step = np.zeros((3, 3))
            step[i, j] = 1e-6
            numeric = (prior.compute_loss(np.eye(3) + step) - prior.compute_loss(np.eye(3) - step)) / 2e-6
            assert slope[i, j] == pytest.approx(numeric, rel=1e-6)

    def test_bands_add_up_to_the_covariance(self) -> None:
        x = np.random.default_rng(2).normal(size=(3, 2001))
        x -= x.mean(axis=1, keepdims=True)
        found = spectra.compute_bands(x)
        whole = np.tensordot(found.weights, found.covariances, 1)
        np.testing.assert_allclose(whole, x @ x.T / 2001, rtol=1e-9, atol=1e-9)


def read_recordings() -> Array:
    """Return recordings of heart, eye, alpha rhythm and gait at unit variance, (10000, 4)."""
    heart = np.fromfile(DATA / "ecg" / "s0010_re.dat", dtype="<i2").reshape(-1, 12)[:, 1]
    with h5py.File(DATA / "hdf5" / "eeg32_128hz.h5") as file:
        eye = file["data"][:, 1]
    with h5py.File(DATA / "hdf5" / "openbci8_250hz.h5") as file:
        alpha = file["data"][:, 6]
    path = DATA / "sensors" / "mobgap_HA001_TimeMeasure1_Test11_Trial1.csv"
    gait = np.loadtxt(path, delimiter=",", skiprows=1)[:, -1]
    signals = (np.asarray(signal[500:10500], dtype=np.float64) for signal in (heart, eye, alpha, gait))
    return np.column_stack([(signal - signal.mean()) / signal.std() for signal in signals])


@needs_data
@pytest.mark.jit
class TestRecordings:
    def test_sources_in_noise_are_nearly_as_good_as_with_the_true_mixing(self) -> None:
        truth, losses = read_recordings(), []
        for seed in range(200, 208):
            rng = np.random.default_rng(seed)
            mixing = rng.uniform(0.5, 2.0, (8, 4))
            x = truth @ mixing.T
            x += 0.1 * x.std(axis=0) * rng.normal(size=x.shape)
            learned = learn_structure(x, 4)
            np.testing.assert_allclose(learned.unmixing @ learned.mixing, np.eye(4), atol=1e-9)
            bound = sir((x / x.std(axis=0)) @ np.linalg.pinv(mixing / x.std(axis=0)[:, None]).T, truth)
            found = sir(apply_unmixing(learned, x), truth)
            losses.append((bound.mean() - found.mean(), bound.min() - found.min()))
        mean, worst = np.mean(losses, axis=0)
        assert mean < 1.8
        assert worst < 3.5

    def test_sources_of_successive_windows_keep_sign_and_order(self) -> None:
        with h5py.File(DATA / "hdf5" / "eeg32_128hz.h5") as file:
            x = np.asarray(file["data"][: 512 + 11 * 128], dtype=np.float64)
        before: LearnedStructure | None = None
        for start in range(0, 12 * 128, 128):
            window = x[start : start + 512]
            if before is None:
                now = learn_structure(window, 32)
            else:
                now = learn_structure(window, 32, before.unmixing, view=before.learning.view)
            if before is not None:
                shared = window[:384]
                both = np.corrcoef(apply_unmixing(before, shared).T, apply_unmixing(now, shared).T)[
                    :32, 32:
                ]
                assert np.abs(both).argmax(axis=0).tolist() == list(range(32))
                assert np.diag(both).min() > 0.75
                assert np.diag(both).mean() > 0.98
            before = now
