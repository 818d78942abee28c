"""Which unmixing of the whitened channels is taken.

The likelihood of innovations has several optima, and the most likely end of a few descents wins.
Innovations drown in sensor noise first, though, and spectra last. Where there is noise that matters,
what innovations tell and what spectra tell are learned again from either half of the samples, and the one
whose halves agree best is taken: the true sources are the same in both, and what differs is error. Both
halves share what noise biases innovations by, though, so that these have to agree much better.
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
from igbss_stream.model.starts import N_STARTS, find_starts

Array = NDArray[np.float64]

_TRIAL_STEPS, _STEPS = 40, 200
_TRIAL_SAMPLES, _TRIAL_NUMBERS = 16384, 1 << 19  # that starts are tried on, at most
_MATTERS = 1e-3  # share of noise in the weakest whitened channel from which spectra are asked
_SHORTEST = 1000  # samples that two halves are made of
_BETTER = 4.0  # times less interference between the halves is asked of innovations than of spectra
_MEMORY = 100.0  # samples that an earlier unmixing is worth, for each source


@dataclass(frozen=True)
class WhitenedSignal:
    """Whitened channels and the noise in them.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
    spectra : Bands
        Of z.
    noise : ndarray of shape (bands, sources)
        Power of the noise of each whitened channel in each band.
    """

    z: Array
    spectra: Bands
    noise: Array

    @classmethod
    def from_channels(cls, standard: Array, axes: Array, root: Array) -> "WhitenedSignal":
        """Return the signal of channels at unit variance along principal axes with these deviations."""
        found, whitening = compute_bands(standard), axes.T / root[:, None]
        noise = estimate_noise_power(found, axes)[:, None] / root**2
        return cls(whitening @ standard, found.project(whitening), noise)

    @property
    def noise_variance(self) -> Array:
        """Variance of the noise, (sources,)."""
        return np.asarray(self.spectra.weights @ self.noise)

    @property
    def noise_colour(self) -> Array:
        """Autocorrelation of the noise, (LAGS + 1,)."""
        return compute_autocorrelation(self.noise.sum(axis=1), self.spectra.weights, LAGS)

    def take(self, samples: slice) -> "WhitenedSignal":
        """Return a stretch of it; the noise is that of the whole."""
        z = np.ascontiguousarray(self.z[:, samples])
        found = compute_bands(z)
        at = np.arange(len(found.weights)) * len(self.noise) // len(found.weights)
        return WhitenedSignal(z, found, self.noise[at])

    def make_descent(self) -> LikelihoodDescent:
        """Return the likelihood of innovations."""
        return LikelihoodDescent(self.z, self.noise_variance, self.noise_colour)


def select_unmixing(signal: WhitenedSignal, previous: Array | None) -> UnmixingFit:
    """Return the best unmixing, from an earlier one if there is one."""
    descent, memory = signal.make_descent(), 0.0
    by_spectra = None
    is_noisy = signal.noise_variance.max() > _MATTERS
    if previous is None:
        begin = _collect_starts(signal, descent)
        if is_noisy:
            by_spectra = _fit_spectra(signal, begin[-1])
            begin.append(by_spectra)
        trial = signal.take(slice(min(_TRIAL_SAMPLES, _TRIAL_NUMBERS // len(signal.z)))).make_descent()
        start = _pick_most_likely(trial, begin)
    else:
        start, memory = previous, _MEMORY * len(previous)
        if is_noisy:
            by_spectra = _fit_spectra(signal, start, memory / signal.z.shape[1])
    with track("learning", _STEPS) as step:
        end = descent.run(start, _STEPS, memory=memory, step_done=step)
    if by_spectra is None or signal.z.shape[1] < _SHORTEST:
        return end
    return _pick_most_reproducible(signal, end, descent.run(by_spectra, 0))


def _collect_starts(signal: WhitenedSignal, descent: LikelihoodDescent) -> list[Array]:
    """Return where descents begin."""
    begin = []
    with track("finding starts", N_STARTS) as found:
        for start in find_starts(signal.z, _subtract_noise(descent)):
            begin.append(start)
            found()
    return begin


def _fit_spectra(signal: WhitenedSignal, start: Array, inertia: float = 0.0) -> Array:
    """Return what spectra tell."""
    with track("matching spectra", MAX_STEPS) as step:
        return match_spectra(signal.spectra, signal.noise, start, inertia, step)


def _pick_most_likely(trial: LikelihoodDescent, begin: list[Array]) -> Array:
    """Return the end of the most likely of short descents."""
    with track("trying starts", len(begin) * _TRIAL_STEPS) as step:
        best = trial.run(begin[0], _TRIAL_STEPS, step_done=step)
        for start in begin[1:]:
            end = trial.run(start, _TRIAL_STEPS, beat=best.loss, step_done=step)
            best = end if end.loss < best.loss else best
    return best.unmixing


def _subtract_noise(descent: LikelihoodDescent) -> Array:
    """Return lagged covariances less those of the noise."""
    noise = descent.colour[0][:, None] * descent.noise
    return np.asarray(descent.covariances - noise[:, :, None] * np.eye(len(descent.noise)))


def _pick_most_reproducible(
    signal: WhitenedSignal, innovations: UnmixingFit, spectra: UnmixingFit
) -> UnmixingFit:
    """Return the end that both halves of the samples agree about."""
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
    return spectra if by_spectra < _BETTER * by_innovations else innovations


def _compute_interference(one: Array, other: Array) -> float:
    """Return how much of other sources the sources of one unmixing are in those of the other.

    Both unmix white channels, so that the rows at unit length give sources of unit variance.
    """
    gains = _normalise_rows(one) @ np.linalg.inv(_normalise_rows(other))
    return float(np.sum((gains / np.diag(gains)[:, None]) ** 2)) - len(gains)


def _normalise_rows(unmixing: Array) -> Array:
    return np.asarray(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True))
