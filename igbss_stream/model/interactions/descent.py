"""Optimise sources and weights of a polynomial mixture jointly, from a starting point.

Let z be the sources and phi_S(z) the product of the sources in S (1 for the empty set). A sample of the
channels is x = sum over S of weights[:, S] phi_S(z). Both z and the weights are free. The objective, per
sample, is::

    sum over i of loss_i + log det(mean of J'J) / 2 + mean |x - weights phi(z)|^2 / (2 sigma^2)

loss_i is the loss of an autoregressive source with generalised-Gaussian innovations
(`igbss_stream.model.likelihood`), and J is the derivative of x with respect to z. The likelihood of an
invertible map has the mean of log |det J| instead of the second term. That mean is minus infinity at a fold
of the map, where free sources would accumulate; for a linear mixture both terms are equal. Results of
descents are fixed, and are compared with the term of the likelihood, softened by sigma^2.

sigma decreases from half the standard deviation of the channels to almost zero. While it is large, the
prior of the sources dominates. Where the channels do not distinguish two values of a source, at a fold of
the map, its past and future determine the value. A Gauss-Newton step in all sources and weights needs one
banded factorisation. The weights are eliminated last, subject to constant mean and variance of the sources.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model import likelihood
from igbss_stream.model.kernels import interactions, learning

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

LAGS = 2  # more lags predict products as well as sources, which reduces the contrast
_RELATIVE_FLOOR = 1e-4  # added to squared innovations, relative to their mean
_ABSOLUTE_FLOOR = 1e-2  # likewise, relative to sigma^2: uncertainty of a source is not innovation
_DAMPING = 1e-3  # added to the curvature of each source at each sample
_WEIGHT_DAMPING = 1e-6  # smallest eigenvalue of the weights' curvature, relative to fixed sources
_MAX_STEP = 0.5  # of a source, root mean square
_MAX_HALVINGS = 10


@dataclass(frozen=True)
class SigmaSchedule:
    """Schedule by which sigma decreases.

    Parameters
    ----------
    first, last : float
        First and last value, in standard deviations of the whitened channels.
    rate : float
        Factor from one step to the next.
    n_last : int
        Number of steps at the last value.
    """

    first: float
    last: float
    rate: float
    n_last: int

    def list_sigmas(self) -> list[float]:
        """Return the value of sigma for each step."""
        n_steps = max(0, math.ceil(math.log(self.last / self.first) / math.log(self.rate)))
        return [self.first * self.rate**k for k in range(n_steps)] + [self.last] * self.n_last


@dataclass(frozen=True)
class PolynomialFit:
    """Result of a descent: sources (sources, samples) of unit variance, and weights (directions, sets)."""

    z: Array
    weights: Array
    loss: float


class PolynomialDescent:
    """Joint descent for whitened channels (samples, directions) and sets of sources as bit masks."""

    def __init__(self, x: Array, masks: Masks, n_sources: int, lags: int) -> None:
        self.x, self.masks, self.lags = np.ascontiguousarray(x), masks, lags
        self.shape = n_sources, len(x)
        self._e, self._scores = np.empty((2, n_sources, len(x) - lags))
        self._power, self._curvature = np.empty((2, n_sources))
        self._gram = np.empty((n_sources, n_sources))
        self._band = np.empty((n_sources * len(x), n_sources * (lags + 1)))
        self._cross = np.empty((n_sources * len(x), x.shape[1] * len(masks)))

    def run(self, z: Array, schedule: SigmaSchedule, weights: Array | None = None) -> PolynomialFit:
        """Run a descent from sources, and from weights; by default from their least-squares fit."""
        z = standardise_rows(z)
        weights = fit_weights(self.x, z, self.masks) if weights is None else weights
        law, loss = None, math.inf
        for sigma in schedule.list_sigmas():
            z, weights = standardise(z, weights, self.masks)
            law = self._update_law(z, sigma, law)
            loss = self._compute_loss(z, weights, sigma, law)
            # the loss is infinite if J'J is singular, as of sources that have become equal
            step = self._compute_step(z, weights, sigma, law) if math.isfinite(loss) else None
            if step is None:
                return PolynomialFit(z, weights, math.inf)
            move, weights_move, slope = step
            t = min(1.0, _MAX_STEP / math.sqrt(float(np.max(np.mean(move**2, axis=1)))))
            for _ in range(_MAX_HALVINGS):
                tried = z + t * move, weights + t * weights_move
                if self._compute_loss(*tried, sigma, law) < loss + 1e-4 * t * slope:
                    z, weights = tried
                    break
                t *= 0.5
        z, weights = standardise(z, weights, self.masks)
        law = self._update_law(z, schedule.last, law)
        loss = self._compute_loss(z, weights, schedule.last, law) - 0.5 * float(
            np.linalg.slogdet(self._gram)[1]
        )
        loss += interactions.compute_log_volume(z, self.masks, weights, schedule.last**2)
        return PolynomialFit(z, weights, loss if math.isfinite(loss) else math.inf)

    def _update_law(self, z: Array, sigma: float, last: "_InnovationLaw | None") -> "_InnovationLaw":
        """Update taps, shape and floor of the innovations of each source."""
        if last is None:
            white = np.zeros((len(z), self.lags + 1))
            white[:, 0] = 1.0
            last = _InnovationLaw(white, np.full(len(z), 2.0), np.zeros(len(z)))
            last = self._regress(z, sigma, last)
        return self._regress(z, sigma, last)

    def _regress(self, z: Array, sigma: float, last: "_InnovationLaw") -> "_InnovationLaw":
        learning.filter_rows(z, last.taps, self._e)
        floor = self._compute_floor(sigma)
        shape = self._pick_shapes(last.shape, floor)
        learning.compute_power_scores(self._e, shape, floor, self._scores, self._power, self._curvature)
        taps = last.taps + likelihood.compute_tap_step(z, self._e, self._scores, shape, floor)[1]
        learning.filter_rows(z, taps, self._e)
        floor = self._compute_floor(sigma)
        return _InnovationLaw(taps, self._pick_shapes(last.shape, floor), floor)

    def _compute_floor(self, sigma: float) -> Array:
        mean_square = np.mean(self._e**2, axis=1)
        return np.asarray(_RELATIVE_FLOOR * mean_square + _ABSOLUTE_FLOOR * sigma**2)

    def _pick_shapes(self, last: Array, floor: Array) -> Array:
        """Return the most likely shape of each source among the neighbours of the last one."""
        at = np.searchsorted(likelihood.SHAPES, last)
        tried = np.clip(np.array([at - 2, at - 1, at, at + 1, at + 2]), 0, len(likelihood.SHAPES) - 1)
        losses = np.empty(tried.shape)
        for loss, index in zip(losses, tried, strict=True):
            learning.compute_mean_power(self._e, likelihood.SHAPES[index], floor, self._power)
            loss[:] = likelihood.compute_source_loss(likelihood.SHAPES[index], self._power)
        return np.asarray(likelihood.SHAPES[tried[losses.argmin(axis=0), np.arange(len(last))]])

    def _compute_loss(self, z: Array, weights: Array, sigma: float, law: "_InnovationLaw") -> float:
        """Return the loss per sample; set innovations, power and Gram matrix for `_compute_step`."""
        square = interactions.compute_misfit(self.x, z, self.masks, weights, self._gram)
        learning.filter_rows(z, law.taps, self._e)
        learning.compute_mean_power(self._e, law.shape, law.floor, self._power)
        own = float(np.sum(likelihood.compute_source_loss(law.shape, self._power)))
        return own + 0.5 * float(np.linalg.slogdet(self._gram)[1]) + 0.5 * square / (sigma**2 * len(self.x))

    def _compute_step(
        self, z: Array, weights: Array, sigma: float, law: "_InnovationLaw"
    ) -> tuple[Array, Array, float] | None:
        """Return the Gauss-Newton step of sources and weights, and its slope; call `_compute_loss` first.

        Returns None if the curvature is too ill-conditioned for a finite step.
        """
        n_sources, n_samples = self.shape
        gradient, slopes = np.zeros((n_samples, n_sources)), np.zeros(weights.shape)
        self._band[:] = 0.0
        interactions.add_prior(self._e, law.taps, law.shape, law.floor, self._power, gradient, self._band)
        spread = np.ascontiguousarray(np.linalg.inv(self._gram), dtype=np.float64)
        interactions.add_misfit(
            self.x, z, self.masks, weights, sigma**-2, spread,
            gradient, self._band, slopes, self._cross,
        )  # fmt: skip
        self._band[:, 0] += _DAMPING
        interactions.factor_band(self._band)
        solved = np.empty((len(self._cross), 1 + self._cross.shape[1]))
        solved[:, 0], solved[:, 1:] = gradient.reshape(-1), self._cross
        interactions.solve_band(self._band, solved)
        if not np.isfinite(solved).all():
            return None
        alone, coupled = solved[:, 0], solved[:, 1:]
        features = compute_products(z, self.masks)
        direct = np.kron(np.eye(len(weights)), features.T @ features) / sigma**2
        fixed = _build_moment_constraints(z)
        weights_move = _solve_constrained(
            direct - self._cross.T @ coupled,
            slopes.reshape(-1) - self._cross.T @ alone,
            np.sqrt(np.diag(direct)),
            fixed.T @ coupled,
            -fixed.T @ alone,
        )
        move = -(alone + coupled @ weights_move)
        slope = gradient.reshape(-1) @ move + slopes.reshape(-1) @ weights_move
        rows = np.ascontiguousarray(move.reshape(n_samples, n_sources).T)
        return rows, weights_move.reshape(weights.shape), float(slope) / n_samples


@dataclass(frozen=True)
class _InnovationLaw:
    taps: Array
    shape: Array
    floor: Array


def _build_moment_constraints(z: Array) -> Array:
    """Return columns that give the mean of a step of each source, and its covariance with the source."""
    n_sources, n_samples = z.shape
    columns = np.zeros((n_samples, n_sources, 2 * n_sources))
    for i in range(n_sources):
        columns[:, i, i] = 1.0 / n_samples
        columns[:, i, n_sources + i] = z[i] / n_samples
    return columns.reshape(n_samples * n_sources, -1)


def _solve_constrained(hessian: Array, gradient: Array, scale: Array, fixed: Array, value: Array) -> Array:
    """Minimise a quadratic with curvature bounded from below, subject to ``fixed @ step = value``."""
    fixed = fixed / scale
    left, sizes, right = np.linalg.svd(fixed)
    held, free = right[: len(sizes)], right[len(sizes) :]
    base = held.T @ ((left.T @ value) / sizes)
    scaled = hessian / np.outer(scale, scale)
    scaled = 0.5 * (scaled + scaled.T)
    values, vectors = np.linalg.eigh(free @ scaled @ free.T)
    pull = vectors.T @ (free @ (gradient / scale + scaled @ base))
    step = base - free.T @ (vectors @ (pull / np.maximum(values, _WEIGHT_DAMPING)))
    return np.asarray(step / scale)


def compute_products(z: Array, masks: Masks) -> Array:
    """Return the products (samples, sets) of sources (sources, samples)."""
    out = np.empty((z.shape[1], len(masks)))
    interactions.fill_products(np.ascontiguousarray(z), masks, out)
    return out


def fit_weights(x: Array, z: Array, masks: Masks) -> Array:
    """Fit x by products of sources (sources, samples); return the weights (directions, sets)."""
    return np.ascontiguousarray(np.linalg.lstsq(compute_products(z, masks), x, rcond=None)[0].T)


def standardise_rows(z: Array) -> Array:
    """Scale rows to mean 0 and variance 1."""
    centred = z - z.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(centred / centred.std(axis=1, keepdims=True))


def standardise(z: Array, weights: Array, masks: Masks) -> tuple[Array, Array]:
    """Scale sources to mean 0 and variance 1, and adapt the weights to leave the mixture unchanged."""
    mean, deviation = z.mean(axis=1), z.std(axis=1)
    # prod over T of (mean + deviation y) = sum over S in T of (deviation^S mean^(T - S)) prod over S of y
    change = np.ones((len(masks), len(masks)))
    for i in range(len(z)):
        whole, part = masks[:, None] >> i & 1, masks[None, :] >> i & 1
        change *= np.where(whole, np.where(part, deviation[i], mean[i]), 1 - part)
    rows = (z - mean[:, None]) / deviation[:, None]
    return np.ascontiguousarray(rows), np.ascontiguousarray(weights @ change)
