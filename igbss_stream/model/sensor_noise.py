"""Estimate white sensor noise from the band covariances of whitened channels and an unmixing matrix.

Independent sources y = W z have no cross-spectra. White sensor noise adds the same to each band: with the
variances s_c of the noise in the channels, and B = W V for a whitening matrix V,

    Y_q[i, j] = sum over c of s_c B[i, c] B[j, c]    for each band q and each pair i != j

Bands in which both sources are weak show it best. The variances are estimated by least squares. Each
equation is divided by its standard error, which has two parts: the scatter of the cross-spectrum of
independent sources, and the error of W, which matters in bands where a source is strong.

A short recording does not determine the noise of each channel. Of four designs, the one with the least
Bayesian information criterion is selected: no noise, the same share of the variance of each channel, the
same variance in all channels, and a variance for each channel. Noise of any kind needs strong evidence, as
few samples may show some by chance. A source is at least as strong as its noise: the weakest band of each
source bounds the noise. It is also held below a share of each source, as the loss of a source that is
mostly noise has no clear minimum.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.spectra import Bands

Array = NDArray[np.float64]

_STRONG_EVIDENCE = 10.0  # difference of the criterion, for any noise (Kass and Raftery, JASA 1995)
_N_DEVIATIONS = 3.0  # by which chance may lower the weakest band of a source


@dataclass(frozen=True)
class _Equations:
    """Cross-spectra of pairs of sources in bands, in standard errors.

    Parameters
    ----------
    spectra : ndarray of shape (bands, pairs)
        Divided by their standard errors.
    precision : ndarray of shape (bands, pairs)
        Inverses of the standard errors.
    products : ndarray of shape (pairs, channels)
        Cross-spectra that noise of unit variance in a channel adds.
    """

    spectra: Array
    precision: Array
    products: Array

    def measure_criterion(self, squares: float, n_variances: int) -> float:
        """Return the Bayesian information criterion for a sum of squared residuals."""
        n_equations = self.spectra.size
        return n_equations * math.log(max(squares, 1e-300)) + n_variances * math.log(n_equations)


def estimate_sensor_noise(
    bands: Bands,
    n_samples: int,
    unmixing: Array,
    error: Array,
    whitening: Array,
    scale: Array,
    largest_share: float,
) -> Array | None:
    """Return the covariance of sensor noise in whitened channels, or None if there is no evidence of noise.

    Parameters
    ----------
    bands : Bands
        Of the whitened channels.
    n_samples : int
    unmixing : ndarray of shape (sources, sources)
        Of the whitened channels; sources have unit variance.
    error : ndarray of shape (sources, sources)
        Variance of entry D_ij of ``(I + D) @ unmixing``.
    whitening : ndarray of shape (sources, channels)
        Whitening matrix of channels that were scaled to unit variance.
    scale : ndarray of shape (channels,)
        Standard deviations of the channels before.
    largest_share : float
        Of the variance of a source, that counts as noise at most.

    Returns
    -------
    ndarray of shape (sources, sources) or None
    """
    if len(unmixing) < 2:
        return None
    spectra = np.einsum("in,qnm,jm->qij", unmixing, bands.covariances, unmixing, optimize=True)
    powers = np.einsum("qii->qi", spectra)
    n_bins = 0.5 * n_samples * bands.weights
    i, j = np.triu_indices(len(unmixing), 1)
    scatter = powers[:, i] * powers[:, j] / n_bins[:, None]
    of_error = error[i, j] * powers[:, j] ** 2 + error[j, i] * powers[:, i] ** 2
    precision = 1.0 / np.sqrt(np.maximum(scatter + of_error, np.finfo(float).tiny))
    gains = unmixing @ whitening
    variances = _fit_variances(
        _Equations(precision * spectra[:, i, j], precision, gains[i] * gains[j]), scale
    )
    if variances is None:
        return None
    weakest = np.min(powers * (1.0 + _N_DEVIATIONS / np.sqrt(n_bins))[:, None], axis=0)
    most = np.minimum(weakest, largest_share)
    variances /= max(1.0, float(np.max(gains**2 @ variances / most)))
    return np.asarray((whitening * variances) @ whitening.T)


def _fit_variances(equations: _Equations, scale: Array) -> Array | None:
    """Return the variances of the noise, relative to those of the channels; None if without is better."""
    squares = float(np.sum(equations.spectra**2))
    best, least = None, equations.measure_criterion(squares, 0) - _STRONG_EVIDENCE
    for shape in (np.ones(len(scale)), scale.min() ** 2 / scale**2):
        design = equations.precision * (equations.products @ shape)
        product, power = float(np.sum(design * equations.spectra)), float(np.sum(design**2))
        criterion = equations.measure_criterion(squares - product**2 / max(power, 1e-300), 1)
        if product > 0.0 and criterion < least:
            best, least = shape * (product / power), criterion
    if best is None:
        return None
    from scipy.optimize import nnls  # half a second to import

    # least squares over the bands, which leaves one equation a pair
    weights = np.sqrt(np.sum(equations.precision**2, axis=0))
    means = np.sum(equations.precision * equations.spectra, axis=0) / weights
    variances, residual = nnls(weights[:, None] * equations.products, means)
    squares += residual**2 - float(means @ means)
    return variances if equations.measure_criterion(squares, len(scale)) < least else best
