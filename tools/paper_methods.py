"""The methods that the paper's mixtures are separated by: IGBSS and what it is compared with.

A method takes channels (samples, channels), how many sources to find and the order of interaction, and
returns sources (samples, sources). Only the IGBSS methods have a use for the order. Where a method leaves
signs open, a textbook rule settles them: the paper's mixing weights are positive, so each column of the
estimated mixing matrix is made to have a positive sum.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from picard import picard as run_picard
from scipy.linalg import solve, solve_toeplitz
from sklearn.decomposition import NMF, PCA, FastICA, MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning

from igbss_stream import separate

Array = NDArray[np.float64]

LEARNED_ORDERS = 3  # the highest order that structure "learned" takes; mixtures of more are given this
SECOND_ORDER_LAGS = 40


@dataclass(frozen=True)
class Method:
    """A way to separate.

    Parameters
    ----------
    name : str
    run : callable
        From channels, number of sources and order to sources.
    oracle : bool
        Whether its sources get the signs that fit the truth best before they are scored.
    """

    name: str
    run: Callable[[Array, int, int], Array]
    oracle: bool = False

    def __call__(self, x: Array, n_sources: int, order: int = 1) -> tuple[Array, bool]:
        """Return the sources, and whether the method says it converged; other warnings pass through."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sources = self.run(x, n_sources, order)
        doubts = [said for said in caught if _is_of_convergence(said)]
        for said in caught:
            if said not in doubts:
                warnings.warn_explicit(said.message, said.category, said.filename, said.lineno)
        return sources, not doubts


def _is_of_convergence(said: warnings.WarningMessage) -> bool:
    return issubclass(said.category, ConvergenceWarning) or "did not converge" in str(said.message)


def published(transform: str) -> Callable[[Array, int, int], Array]:
    """Return IGBSS as the paper has it; it has as many sources as channels."""

    def run(x: Array, n_sources: int, order: int) -> Array:
        return np.asarray(separate(x, structure="systematic", transform=transform, order=order).sources)

    return run


def learned(x: Array, n_sources: int, order: int) -> Array:
    """Return IGBSS with a learned structure."""
    order = min(order, LEARNED_ORDERS)
    return np.asarray(separate(x, n_sources=n_sources, structure="learned", order=order).sources)


def projected(x: Array, n_sources: int, order: int) -> Array:
    """Return the same by e-projection (KL) instead of least squares, for more channels than sources."""
    return np.asarray(separate(x, n_sources=n_sources, solver="joint").sources)


def fast_ica(x: Array, n_sources: int, order: int = 1, seed: int = 0) -> Array:
    """Return independent components by scikit-learn; logcosh is the paper's contrast too."""
    model = FastICA(n_sources, random_state=seed, whiten="unit-variance", max_iter=1000)
    return np.asarray(model.fit_transform(x))


def picard(x: Array, n_sources: int, order: int = 1, seed: int = 0) -> Array:
    """Return independent components by extended Picard, which is not held to be orthogonal."""
    return unmixed(x, with_positive_columns(picard_unmixing(x, n_sources, seed)))


def picard_unmixing(x: Array, n_sources: int, seed: int = 0) -> Array:
    """Return the unmixing matrix of extended Picard, (sources, channels), signs as they come."""
    whitening, rotation, _ = run_picard(
        x.T, n_components=n_sources, ortho=False, extended=True, random_state=seed, max_iter=500
    )
    return np.asarray(rotation @ whitening)


