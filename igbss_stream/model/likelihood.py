"""Maximum likelihood of autoregressive sources with generalised-Gaussian innovations.

Let z be the whitened channels, y = W z the sources, and e_i = f_i * y_i their innovations, where the first
of the taps f_i is 1. With the scales a_i profiled out, the negative log-likelihood per sample is::

    sum over i of [log(2 Gamma(1 + 1/b_i)) + (1 + log(b_i mean |e_i|^b_i)) / b_i] - log |det W|

The shapes b_i are chosen before each step; the step changes W and the taps jointly. W takes a relative
Newton step W <- (I + t D) W with

    G[i, j] = mean of psi_i (f_i * y_j),    psi_i = |e_i|^(b_i - 1) sign(e_i) / mean |e_i|^b_i
    H[i, j] = mean of psi_i' * mean of (f_i * y_j)^2

solved for each pair of sources, see `igbss_stream.model.newton`. The taps take the step of a regression on
lags, see `compute_tap_step`. |e| is smoothed near zero to give densities with a cusp a gradient.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step
from igbss_stream.model.kernels import learning
from igbss_stream.model.newton import Prior, compute_filtered_power, estimate_error, solve_pairs
from igbss_stream.model.views import ViewFit, fit_ridge_taps

Array = NDArray[np.float64]

LAGS = 20
_CHANCE, _CHANCE_OF_LAG = 20.0, 4.0  # information that fitted shapes and taps of Gaussian sources show
SHAPES = np.array([0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0])
_LOG_GAMMA = np.array([math.lgamma(1.0 + 1.0 / shape) for shape in SHAPES])
_SMOOTHING = 1e-4  # added to e^2, relative to its mean
_MIN_SMOOTHING = 1e-12  # absolute; sources have unit variance
_RIDGE = 1e-7  # regularises the regression on lags, relative to its diagonal; a sine makes it singular
_MAX_SUBSAMPLE = 4096  # samples that curvatures and shapes are estimated from
_MIN_CURVATURE = 0.3  # mean curvature of a density, relative to its mean weight
_MIN_DECREASE = 1e-4  # nats per parameter; a descent stops when the next step is expected to gain less
_STUCK = 3  # a descent that ends after fewer steps without being done has not left its start
_PATIENCE, _GAIN = 10, 0.1  # a descent stops when this number of steps gains less than this many nats


class LikelihoodDescent:
    """Maximum-likelihood descent for whitened channels.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    covariances : ndarray of shape (lags + 1, sources, sources)
        Lagged covariances of z, lag 0 first.
    """

    def __init__(self, z: Array, covariances: Array) -> None:
        n_sources, n_samples = z.shape
        self.z, self.covariances = z, covariances
        self.lags = len(covariances) - 1
        self._e, self._psi = np.empty((2, n_sources, n_samples - self.lags))
        self._adjoint = np.empty((n_sources, n_samples))
        self._power, self._curvature = np.empty((2, n_sources))

    def run(
        self,
        start: Array,
        n_steps: int,
        around: Array | None = None,
        *,
        prior_samples: float = 0.0,
        is_hopeless: Callable[[Array], bool] | None = None,
        step_done: StepDone = ignore_step,
    ) -> ViewFit:
        """Run a descent from an unmixing matrix of the whitened channels.

        Parameters
        ----------
        start : ndarray of shape (sources, sources)
        n_steps : int
            Largest number of steps.
        around : ndarray of shape (sources, sources), optional
            Centre of a prior: an earlier unmixing matrix of the whitened channels.
        prior_samples : float
            Weight of the prior, as a number of samples.
        is_hopeless : callable, optional
            Called with the unmixing matrix after each step; ends the descent by returning True.
        step_done : callable
            Called after each step.

        Returns
        -------
        ViewFit
        """
        w, y, losses = start, np.ascontiguousarray(start @ self.z), [math.inf]
        relative = np.eye(len(start)) if around is None else start @ np.linalg.inv(around)
        prior_weight, taps, shape = prior_samples / self.z.shape[1], None, None
        is_stuck = False
        while len(losses) <= n_steps:
            lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
            size = np.sqrt(lagged[:, :1])
            w, lagged = w / size, lagged / lagged[:, :1]
            y /= size
            if taps is None:
                taps = fit_ridge_taps(lagged, _RIDGE)
                learning.filter_rows(y, taps, self._e)
            else:
                relative = relative / size
                self._e /= size
            floor = self._compute_floor()
            shape = self._pick_shapes(shape, floor)
            learning.compute_power_scores(self._e, shape, floor, self._psi, self._power, self._curvature)
            prior = Prior(prior_weight, relative)
            likelihood = float(np.sum(compute_source_loss(shape, self._power)) - np.linalg.slogdet(w)[1])
            losses.append(likelihood + prior.compute_loss())
            step, tap_step, slope = self._compute_steps(y, taps, lagged, shape, floor, prior)
            if self._is_done(slope, losses) or (is_hopeless is not None and is_hopeless(w)):
                break
            t, y = self._search_line(y, step, slope, taps, tap_step, shape, floor, prior)
            if t == 0.0:
                is_stuck = len(losses) <= _STUCK
                break
            move = np.eye(len(w)) + t * step
            w, relative, taps = move @ w, move @ relative, taps + t * tap_step
            step_done()
        error = self._estimate_error(w, taps, shape, prior_weight)
        return ViewFit(w, tuple(losses[1:]), error, is_stuck)

    def _compute_steps(
        self, y: Array, taps: Array, lagged: Array, shape: Array, floor: Array, prior: Prior
    ) -> tuple[Array, Array, float]:
        """Return the Newton steps of W and of the taps, and the slope of the loss."""
        hessian = self._differentiate(taps, lagged, prior.weight)
        gradient = self._adjoint @ y.T / self._e.shape[1] + prior.compute_gradient()
        np.fill_diagonal(gradient, 0.0)
        step = solve_pairs(gradient, hessian)
        tap_slope, tap_step = compute_tap_step(y, self._e, self._psi, shape, floor, self._curvature)
        slope = float(np.sum(gradient * step) + np.sum(tap_slope * tap_step / self._power[:, None]))
        return step, tap_step, slope

    def _differentiate(self, taps: Array, lagged: Array, prior_weight: float) -> Array:
        """Fill the adjoint of the scores, which times y is the gradient in D, and return the curvature."""
        learning.filter_rows_adjoint(self._psi, taps, self._adjoint)
        self._adjoint /= self._power[:, None]
        bend = self._curvature / self._power
        return np.asarray(bend[:, None] * compute_filtered_power(taps, lagged) + prior_weight)

    def _estimate_error(
        self, w: Array, taps: Array | None, shape: Array | None, prior_weight: float
    ) -> Array:
        """Return the sampling error of W."""
        if taps is None or shape is None:  # no step was allowed
            return np.zeros_like(w)
        lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
        y = np.ascontiguousarray(w @ self.z / np.sqrt(lagged[:, :1]))
        learning.filter_rows(y, taps, self._e)
        floor = self._compute_floor()
        learning.compute_power_scores(self._e, shape, floor, self._psi, self._power, self._curvature)
        hessian = self._differentiate(taps, lagged / lagged[:, :1], prior_weight)
        chance = _CHANCE + _CHANCE_OF_LAG * (len(self.covariances) - 1)
        return estimate_error(self._adjoint, y, hessian, chance=chance)

    def _is_done(self, slope: float, losses: list[float]) -> bool:
        """Return whether the expected decrease of a step, or that of the last steps, is negligible."""
        n_sources, n_samples = self.z.shape
        if -0.5 * slope * n_samples < _MIN_DECREASE * n_sources * (n_sources + self.lags):
            return True
        return len(losses) > _PATIENCE + 1 and losses[-1 - _PATIENCE] - losses[-1] < _GAIN / n_samples

    def _compute_floor(self) -> Array:
        """Return the smoothing of squared innovations, (sources,)."""
        power = np.einsum("it,it->i", self._e, self._e) / self._e.shape[1]
        return np.asarray(np.maximum(_SMOOTHING * power, _MIN_SMOOTHING))

    def _pick_shapes(self, last: Array | None, floor: Array) -> Array:
        """Return the most likely shape of each source, among all or the neighbours of the last one."""
        some = np.ascontiguousarray(self._e[:, :: _compute_stride(self._e)])
        at = np.zeros(len(floor), dtype=int) if last is None else np.searchsorted(SHAPES, last)
        reach = range(len(SHAPES)) if last is None else (-1, 0, 1)
        tried = np.clip(np.array([at + offset for offset in reach]), 0, len(SHAPES) - 1)
        losses = np.empty(tried.shape)
        for loss, index in zip(losses, tried, strict=True):
            learning.compute_mean_power(some, SHAPES[index], floor, self._power)
            loss[:] = compute_source_loss(SHAPES[index], self._power)
        return np.asarray(SHAPES[tried[losses.argmin(axis=0), np.arange(len(floor))]])

    def _search_line(
        self,
        y: Array,
        step: Array,
        slope: float,
        taps: Array,
        tap_step: Array,
        shape: Array,
        floor: Array,
        prior: Prior,
    ) -> tuple[float, Array]:
        """Return the largest t = 1, 1/2, ... that lowers the loss, or 0, and y after this step."""
        here = float(np.sum(np.log(self._power) / shape)) + prior.compute_loss()
        t = 1.0
        for _ in range(12):
            move = np.eye(len(step)) + t * step
            moved = np.matmul(move, y, out=self._adjoint)
            learning.filter_rows(moved, taps + t * tap_step, self._e)
            learning.compute_mean_power(self._e, shape, floor, self._power)
            there = float(
                np.sum(np.log(self._power) / shape) - np.linalg.slogdet(move)[1]
            ) + prior.compute_loss(move)
            if there <= here + 1e-4 * t * slope:
                self._adjoint = y
                return t, moved
            t *= 0.5
        return 0.0, y


def compute_source_loss(shape: Array, power: Array) -> Array:
    """Return the negative log-likelihood per sample of innovations with given shapes and mean powers."""
    log_gamma = _LOG_GAMMA[np.searchsorted(SHAPES, shape)]
    return np.asarray(math.log(2.0) + log_gamma + (np.log(shape * power) + 1.0) / shape)


def compute_tap_step(
    y: Array, e: Array, scores: Array, shape: Array, floor: Array, curvature: Array | None = None
) -> tuple[Array, Array]:
    """Return the gradient of mean |e|^b / b in the taps, (sources, lags + 1), and a Newton step.

    The products of lags are weighted by |e|^(b - 2), computed from a subset of the samples, and scaled to
    the mean curvature of |e|^b / b: by b - 1 for a smooth density, by less for a density with a cusp. If
    the curvature is not given, they are scaled by b - 1 or 1. The step is then shorter, and safe without a
    line search.
    """
    slope, stride = np.empty((len(y), y.shape[1] - e.shape[1] + 1)), _compute_stride(e)
    learning.compute_tap_slopes(y, scores, slope)
    step, lags = np.zeros_like(slope), slope.shape[1] - 1
    weights = np.ascontiguousarray(e[:, ::stride])
    learning.compute_root_weights(weights, shape, floor)
    past = np.empty((lags, weights.shape[1]))
    for i, row in enumerate(y):
        past[:] = np.lib.stride_tricks.sliding_window_view(row, lags)[:-1:stride].T[::-1]
        past *= weights[i]
        bend = max(1.0, shape[i] - 1.0)
        if curvature is not None:
            # For shapes below 1, a few innovations near zero dominate the mean weight.
            least = _MIN_CURVATURE if shape[i] >= 1.0 else 1.0
            bend = max(curvature[i] / np.mean(weights[i] ** 2), least)
        products = bend / weights.shape[1] * (past @ past.T)
        products[np.diag_indices(lags)] += _RIDGE * np.trace(products) / lags
        step[i, 1:] = -np.linalg.solve(products, slope[i, 1:])
    slope[:, 0] = 0.0
    return slope, step


def _compute_stride(e: Array) -> int:
    """Return the stride of the samples that curvatures and shapes are estimated from."""
    n_samples: int = e.shape[1]
    return math.ceil(n_samples / _MAX_SUBSAMPLE)
