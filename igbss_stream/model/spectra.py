"""Gaussian sources in sensor noise: their mixing from the spectra, by maximum likelihood.

A whitening filter lifts what the sensors add where the sources are silent. Here the noise is part of the
model: in a band q the covariance of the channels is M_q = B D_q B' + N_q, with D_q the powers of the
sources there. B and D minimise the negative log-likelihood of the band covariances C_q of the samples::

    sum over q of w_q [trace(C_q inv(M_q)) + log det M_q],    w_q the share of the spectrum in band q

as in spectral matching ICA. Bands in which the noise prevails tell little, and count little. The noise
is the same in all directions of the channels at unit variance, so that directions beyond the sources'
tell how much of it there is in each band.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step

Array = NDArray[np.float64]

_BANDS = 100  # at most
_BINS = 50  # in a band at least: a covariance needs several for each of its directions
_LEAST = 1e-9  # power of a source in a band
MAX_STEPS = 300  # at most
_SPHERE = 2.0  # largest over smallest eigenvalue of a band that holds but noise
_WEAK = 0.5  # share of the weakest direction that can be noise


@dataclass(frozen=True)
class Bands:
    """Covariances of channels at unit variance in bands of equal width.

    Parameters
    ----------
    covariances : ndarray of shape (bands, channels, channels)
        Their mean over the bands, weighted, is the covariance of the samples.
    weights : ndarray of shape (bands,)
        Sum to 1.
    """

    covariances: Array
    weights: Array

    def project(self, axes: Array) -> "Bands":
        """Return the bands of other channels, axes @ these; axes of shape (others, channels)."""
        return Bands(axes @ self.covariances @ axes.T, self.weights)


def compute_bands(x: Array) -> Bands:
    """Return the bands of channels, (channels, samples)."""
    n_samples = x.shape[1]
    spectrum = np.fft.rfft(x, axis=1)[:, 1:]
    spectrum *= math.sqrt(2.0) / n_samples
    n_bins = spectrum.shape[1]
    edges = np.linspace(0, n_bins, min(_BANDS, max(1, n_bins // max(_BINS, 2 * len(x)))) + 1).astype(int)
    parts = [spectrum[:, a:b] for a, b in itertools.pairwise(edges)]
    covariances = np.array([(part @ part.conj().T).real / part.shape[1] for part in parts])
    return Bands(covariances * n_bins, np.diff(edges) / n_bins)


def estimate_noise_power(found: Bands, axes: Array) -> Array:
    """Return the power of the sensor noise in each band, (bands,).

    Parameters
    ----------
    found : Bands
        Of the channels.
    axes : ndarray of shape (channels, sources)
        Orthonormal directions that the sources span. Those beyond them hold but noise. If there are none,
        the noise is white and as strong as the weakest band, provided that one is the same in all
        directions and weak; else there is none.
    """
    n_channels, n_sources = axes.shape
    whole = np.trace(found.covariances, axis1=1, axis2=2)
    if n_channels > n_sources:
        kept = np.einsum("ci,qcd,di->q", axes, found.covariances, axes, optimize=True)
        return np.asarray(np.maximum(whole - kept, 0.0) / (n_channels - n_sources))
    weakest = np.linalg.eigvalsh(found.covariances[whole.argmin()])
    smallest = np.linalg.eigvalsh(np.tensordot(found.weights, found.covariances, 1))[0]
    is_noise = weakest[-1] < _SPHERE * weakest[0] and weakest.mean() < _WEAK * smallest
    return np.full(len(whole), weakest.mean() if is_noise else 0.0)


def compute_autocorrelation(power: Array, weights: Array, n_lags: int) -> Array:
    """Return the autocorrelation of a signal with so much power in each band, (n_lags + 1,)."""
    edges = np.pi * np.concatenate([[0.0], np.cumsum(weights)])
    lags = np.arange(1, n_lags + 1)
    waves = np.diff(np.sin(lags[:, None] * edges), axis=1) / (np.pi * lags[:, None])
    total = float(np.sum(weights * power))
    return np.concatenate([[1.0], waves @ power / total if total > 0.0 else np.zeros(n_lags)])


def match_spectra(
    found: Bands, noise: Array, start: Array, inertia: float = 0.0, step_done: StepDone = ignore_step
) -> Array:
    """Return the unmixing of whitened channels under which noisy spectra are most likely.

    Parameters
    ----------
    found : Bands
        Of the whitened channels.
    noise : ndarray of shape (bands, sources)
        Power of the noise in each of them.
    start : ndarray of shape (sources, sources)
        Unmixing to start from.
    inertia : float
        Samples that the start itself is worth, over the samples at hand.
    step_done : callable
        Called after each step.
    """
    from scipy.optimize import minimize  # half a second to import

    size = noise.shape[1]
    rows = np.sqrt(
        np.einsum("in,q,qnm,im->i", start, found.weights, found.covariances, start, optimize=True)
    )
    start = start / rows[:, None]
    sources = start @ (found.covariances - noise[:, :, None] * np.eye(size)) @ start.T
    power = np.maximum(np.diagonal(sources, axis1=1, axis2=2), 1e-4)
    first = np.concatenate([np.linalg.inv(start).ravel(), np.log(power).ravel()])
    end = minimize(
        compute_spectral_loss,
        first,
        args=(found, noise, start, inertia),
        jac=True,
        method="L-BFGS-B",
        callback=lambda _: step_done(),
        options={"maxiter": MAX_STEPS},
    )
    return np.linalg.inv(end.x[: size * size].reshape(size, size))


def compute_spectral_loss(
    parameters: Array, found: Bands, noise: Array, prior: Array, inertia: float
) -> tuple[float, Array]:
    """Return the loss and its gradient at B and the logarithms of D, one after the other.

    An unmixing before adds inertia times the squares of what prior @ B differs from the identity by.
    """
    n_bands, size = noise.shape
    b = parameters[: size * size].reshape(size, size)
    power = np.exp(np.maximum(parameters[size * size :].reshape(n_bands, size), math.log(_LEAST)))
    model = (b * power[:, None, :]) @ b.T + np.maximum(noise, _LEAST)[:, :, None] * np.eye(size)
    inverse = np.linalg.inv(model)
    fitted = inverse @ found.covariances
    loss = np.trace(fitted, axis1=1, axis2=2) + np.linalg.slogdet(model)[1]
    slope = found.weights[:, None, None] * (inverse - fitted @ inverse)
    along = slope @ b
    of_mixing = 2.0 * np.sum(along * power[:, None, :], axis=0)
    of_power = np.sum(b * along, axis=1) * power
    moved = prior @ b - np.eye(size)
    of_mixing += 2.0 * inertia * prior.T @ moved
    total = float(found.weights @ loss + inertia * np.sum(moved**2))
    return total, np.concatenate([of_mixing.ravel(), of_power.ravel()])