def ar_picard(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return what Picard makes of the channels whitened in time by one filter, applied to the channels.

    A filter that all channels share leaves the mixing as it is; innovations are closer to independent
    and further from Gaussian than signals.
    """
    return _picard_of(x, n_sources, ar_innovations)


def var_picard(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return the same by the innovations of a vector autoregression of the channels."""
    return _picard_of(x, n_sources, var_innovations)


def _picard_of(x: Array, n_sources: int, innovations: Callable[[Array], Array]) -> Array:
    axes = principal(x, n_sources)
    whitened = unmixed(x, axes)
    unmixing = picard_unmixing(innovations(whitened), n_sources) @ axes
    return unmixed(x, with_positive_columns(unmixing))


def ar_innovations(z: Array, lags: int = 20) -> Array:
    """Return the residuals of the scalar autoregression that suits all columns best."""
    moments = np.array([np.vdot(z[k:], z[: len(z) - k]) for k in range(lags + 1)])
    moments[0] *= 1.0 + 1e-9  # a sine is predicted all too well
    weights = solve_toeplitz(moments[:-1], moments[1:])
    return np.asarray(z[lags:] - sum(weights[k - 1] * z[lags - k : -k] for k in range(1, lags + 1)))


def var_innovations(z: Array, lags: int = 6) -> Array:
    """Return the residuals of a vector autoregression, (samples - lags, columns)."""
    past = np.hstack([z[lags - k : -k] for k in range(1, lags + 1)])
    normal = past.T @ past
    normal[np.diag_indices(len(normal))] += 1e-9 * np.trace(normal) / len(normal)
    return np.asarray(z[lags:] - past @ solve(normal, past.T @ z[lags:], assume_a="pos"))


def second_order(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return the sources whose lagged covariances are as diagonal as can be (SOBI)."""
    axes = principal(x, n_sources)
    whitened = unmixed(x, axes)
    unmixing = diagonalising_rotation(lagged_covariances(whitened, SECOND_ORDER_LAGS)) @ axes
    return unmixed(x, with_positive_columns(unmixing))


def unmixed(x: Array, unmixing: Array) -> Array:
    """Return the sources that an unmixing matrix, (sources, channels), makes of channels."""
    return np.asarray((x - x.mean(axis=0)) @ unmixing.T)


def principal(x: Array, n_sources: int) -> Array:
    """Return what whitens the leading principal directions, (sources, channels)."""
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    return np.asarray((vectors[:, -n_sources:] / np.sqrt(values[-n_sources:])).T)


def lagged_covariances(z: Array, lags: int) -> Array:
    """Return the symmetric part of the covariances at lags 1, 2, ..., (lags, n, n)."""
    moments = np.array([z[k:].T @ z[:-k] / (len(z) - k) for k in range(1, lags + 1)])
    return np.asarray(0.5 * (moments + moments.transpose(0, 2, 1)))


def diagonalising_rotation(matrices: Array, tolerance: float = 1e-9) -> Array:
    """Return the rotation R that makes all R M R' as diagonal as can be, by sweeps of plane rotations.

    The sum of squares off the diagonal in the plane (i, j) is least at a quarter of the angle of the
    leading eigenvector of h h', h = (M_ii - M_jj, 2 M_ij).
    """
    matrices = matrices.copy()
    n = matrices.shape[1]
    rotation = np.eye(n)
    for _ in range(100):
        largest = 0.0
        for i in range(n - 1):
            for j in range(i + 1, n):
                angle = _plane_angle(matrices, i, j)
                turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
                matrices[:, [i, j], :] = turn @ matrices[:, [i, j], :]
                matrices[:, :, [i, j]] = matrices[:, :, [i, j]] @ turn.T
                rotation[[i, j]] = turn @ rotation[[i, j]]
                largest = max(largest, abs(angle))
        if largest < tolerance:
            break
    return rotation


def _plane_angle(matrices: Array, i: int, j: int) -> float:
    gap, cross = matrices[:, i, i] - matrices[:, j, j], 2.0 * matrices[:, i, j]
    on, off = gap @ gap - cross @ cross, 2.0 * gap @ cross
    return 0.25 * float(np.arctan2(off, on))


def with_positive_columns(unmixing: Array) -> Array:
    """Turn sources so that each column of the mixing matrix has a positive sum."""
    sums = np.linalg.pinv(unmixing).sum(axis=0)
    return np.asarray(unmixing * np.where(sums < 0, -1.0, 1.0)[:, None])


def principal_components(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return principal components by scikit-learn."""
    return np.asarray(PCA(n_sources).fit_transform(x))


def dictionary(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return the codes of a learned dictionary, both positive as in the paper."""
    model = MiniBatchDictionaryLearning(
        n_sources,
        fit_algorithm="cd",
        transform_algorithm="lasso_cd",
        positive_code=True,
        positive_dict=True,
        random_state=0,
    )
    return np.asarray(model.fit_transform(x - x.min(axis=0)))


def nmf(x: Array, n_sources: int, order: int = 1) -> Array:
    """Return the activations of a non-negative factorisation of the channels less their minimum."""
    model = NMF(n_sources, init="nndsvda", max_iter=1000)
    return np.asarray(model.fit_transform(x - x.min(axis=0)))


CHANNELS = Method("channels", lambda x, n_sources, order: x)
PUBLISHED_EXP = Method("published, exp", published("exp"))
PUBLISHED_MIN_MAX = Method("published, min-max", published("min-max"))
LEARNED = Method("learned", learned)
FAST_ICA = Method("FastICA (oracle)", fast_ica, oracle=True)
PICARD = Method("Picard", picard)
AR_PICARD = Method("innovations + Picard", ar_picard)
VAR_PICARD = Method("vector innovations + Picard", var_picard)
SECOND_ORDER = Method("second-order", second_order)
PRINCIPAL = Method("PCA", principal_components)
DICTIONARY = Method("dictionary (oracle)", dictionary, oracle=True)
NON_NEGATIVE = Method("NMF (oracle)", nmf, oracle=True)

OURS = (CHANNELS, PUBLISHED_EXP, PUBLISHED_MIN_MAX, LEARNED)
STRONG = (FAST_ICA, PICARD, AR_PICARD, VAR_PICARD, SECOND_ORDER)
WEAK = (PRINCIPAL, DICTIONARY, NON_NEGATIVE)
