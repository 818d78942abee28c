"""Sources and weights of a polynomial mixture, improved together from a start.

With z the sources and phi_S(z) the product of those in S (1 for the empty set), a sample of channels is
x = sum over S of weights[:, S] phi_S(z). Both z and the weights are free; what is minimised, a sample, is::

    sum over i of loss_i + log det(mean of J'J) / 2 + mean |x - weights phi(z)|^2 / (2 sigma^2)

loss_i is that of an autoregressive source with generalised-Gaussian innovations
(`igbss_stream.model.structure`), and J the derivative of x by z. The likelihood of an invertible map has
the mean of log |det J| instead. Where the map folds that is minus infinity, and free sources would gather
there; for a linear mixture both are the same. Ends of descents are compared by the likelihood's term,
softened by sigma^2, as they no longer move.

sigma is lowered from half the channels' deviation to almost nothing. While it is large, the sources' own
law decides; a source passes through a fold of the map, where the channels do not tell two values apart, as
its past and future have it. A Gauss-Newton step over all sources and weights takes one banded
factorisation: weights are eliminated last, and held where mean and variance of the sources stay.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model import likelihood
from igbss_stream.model.kernels import interactions, learning

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

LAGS = 2  # a longer memory predicts products as well as sources, and so tells them apart less
_RELATIVE_FLOOR = 1e-4  # added to squared innovations, as a share of their mean
_ABSOLUTE_FLOOR = 1e-2  # and as a share of sigma^2: what the channels leave open is no innovation
_DAMPING = 1e-3  # added to the curvature of each source at each sample
_WEIGHT_DAMPING = (
    1e-6  # least eigenvalue of the weights' curvature, as a share of that of sources held fixed
)
_LONGEST = 0.5  # step of a source, root mean square
_HALVINGS = 10


@dataclass(frozen=True)
class SigmaSchedule:
    """How sigma is lowered.

    Parameters
    ----------
    first, last : float
        In deviations of the whitened channels.
    rate : float
        From one step to the next.
    rest : int
        Steps at the last value.
    """

    first: float
    last: float
    rate: float
    rest: int

    def list_sigmas(self) -> list[float]:
        """Return sigma of each step."""
        n_steps = max(0, math.ceil(math.log(self.last / self.first) / math.log(self.rate)))
        return [self.first * self.rate**k for k in range(n_steps)] + [self.last] * self.rest


@dataclass(frozen=True)
class PolynomialFit:
    """Where a descent ended: sources (sources, samples) of unit variance, weights (directions, sets)."""

    z: Array
    weights: Array
    loss: float


class PolynomialDescent:
    """Joint descents for whitened channels (samples, directions) and the sets that make them up."""

    def __init__(self, x: Array, masks: Masks, n_sources: int, lags: int) -> None:
        self.x, self.masks, self.lags = np.ascontiguousarray(x), masks, lags
        self.shape = n_sources, len(x)
        self._e, self._scores = np.empty((2, n_sources, len(x) - lags))
        self._power, self._curvature = np.empty((2, n_sources))
        self._gram = np.empty((n_sources, n_sources))
        self._band = np.empty((n_sources * len(x), n_sources * (lags + 1)))
        self._cross = np.empty((n_sources * len(x), x.shape[1] * len(masks)))

    def run(self, z: Array, schedule: SigmaSchedule, weights: Array | None = None) -> PolynomialFit:
        """Descend from sources, and from the weights that fit them best if none are given."""
        z = standardise_rows(z)
        weights = fit_weights(self.x, z, self.masks) if weights is None else weights
        law, loss = None, math.inf
        for sigma in schedule.list_sigmas():
            z, weights = standardise(z, weights, self.masks)
            law = self._update_law(z, sigma, law)
            loss = self._compute_loss(z, weights, sigma, law)
            step = self._compute_step(z, weights, sigma, law)
            if step is None:
                return PolynomialFit(z, weights, math.inf)
            move, weights_move, slope = step
            t = min(1.0, _LONGEST / math.sqrt(float(np.max(np.mean(move**2, axis=1)))))
            for _ in range(_HALVINGS):
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
        """Return taps, shape and floor of each source's innovations, improved from the last ones."""
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
        """Return the likeliest of the shapes next to the last ones."""
        at = np.searchsorted(likelihood.SHAPES, last)
        tried = np.clip(np.array([at - 2, at - 1, at, at + 1, at + 2]), 0, len(likelihood.SHAPES) - 1)
        losses = np.empty(tried.shape)
        for loss, index in zip(losses, tried, strict=True):
            learning.compute_mean_power(self._e, likelihood.SHAPES[index], floor, self._power)
            loss[:] = likelihood.compute_source_loss(likelihood.SHAPES[index], self._power)
        return np.asarray(likelihood.SHAPES[tried[losses.argmin(axis=0), np.arange(len(last))]])

    def _compute_loss(self, z: Array, weights: Array, sigma: float, law: "_InnovationLaw") -> float:
        """Return the loss a sample; leave innovations, power and Gram matrix behind."""
        square = interactions.compute_misfit(self.x, z, self.masks, weights, self._gram)
        learning.filter_rows(z, law.taps, self._e)
        learning.compute_mean_power(self._e, law.shape, law.floor, self._power)
        own = float(np.sum(likelihood.compute_source_loss(law.shape, self._power)))
        return own + 0.5 * float(np.linalg.slogdet(self._gram)[1]) + 0.5 * square / (sigma**2 * len(self.x))

    def _compute_step(
        self, z: Array, weights: Array, sigma: float, law: "_InnovationLaw"
    ) -> tuple[Array, Array, float] | None:
        """Return the Gauss-Newton step of sources and weights, and its slope, after `_compute_loss`.

        None where the curvature is so bad that no step is a number: that descent leads nowhere.
        """
        n_sources, n_samples = self.shape
        gradient, slopes = np.zeros((n_samples, n_sources)), np.zeros(weights.shape)
        self._band[:] = 0.0
        interactions.add_prior(self._e, law.taps, law.shape, law.floor, self._power, gradient, self._band)
        spread = np.asarray(np.linalg.inv(self._gram), dtype=np.float64)
        interactions.add_misfit(
            self.x, z, self.masks, weights, sigma**-2, spread,
            gradient, self._band, slopes, self._cross,
        )  # fmt: skip
        self._band[:, 0] += _DAMPING
        interactions.factor_band(self._band)
        solved = np.column_stack([gradient.reshape(-1), self._cross])
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
    """Return columns that take a step's means, and its covariances with its own source."""
    n_sources, n_samples = z.shape
    columns = np.zeros((n_samples, n_sources, 2 * n_sources))
    for i in range(n_sources):
        columns[:, i, i] = 1.0 / n_samples
        columns[:, i, n_sources + i] = z[i] / n_samples
    return columns.reshape(n_samples * n_sources, -1)


