"""Maximum likelihood of Gaussian sources in sensor noise, from spectra.

A whitening filter amplifies sensor noise at frequencies where the sources have little power. Here the noise
is part of the model: in band q, the covariance of the channels is M_q = B D_q B' + N_q, where D_q contains
the powers of the sources. B and D minimise the negative log-likelihood of the sample covariances C_q of the
bands::

    sum over q of w_q [trace(C_q inv(M_q)) + log det M_q],    w_q the share of the spectrum in band q

as in spectral matching ICA. Bands dominated by noise carry little information and have little influence.
The noise is assumed to be isotropic in channels of unit variance. Its power in each band is estimated from
the directions orthogonal to the sources.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step

Array = NDArray[np.float64]

_MAX_BANDS = 100
_MIN_BINS = 50  # per band; a covariance needs several bins for each of its directions
_MIN_POWER = 1e-9  # of a source in a band
MAX_STEPS = 300
_MAX_CONDITION = 2.0  # largest over smallest eigenvalue of a band of noise
_MAX_NOISE = 0.5  # largest share of noise in the weakest direction


@dataclass(frozen=True)
class Bands:
    """Covariances of channels at unit variance in bands of equal width.

    Parameters
    ----------
    covariances : ndarray of shape (bands, channels, channels)
        Their weighted mean over the bands is the covariance of the samples.
    weights : ndarray of shape (bands,)
        Sum to 1.
    """

    covariances: Array
    weights: Array

    def project(self, axes: Array) -> "Bands":
        """Return the bands of ``axes @ x``, with axes of shape (others, channels)."""
        return Bands(axes @ self.covariances @ axes.T, self.weights)


def compute_bands(x: Array) -> Bands:
    """Return the band covariances of channels, (channels, samples)."""
    n_samples = x.shape[1]
    spectrum = np.fft.rfft(x, axis=1)[:, 1:]
    spectrum *= math.sqrt(2.0) / n_samples
    n_bins = spectrum.shape[1]
    edges = np.linspace(
        0, n_bins, min(_MAX_BANDS, max(1, n_bins // max(_MIN_BINS, 2 * len(x)))) + 1
    ).astype(int)
    parts = [spectrum[:, a:b] for a, b in itertools.pairwise(edges)]
    covariances = np.array([(part @ part.conj().T).real / part.shape[1] for part in parts])
    return Bands(covariances * n_bins, np.diff(edges) / n_bins)


def estimate_noise_power(bands: Bands, axes: Array) -> Array:
    """Estimate the power of the sensor noise in each band, (bands,).

    Parameters
    ----------
    bands : Bands
        Bands of the channels.
    axes : ndarray of shape (channels, sources)
        Orthonormal basis of the directions spanned by the sources. Orthogonal directions contain only
        noise. If there are none, the noise is assumed to be white with the power of the weakest band,
        provided that this band is isotropic and weak; otherwise the noise is assumed to be zero.
    """
    n_channels, n_sources = axes.shape
    total = np.trace(bands.covariances, axis1=1, axis2=2)
    if n_channels > n_sources:
        spanned = np.einsum("ci,qcd,di->q", axes, bands.covariances, axes, optimize=True)
        return np.asarray(np.maximum(total - spanned, 0.0) / (n_channels - n_sources))
    weakest = np.linalg.eigvalsh(bands.covariances[total.argmin()])
    smallest = np.linalg.eigvalsh(np.tensordot(bands.weights, bands.covariances, 1))[0]
    is_noise = weakest[-1] < _MAX_CONDITION * weakest[0] and weakest.mean() < _MAX_NOISE * smallest
    return np.full(len(total), weakest.mean() if is_noise else 0.0)


def compute_autocorrelation(power: Array, weights: Array, n_lags: int) -> Array:
    """Return the autocorrelation of a signal with given powers in the bands, (n_lags + 1,)."""
    edges = np.pi * np.concatenate([[0.0], np.cumsum(weights)])
    lags = np.arange(1, n_lags + 1)
    waves = np.diff(np.sin(lags[:, None] * edges), axis=1) / (np.pi * lags[:, None])
    total = float(np.sum(weights * power))
    return np.concatenate([[1.0], waves @ power / total if total > 0.0 else np.zeros(n_lags)])


def match_spectra(
    bands: Bands, noise: Array, start: Array, prior_weight: float = 0.0, step_done: StepDone = ignore_step
) -> Array:
    """Return the maximum-likelihood unmixing matrix of whitened channels, from noisy spectra.

    Parameters
    ----------
    bands : Bands
        Bands of the whitened channels.
    noise : ndarray of shape (bands, sources)
        Power of the noise in each of the whitened channels.
    start : ndarray of shape (sources, sources)
        Initial unmixing matrix.
    prior_weight : float
        Weight of a prior around `start`: its equivalent number of samples, divided by the number of
        available samples.
    step_done : callable
        Called after each step.
    """
    from scipy.optimize import minimize  # half a second to import

    size = noise.shape[1]
    rows = np.sqrt(
        np.einsum("in,q,qnm,im->i", start, bands.weights, bands.covariances, start, optimize=True)
    )
    start = start / rows[:, None]
    sources = start @ (bands.covariances - noise[:, :, None] * np.eye(size)) @ start.T
    power = np.maximum(np.diagonal(sources, axis1=1, axis2=2), 1e-4)
    first = np.concatenate([np.linalg.inv(start).ravel(), np.log(power).ravel()])
    end = minimize(
        compute_spectral_loss,
        first,
        args=(bands, noise, start, prior_weight),
        jac=True,
        method="L-BFGS-B",
        callback=lambda _: step_done(),
        options={"maxiter": MAX_STEPS},
    )
    return np.linalg.inv(end.x[: size * size].reshape(size, size))


def compute_spectral_loss(
    parameters: Array, bands: Bands, noise: Array, prior: Array, prior_weight: float
) -> tuple[float, Array]:
    """Return the loss and its gradient in the concatenated parameters B and log D.

    The prior is an earlier unmixing matrix. It adds `prior_weight` times the sum of the squared entries of
    ``prior @ B - I``.
    """
    n_bands, size = noise.shape
    b = parameters[: size * size].reshape(size, size)
    power = np.exp(np.maximum(parameters[size * size :].reshape(n_bands, size), math.log(_MIN_POWER)))
    model = (b * power[:, None, :]) @ b.T + np.maximum(noise, _MIN_POWER)[:, :, None] * np.eye(size)
    inverse = np.linalg.inv(model)
    fitted = inverse @ bands.covariances
    loss = np.trace(fitted, axis1=1, axis2=2) + np.linalg.slogdet(model)[1]
    slope = bands.weights[:, None, None] * (inverse - fitted @ inverse)
    along = slope @ b
    mixing_gradient = 2.0 * np.sum(along * power[:, None, :], axis=0)
    power_gradient = np.sum(b * along, axis=1) * power
    deviation = prior @ b - np.eye(size)
    mixing_gradient += 2.0 * prior_weight * prior.T @ deviation
    total = float(bands.weights @ loss + prior_weight * np.sum(deviation**2))
    return total, np.concatenate([mixing_gradient.ravel(), power_gradient.ravel()])
