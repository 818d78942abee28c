"""Sensor noise: its estimate, and what it does to the views of the sources."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.signal import lfilter

from igbss_stream.model import selection, views
from igbss_stream.model.principal_axes import PrincipalAxes
from igbss_stream.model.sensor_noise import estimate_sensor_noise
from igbss_stream.model.spectra import compute_bands
from igbss_stream.model.structure import LearnedStructure, learn_structure

Array = NDArray[np.float64]

N_SAMPLES = 20_000


def draw_slow_sources(n_sources: int, seed: int) -> Array:
    """Return sparse sources, most of them weak at high frequencies, (samples, sources)."""
    rng = np.random.default_rng(seed)
    rows = [
        lfilter([1.0], np.poly([0.95 * np.exp(1j * angle), 0.95 * np.exp(-1j * angle)]).real, wave)
        for angle, wave in zip(
            np.linspace(0.1, 0.6, n_sources), rng.laplace(size=(n_sources, N_SAMPLES)) ** 3, strict=True
        )
    ]
    truth = np.column_stack(rows)
    return np.asarray((truth - truth.mean(axis=0)) / truth.std(axis=0))


def find_axes(x: Array) -> PrincipalAxes:
    """Return the principal axes of channels, (samples, channels)."""
    scale = x.std(axis=0)
    values, vectors = np.linalg.eigh(np.corrcoef(x.T))
    return PrincipalAxes(scale, values, vectors, drift_removed=False)


def estimate(x: Array, mixing: Array) -> tuple[PrincipalAxes, Array | None]:
    """Return the axes of a mixture, and the noise that is estimated from it with the true mixing matrix."""
    axes = find_axes(x)
    z = np.ascontiguousarray(axes.whitening @ ((x - x.mean(axis=0)) / axes.scale).T)
    unmixing = np.linalg.inv(mixing) * axes.scale @ axes.colouring
    unmixing /= (unmixing @ z).std(axis=1, keepdims=True)
    error = np.full(unmixing.shape, 1e-8)
    noise = estimate_sensor_noise(
        compute_bands(z), x.shape[0], unmixing, error, axes.whitening, axes.scale, 0.5
    )
    return axes, noise


def measure_interference(learned: LearnedStructure, mixing: Array) -> Array:
    """Return the ratio of each source to the interference of all others, in dB, for unit variances."""
    power = (learned.unmixing @ mixing) ** 2
    return np.asarray(10.0 * np.log10(power.max(axis=1) / (power.sum(axis=1) - power.max(axis=1))))


class TestEstimate:
    @pytest.mark.parametrize("design", ["share", "same", "each"])
    def test_estimate_is_the_noise_that_was_added(self, design: str) -> None:
        rng = np.random.default_rng(3)
        mixing = rng.normal(size=(4, 4)) * np.array([[1.0], [2.0], [0.5], [1.0]])
        clean = draw_slow_sources(4, 4) @ mixing.T
        size = {
            "share": 0.02 * clean.std(axis=0),
            "same": np.full(4, 0.02),
            "each": np.array([0.01, 0.2, 0.002, 0.03]),
        }[design]
        axes, noise = estimate(clean + size * rng.normal(size=clean.shape), mixing)
        assert noise is not None
        to_white = axes.whitening / axes.scale
        expected = to_white * size**2 @ to_white.T
        assert np.linalg.norm(noise - expected) < 0.25 * np.linalg.norm(expected)

    def test_nothing_is_found_where_there_is_no_noise(self) -> None:
        rng = np.random.default_rng(5)
        truth = lfilter([1.0], [1.0, -0.5], rng.laplace(size=(4, N_SAMPLES)), axis=1).T
        mixing = rng.normal(size=(4, 4))
        axes, noise = estimate(truth @ mixing.T, mixing)
        of_channels = 0.0 if noise is None else np.diag(axes.colouring @ noise @ axes.colouring.T).max()
        assert of_channels < 1e-3**2

    def test_noise_is_no_stronger_than_the_weakest_band(self) -> None:
        """Cross-spectra that are the same in all bands, but stronger than the sources in some of them."""
        z = np.ascontiguousarray(draw_slow_sources(2, 7).T)
        bands = compute_bands(z)
        bands.covariances[:] += 0.1 * (1.0 - np.eye(2))
        whitening = np.array([[1.0, 0.5], [0.5, 1.0]])
        zero, one = np.zeros((2, 2)), np.ones(2)
        noise, less = (
            estimate_sensor_noise(bands, N_SAMPLES, np.eye(2), zero, whitening, one, share)
            for share in (0.5, 1e-4)
        )
        assert noise is not None
        assert less is not None
        weakest = np.einsum("qii->qi", bands.covariances).min(axis=0)
        assert 0.9 < np.max(np.diag(noise) / weakest) < 1.3
        assert np.max(np.diag(less)) == pytest.approx(1e-4)

    def test_a_single_source_has_no_pairs(self) -> None:
        z = np.random.default_rng(0).normal(size=(1, 1000))
        one = np.ones((1, 1))
        assert estimate_sensor_noise(compute_bands(z), 1000, one, 0.0 * one, one, np.ones(1), 0.5) is None


class TestViews:
    @pytest.mark.parametrize("ridge", [0.1, 5.0])
    def test_known_noise_does_not_move_the_gradient(self, ridge: float) -> None:
        """At the true matrix, the gradient vanishes but for chance, if noise is allowed for."""
        rng = np.random.default_rng(1)
        truth = draw_slow_sources(3, 2).T
        mixing = rng.normal(size=(3, 3))
        x = mixing @ truth
        size = 0.1 * x.std(axis=1)
        z = np.ascontiguousarray(x + size[:, None] * rng.normal(size=x.shape))
        covariances, bands = selection.compute_lagged(z, 10), compute_bands(z)
        unmixing, pairs = np.asarray(np.linalg.inv(mixing)), ~np.eye(3, dtype=bool)
        largest = []
        for noise in (None, np.diag(size**2)):
            descent = views.ViewDescent(z, covariances, bands, noise)
            state = descent._evaluate(unmixing, np.ascontiguousarray(unmixing @ z), np.eye(3), ridge, 0.0)
            largest.append(np.abs(descent._differentiate(state, 0.0)[0][pairs]).max())
        assert largest[1] < 0.25 * largest[0]

    @pytest.mark.jit
    def test_noise_costs_less_where_it_is_estimated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(8)
        truth, mixing = draw_slow_sources(4, 9), rng.normal(size=(4, 4))
        x = truth @ mixing.T
        x += 0.02 * x.std(axis=0) * rng.normal(size=x.shape)
        learned = learn_structure(x, 4)
        ratio = measure_interference(learned, mixing)
        assert 0.0 < learned.learning.view < 1.0
        assert (learned.learning.reliability < ratio + 6.0).all()
        updated = measure_interference(learn_structure(x, 4, learned.unmixing), mixing)
        monkeypatch.setattr(selection, "estimate_sensor_noise", lambda *args: None)
        ignored = measure_interference(learn_structure(x, 4), mixing)
        drifted = measure_interference(learn_structure(x, 4, learned.unmixing), mixing)
        assert ratio.mean() > ignored.mean() + 5.0
        assert ratio.min() > ignored.min() + 3.0
        assert updated.mean() > drifted.mean() + 5.0
