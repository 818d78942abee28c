"""Select among candidate unmixing matrices of the whitened channels.

The likelihood of innovations has several optima; the most likely result of a few descents is used. Sensor
noise affects innovations more than spectra. If the noise is significant, both the innovations and the
spectra are fitted again to each half of the samples, and the method whose halves agree best is selected:
the true sources are equal in both halves, and differences are errors. The noise biases innovations equally
in both halves, so their agreement must be much better than that of the spectra.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import track
from igbss_stream.model.likelihood import LAGS, LikelihoodDescent, UnmixingFit
from igbss_stream.model.spectra import (
    MAX_STEPS,
    Bands,
    compute_autocorrelation,
    compute_bands,
    estimate_noise_power,
    match_spectra,
)
from igbss_stream.model.starts import MAX_STARTS, find_starts

Array = NDArray[np.float64]

_TRIAL_STEPS, _STEPS = 40, 200
_TRIAL_SAMPLES, _TRIAL_NUMBERS = 16384, 1 << 19  # upper bounds of the data that starts are compared on
_MIN_NOISE = 1e-3  # share of noise in the weakest whitened channel above which spectra are fitted
_MIN_SAMPLES = 1000  # for the comparison of halves
_MAX_RATIO = 4.0  # of the interference between halves, spectra over innovations, to select spectra
_PRIOR_SAMPLES = 100.0  # weight of the prior around an earlier unmixing matrix, per source


@dataclass(frozen=True)
class WhitenedSignal:
    """Whitened channels and the sensor noise in them.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
    spectra : Bands
        Band covariances of z.
    noise : ndarray of shape (bands, sources)
        Power of the noise in each band of each whitened channel.
    """

    z: Array
    spectra: Bands
    noise: Array

    @classmethod
    def from_channels(cls, standard: Array, axes: Array, root: Array) -> "WhitenedSignal":
        """Whiten channels of unit variance, given principal axes and the standard deviations along them."""
        spectra, whitening = compute_bands(standard), axes.T / root[:, None]
        noise = estimate_noise_power(spectra, axes)[:, None] / root**2
        return cls(whitening @ standard, spectra.project(whitening), noise)

    @property
    def noise_variance(self) -> Array:
        """Variance of the noise, (sources,)."""
        return np.asarray(self.spectra.weights @ self.noise)

    @property
    def noise_colour(self) -> Array:
        """Autocorrelation of the noise, (LAGS + 1,)."""
        return compute_autocorrelation(self.noise.sum(axis=1), self.spectra.weights, LAGS)

    def take(self, samples: slice) -> "WhitenedSignal":
        """Return a range of samples, with the noise of the whole signal."""
        z = np.ascontiguousarray(self.z[:, samples])
        spectra = compute_bands(z)
        index = np.arange(len(spectra.weights)) * len(self.noise) // len(spectra.weights)
        return WhitenedSignal(z, spectra, self.noise[index])

    def make_descent(self) -> LikelihoodDescent:
        """Return the descent on the likelihood of innovations."""
        return LikelihoodDescent(self.z, self.noise_variance, self.noise_colour)


def select_unmixing(signal: WhitenedSignal, previous: Array | None) -> UnmixingFit:
    """Return the best unmixing matrix, starting from an earlier one if given."""
    descent, prior_samples = signal.make_descent(), 0.0
    by_spectra = None
    is_noisy = signal.noise_variance.max() > _MIN_NOISE
    if previous is None:
        candidates = _collect_starts(signal, descent)
        if is_noisy:
            by_spectra = _fit_spectra(signal, candidates[-1])
            candidates.append(by_spectra)
        trial = signal.take(slice(min(_TRIAL_SAMPLES, _TRIAL_NUMBERS // len(signal.z)))).make_descent()
        start = _pick_most_likely(trial, candidates)
    else:
        start, prior_samples = previous, _PRIOR_SAMPLES * len(previous)
        if is_noisy:
            by_spectra = _fit_spectra(signal, start, prior_samples / signal.z.shape[1])
    with track("learning", _STEPS) as step:
        fit = descent.run(start, _STEPS, prior_samples=prior_samples, step_done=step)
    if by_spectra is None or signal.z.shape[1] < _MIN_SAMPLES:
        return fit
    return _pick_most_reproducible(signal, fit, descent.run(by_spectra, 0))


def _collect_starts(signal: WhitenedSignal, descent: LikelihoodDescent) -> list[Array]:
    """Return the starting points of the trial descents."""
    collected = []
    with track("finding starts", MAX_STARTS) as step:
        for start in find_starts(signal.z, _subtract_noise(descent)):
            collected.append(start)
            step()
    return collected


def _fit_spectra(signal: WhitenedSignal, start: Array, prior_weight: float = 0.0) -> Array:
    """Return the unmixing matrix that matches the spectra."""
    with track("matching spectra", MAX_STEPS) as step:
        return match_spectra(signal.spectra, signal.noise, start, prior_weight, step)


def _pick_most_likely(trial: LikelihoodDescent, candidates: list[Array]) -> Array:
    """Run short descents from all candidates, and return the most likely result."""
    with track("trying starts", len(candidates) * _TRIAL_STEPS) as step:
        best = trial.run(candidates[0], _TRIAL_STEPS, step_done=step)
        for start in candidates[1:]:
            fit = trial.run(start, _TRIAL_STEPS, loss_to_beat=best.loss, step_done=step)
            best = fit if fit.loss < best.loss else best
    return best.unmixing


def _subtract_noise(descent: LikelihoodDescent) -> Array:
    """Return the lagged covariances of the signal without those of the noise."""
    noise = descent.colour[0][:, None] * descent.noise
    return np.asarray(descent.covariances - noise[:, :, None] * np.eye(len(descent.noise)))


def _pick_most_reproducible(
    signal: WhitenedSignal, innovations: UnmixingFit, spectra: UnmixingFit
) -> UnmixingFit:
    """Return the fit whose method gives the most similar results on the two halves of the samples."""
    middle = signal.z.shape[1] // 2
    halves = [signal.take(slice(middle)), signal.take(slice(middle, None))]
    with track("comparing halves", 2 * (_TRIAL_STEPS + MAX_STEPS)) as step:
        first, second = (
            half.make_descent().run(innovations.unmixing, _TRIAL_STEPS, step_done=step).unmixing
            for half in halves
        )
        third, fourth = (
            match_spectra(half.spectra, half.noise, spectra.unmixing, 0.0, step) for half in halves
        )
    by_spectra, by_innovations = _compute_interference(third, fourth), _compute_interference(first, second)
    return spectra if by_spectra < _MAX_RATIO * by_innovations else innovations


def _compute_interference(one: Array, other: Array) -> float:
    """Return the interference between the sources of two unmixing matrices.

    Both matrices apply to white channels, so rows of unit length give sources of unit variance.
    """
    gains = _normalise_rows(one) @ np.linalg.inv(_normalise_rows(other))
    return float(np.sum((gains / np.diag(gains)[:, None]) ** 2)) - len(gains)


def _normalise_rows(unmixing: Array) -> Array:
    return np.asarray(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True))
