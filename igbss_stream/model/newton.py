"""Relative Newton steps of an unmixing matrix, W <- (I + t D) W, and a prior around an earlier one.

The gradient G and the curvature H of the negative log-likelihood in D are solved for each pair of sources
as [[H_ij, k], [k, H_ji]] (D_ij, D_ji) = -(G_ij, G_ji), as in relative Newton methods of ICA. The coupling k
comes from the term -k log |det W| of the loss, and is 1 without further terms of this kind.

A prior around an earlier unmixing matrix W_0 has the weight of a number of samples. With the rows of both
matrices scaled to unit variance and P = W inv(W_0), it adds half the sum over i != j of (P_ij / P_ii)^2,
times the ratio of the prior samples to the available samples. A long window overrides the prior; a short
one changes only what its samples determine.
"""

import itertools
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MIN_EIGENVALUE = 0.05  # of the Hessian of a pair
_MAX_STEP = 0.3  # largest entry of D
_MIN_POWER = 1e-12
_N_PARTS = 8  # parts of the samples, for the sampling error
_N_ROWS = 8  # whose spectra are held at once


@dataclass(frozen=True)
class Prior:
    """Terms of the prior in the loss at (I + D) W, with their gradient and curvature in D.

    Parameters
    ----------
    weight : float
        Number of samples that the prior is equivalent to, divided by the number of available samples.
    relative : ndarray of shape (sources, sources)
        W times the inverse of the earlier unmixing matrix.
    """

    weight: float
    relative: Array

    def compute_loss(self, move: Array | None = None) -> float:
        """Return the terms at ``move @ W``, or at W if no move is given."""
        relative = self.relative if move is None else move @ self.relative
        scaled = relative / np.diag(relative)[:, None]
        return 0.5 * float(self.weight * (np.sum(scaled**2) - len(scaled)))

    def compute_gradient(self) -> Array:
        """Return the gradient in the off-diagonal entries of D."""
        diagonal = np.diag(self.relative)[:, None]
        scaled = self.relative / diagonal
        slope = scaled - np.diag(np.sum(scaled**2, axis=1))
        return np.asarray(self.weight * slope / diagonal @ self.relative.T)


def compute_overlaps(taps: Array) -> Array:
    """Return the autocovariances of taps, both (sources, lags + 1)."""
    lags = taps.shape[1]
    return np.array([np.sum(taps[:, : lags - k] * taps[:, k:], axis=1) for k in range(lags)]).T


def compute_filtered_power(taps: Array, lagged: Array) -> Array:
    """Return the mean square of f_i * y_j, (i, j).

    Parameters
    ----------
    taps : ndarray of shape (sources, lags + 1)
        Of the filters f_i.
    lagged : ndarray of shape (sources, lags + 1)
        Autocovariances of the sources y_j.
    """
    overlap = compute_overlaps(taps)
    overlap[:, 1:] *= 2.0
    return np.asarray(np.maximum(overlap @ lagged.T, _MIN_POWER))


def solve_pairs(
    gradient: Array, hessian: Array, max_step: float = _MAX_STEP, coupling: float = 1.0
) -> Array:
    """Return the step D, with the eigenvalues of the Hessian of each pair bounded from below.

    Parameters
    ----------
    gradient, hessian : ndarray of shape (sources, sources)
        G and H; their diagonals are ignored.
    max_step : float
        Largest entry of D; a larger step is shortened.
    coupling : float
        k, the curvature between D_ij and D_ji.
    """
    first, second = _bound_curvature(hessian, coupling)
    step = -(second * gradient - coupling * gradient.T) / (first * second - coupling**2)
    np.fill_diagonal(step, 0.0)
    return shorten(step, max_step)


def shorten(step: Array, max_step: float = _MAX_STEP) -> Array:
    """Return a step whose largest entry is at most max_step."""
    largest = float(np.abs(step).max(initial=0.0))
    return np.asarray(step * min(1.0, max_step / max(largest, max_step)))


class StepMemory:
    """Corrects Newton steps by what the last steps did to the gradient (limited-memory BFGS).

    The curvature H neglects that several pairs of sources can be dependent at once. The memory learns the
    rest of it, as preconditioned quasi-Newton methods of ICA do.

    Parameters
    ----------
    coupling : float
        k, the curvature between D_ij and D_ji.
    n_steps : int
        Number of steps that are remembered.
    """

    def __init__(self, coupling: float = 1.0, n_steps: int = 7) -> None:
        self._coupling = coupling
        self._pairs: deque[tuple[Array, Array, float]] = deque(maxlen=n_steps)

    def propose(self, gradient: Array, hessian: Array) -> Array:
        """Return the next step D."""
        rest, shares = gradient.copy(), list[float]()
        for step, change, product in reversed(self._pairs):
            shares.append(float(np.sum(step * rest)) / product)
            rest -= shares[-1] * change
        proposed = solve_pairs(rest, hessian, np.inf, self._coupling)
        for (step, change, product), share in zip(self._pairs, reversed(shares), strict=True):
            proposed -= (share + float(np.sum(change * proposed)) / product) * step
        if float(np.sum(proposed * gradient)) >= 0.0:
            self._pairs.clear()
            proposed = solve_pairs(gradient, hessian, np.inf, self._coupling)
        return shorten(proposed)

    def remember(self, step: Array, change: Array) -> None:
        """Add a step that was taken and the change of the gradient along it."""
        product = float(np.sum(step * change))
        if product > 1e-9 * float(np.sum(step**2)):
            self._pairs.append((step, change, product))


