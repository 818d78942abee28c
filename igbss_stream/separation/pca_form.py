"""Write a linear separation as a projection on axes and a square unmixing, the form of MNE's ICA.

With x a sample, A the mixing, W the unmixing (W A is the identity) and m the mean, MNE computes::

    y       = Q x - mu                      Q: pre-whitener, mu: mean
    sources = U C[:n] y                     C: axes, orthonormal rows; U: (n, n)
    cleaned = Q^-1 (y - C[:n]' U^-1 e e' U C[:n] y + mu)      e: the sources to remove

These equal sources = W (x - m) and cleaned = x - A e e' W (x - m) if mu = Q m, U C[:n] Q = W and
C[:n]' U^-1 = Q A. A diagonal Q suffices if W is the pseudo-inverse of A in the unit of Q. That is the case
if there is one source per channel, or no sample leaves the span of A. Otherwise, with D diagonal,
B = D^-1 A and E an orthonormal basis of the orthogonal complement of B, this Q satisfies them::

    Q = B W + E E' D^-1

It equals D^-1 on the span of A, so Q A = B contains the columns of A, scaled by channel type. It maps the
directions that W ignores to those that C[:n] ignores.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_ROUNDING = 1e-22  # share of the variance outside the sources that counts as rounding


@dataclass(frozen=True)
class PcaForm:
    """A linear separation in the form of MNE; see the formulas of the module.

    Parameters
    ----------
    pre_whitener : ndarray of shape (channels, 1) or (channels, channels)
        Divisor of each channel, or Q.
    mean : ndarray of shape (channels,)
        mu.
    components : ndarray of shape (channels, channels)
        C; the first rows span the sources.
    variance : ndarray of shape (channels,)
        Along each axis, after Q. Decreases along the axes of the sources, and again along the others.
    unmixing : ndarray of shape (sources, sources)
        U.
    """

    pre_whitener: Array
    mean: Array
    components: Array
    variance: Array
    unmixing: Array


def compute_pca_form(
    mixing: Array, unmixing: Array, mean: Array, unit: Array, covariance: Array | None = None
) -> PcaForm:
    """Return a linear separation in the form of MNE.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
    unmixing : ndarray of shape (sources, channels)
        A left inverse of `mixing`.
    mean : ndarray of shape (channels,)
    unit : ndarray of shape (channels,)
        The diagonal of D: the same for all channels of a type.
    covariance : ndarray of shape (channels, channels), optional
        Of the samples. By default, sources are assumed to have unit variance, and the samples to have no
        variance outside the sources.

    Returns
    -------
    PcaForm
    """
    n_channels, n_sources = mixing.shape
    maps = mixing / unit[:, None]
    power = maps @ maps.T if covariance is None else covariance / np.outer(unit, unit)
    basis = np.linalg.svd(maps)[0]
    inner, inner_variance = _sort_by_variance(basis[:, :n_sources], power)
    outer, outer_variance = _sort_by_variance(basis[:, n_sources:], power)
    is_spanned = covariance is not None and outer_variance.sum() <= _ROUNDING * np.trace(power)
    if n_sources == n_channels or is_spanned:
        pre_whitener, centre = unit[:, None], mean / unit
    else:
        pre_whitener = maps @ unmixing + outer @ (outer.T / unit)
        centre = pre_whitener @ mean
    return PcaForm(
        pre_whitener,
        centre,
        np.vstack([inner.T, outer.T]),
        np.concatenate([inner_variance, outer_variance]),
        np.asarray(np.linalg.inv(inner.T @ maps), np.float64),
    )


def _sort_by_variance(basis: Array, power: Array) -> tuple[Array, Array]:
    """Rotate a basis to uncorrelated axes, the largest variance first; return it and the variances."""
    values, turn = np.linalg.eigh(basis.T @ power @ basis)
    return basis @ turn[:, ::-1], np.maximum(values[::-1], 0.0)
