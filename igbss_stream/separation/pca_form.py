"""A linear separation written as a projection on axes and a square unmixing of them, as MNE keeps an ICA.

With x a sample, A the mixing, W the unmixing (W A is the identity) and m the mean, MNE works out::

    y       = Q x - mu                      Q: its pre-whitener, mu: its mean
    sources = U C[:n] y                     C: axes, orthonormal rows; U: (n, n)
    cleaned = Q^-1 (y - C[:n]' U^-1 e e' U C[:n] y + mu)      e: the sources to take out

Both are ours, sources = W (x - m) and cleaned = x - A e e' W (x - m), if mu = Q m, U C[:n] Q = W and
C[:n]' U^-1 = Q A. A diagonal Q does it where W is the pseudo-inverse of A in the unit of Q: with as many
sources as channels, and with samples that do not leave the span of A. Else this one does, with D diagonal,
B = D^-1 A and E an orthonormal basis of what is orthogonal to B::

    Q = B W + E E' D^-1

It is D^-1 on the span of A, so that Q A = B are the columns of A as they are, channel type by channel type,
and takes what W does not see to where C[:n] does not look.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NOTHING = 1e-22  # share of the variance beyond the sources that is but rounding


@dataclass(frozen=True)
class PcaForm:
    """See the module's formulas.

    Parameters
    ----------
    pre_whitener : ndarray of shape (channels, 1) or (channels, channels)
        What channels are divided by, or Q.
    mean : ndarray of shape (channels,)
        mu.
    components : ndarray of shape (channels, channels)
        C; the first rows span the sources.
    variance : ndarray of shape (channels,)
        Along each of the axes, after Q; falling among those of the sources, and among the rest.
    unmixing : ndarray of shape (sources, sources)
        U.
    """

    pre_whitener: Array
    mean: Array
    components: Array
    variance: Array
    unmixing: Array


def pca_form(
    mixing: Array, unmixing: Array, mean: Array, unit: Array, covariance: Array | None = None
) -> PcaForm:
    """Write a separation in this form.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
    unmixing : ndarray of shape (sources, channels)
        A left inverse of it.
    mean : ndarray of shape (channels,)
    unit : ndarray of shape (channels,)
        The diagonal of D: the same for all channels of a type.
    covariance : ndarray of shape (channels, channels), optional
        Of the samples. Without it sources are taken to have unit variance and nothing to lie beyond them.

    Returns
    -------
    PcaForm
    """
    n_channels, n_sources = mixing.shape
    maps = mixing / unit[:, None]
    power = maps @ maps.T if covariance is None else covariance / np.outer(unit, unit)
    basis = np.linalg.svd(maps)[0]
    inner, inner_variance = _by_variance(basis[:, :n_sources], power)
    outer, outer_variance = _by_variance(basis[:, n_sources:], power)
    nothing_beyond = covariance is not None and outer_variance.sum() <= _NOTHING * np.trace(power)
    if n_sources == n_channels or nothing_beyond:
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


def _by_variance(basis: Array, power: Array) -> tuple[Array, Array]:
    """Turn a basis so that its axes are uncorrelated, the largest first; return it and their variance."""
    values, turn = np.linalg.eigh(basis.T @ power @ basis)
    return basis @ turn[:, ::-1], np.maximum(values[::-1], 0.0)