def estimate_error(
    adjoint: Array, y: Array, hessian: Array, coupling: float = 1.0, chance: float = 0.0
) -> Array:
    """Return the sampling error of an unmixing matrix, the variance of each entry of D.

    The larger one of two estimates is used. The first one is the scatter of the steps that parts of the
    samples alone would take (batch means); it allows for sources that are active at the same time. The
    second one is inv(H) V inv(H), with the variance V of the gradient if the sources are independent, which
    the spectra of its factors yield; it allows for correlations that are longer than a part.

    H of two sources that the samples hardly tell apart, such as white Gaussian ones, is close to singular,
    and mostly due to chance. The inverse of V is then a third estimate, as V is the information if the
    model holds. Unlike H, V vanishes exactly along a rotation that changes nothing.

    Parameters
    ----------
    adjoint, y : ndarray of shape (sources, samples)
        ``adjoint @ y.T`` divided by the number of samples is the gradient G.
    hessian : ndarray of shape (sources, sources)
        The curvature H.
    coupling : float
        k, the curvature between D_ij and D_ji.
    chance : float
        Information that two sources of the same distribution would show by chance.
    """
    edges = np.linspace(0, y.shape[1], _N_PARTS + 1).astype(int)
    steps = [
        solve_pairs(
            adjoint[:, start:stop] @ y[:, start:stop].T / max(stop - start, 1), hessian, np.inf, coupling
        )
        for start, stop in itertools.pairwise(edges)
    ]
    scatter = np.var(steps, axis=0, ddof=1) / _N_PARTS
    variance, covariance = _predict_variance(adjoint, y)
    first, second = _bound_curvature(hessian, coupling)
    least = _find_least_eigenvalue(hessian, hessian.T, coupling)
    is_weak = least * y.shape[1] < _MIN_EIGENVALUE * y.shape[1] + 2.0 * chance
    spread = second**2 * variance + coupling**2 * variance.T - 2.0 * coupling * second * covariance
    predicted = np.maximum(spread, 0.0) / (first * second - coupling**2) ** 2
    unknown = _invert_information(variance, covariance, y.shape[1], chance)
    error: Array = np.maximum(np.maximum(scatter, predicted), np.where(is_weak, unknown, 0.0))
    np.fill_diagonal(error, 0.0)
    return error


def _predict_variance(adjoint: Array, y: Array) -> tuple[Array, Array]:
    """Return the variance of G_ij, and its covariance with G_ji, if the sources are independent."""
    cross = np.fft.rfft(y, axis=1)[:, 1:]
    power = np.abs(cross) ** 2
    variance = np.empty((len(y), len(y)))
    for start in range(0, len(y), _N_ROWS):
        rows = slice(start, start + _N_ROWS)
        left = np.fft.rfft(adjoint[rows], axis=1)[:, 1:]
        variance[rows] = np.abs(left) ** 2 @ power.T
        cross[rows] = left * cross[rows].conj()
    parts = cross.view(np.float64)
    factor = 2.0 / float(y.shape[1]) ** 4
    return factor * variance, factor * (parts @ parts.T)


def _invert_information(variance: Array, covariance: Array, n_samples: int, chance: float) -> Array:
    """Return the variance of D_ij, at most 1, from the least information that a pair has.

    Parameters
    ----------
    variance, covariance : ndarray of shape (sources, sources)
        Variance of G_ij, and its covariance with G_ji.
    n_samples : int
    chance : float
        Subtracted from the information.
    """
    least = _find_least_eigenvalue(variance, variance.T, covariance)
    information = np.maximum(least * float(n_samples) ** 2 - chance, 0.5)
    # of the direction with the least information, the share of D_ij
    share = (variance.T - least) / np.maximum(variance + variance.T - 2.0 * least, np.finfo(float).tiny)
    return np.asarray(np.minimum(share / information, 1.0))


def _find_least_eigenvalue(first: Array, second: Array, coupling: float | Array) -> Array:
    """Return the least eigenvalue of [[first, coupling], [coupling, second]]."""
    return np.asarray(0.5 * (first + second) - np.sqrt(0.25 * (first - second) ** 2 + coupling**2))


def _bound_curvature(hessian: Array, coupling: float) -> tuple[Array, Array]:
    """Return H_ij and H_ji, lifted where a pair has an eigenvalue below the bound."""
    across = hessian.T
    lift = np.maximum(_MIN_EIGENVALUE - _find_least_eigenvalue(hessian, across, coupling), 0.0)
    return hessian + lift, across + lift