def _solve_constrained(hessian: Array, gradient: Array, scale: Array, fixed: Array, value: Array) -> Array:
    """Return the least of a quadratic, its curvature kept above a floor, with ``fixed @ step = value``."""
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
    """Return the products of sources, (samples, sets), of sources (sources, samples)."""
    out = np.empty((z.shape[1], len(masks)))
    interactions.fill_products(z, masks, out)
    return out


def fit_weights(x: Array, z: Array, masks: Masks) -> Array:
    """Return the weights (directions, sets) with which sources (sources, samples) make up x best."""
    return np.ascontiguousarray(np.linalg.lstsq(compute_products(z, masks), x, rcond=None)[0].T)


def standardise_rows(z: Array) -> Array:
    """Return rows of mean 0 and variance 1."""
    centred = z - z.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(centred / centred.std(axis=1, keepdims=True))


def standardise(z: Array, weights: Array, masks: Masks) -> tuple[Array, Array]:
    """Return sources of mean 0 and variance 1 and the weights with which they make up the same."""
    mean, deviation = z.mean(axis=1), z.std(axis=1)
    # prod over T of (mean + deviation y) = sum over S in T of (deviation^S mean^(T - S)) prod over S of y
    change = np.ones((len(masks), len(masks)))
    for i in range(len(z)):
        whole, part = masks[:, None] >> i & 1, masks[None, :] >> i & 1
        change *= np.where(whole, np.where(part, deviation[i], mean[i]), 1 - part)
    rows = (z - mean[:, None]) / deviation[:, None]
    return np.ascontiguousarray(rows), np.ascontiguousarray(weights @ change)
