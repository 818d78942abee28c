"""Maximum likelihood of autoregressive sources with generalised-Gaussian innovations.

Let z be the whitened channels, y = W z the sources, and e_i = f_i * y_i their innovations, where the first
of the taps f_i is 1. With the scales a_i profiled out, the negative log-likelihood per sample is::

    sum over i of [log(2 Gamma(1 + 1/b_i)) + (1 + log(b_i mean |e_i|^b_i)) / b_i] - log |det W|

The shapes b_i are chosen before each step; the step changes W and the taps jointly. W takes a relative
Newton step W <- (I + t D) W with

    G[i, j] = mean of psi_i (f_i * y_j),    psi_i = |e_i|^(b_i - 1) sign(e_i) / mean |e_i|^b_i
    H[i, j] = mean of psi_i' * mean of (f_i * y_j)^2

solved for each pair as [[H_ij, 1], [1, H_ji]] (D_ij, D_ji) = -(G_ij, G_ji), as in relative Newton methods
of ICA. The taps take the step of a regression on lags, see `compute_tap_step`. |e| is smoothed near zero to
give densities with a cusp a gradient.

Sensor noise in z is correlated between the sources, and biases G. By Stein's lemma, E[psi(e + a) b] =
E[psi'(e + a)] E[a b] for Gaussian a and b. Let R_ij be the covariance of the noise in y_i and y_j, and c_i
the mean of psi_i' times the power gain of f_i on the spectrum of the noise. Then::

    G[i, j] - c_i R_ij

is unbiased for every density. It is the gradient of the loss minus half the sum of c_i R_ii, with c fixed.

A prior around an earlier unmixing matrix W_0 has the weight of a number of samples. With the rows of both
matrices scaled to unit variance and P = W inv(W_0), it adds half the sum over i != j of (P_ij / P_ii)^2,
times the ratio of the prior samples to the available samples. A long window overrides the prior; a short
one changes only what its samples determine.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step
from igbss_stream.model.kernels import learning

Array = NDArray[np.float64]

LAGS = 20
SHAPES = np.array([0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0])
_LOG_GAMMA = np.array([math.lgamma(1.0 + 1.0 / shape) for shape in SHAPES])
_SMOOTHING = 1e-4  # added to e^2, relative to its mean
_NOISE_SMOOTHING = 0.1  # relative to the power of the noise in e
_MIN_SMOOTHING = 1e-12  # absolute; sources have unit variance
_RIDGE = 1e-7  # regularises the regression on lags, relative to its diagonal; a sine makes it singular
_MAX_SUBSAMPLE = 4096  # samples that curvatures and shapes are estimated from
_MIN_CURVATURE = 0.3  # mean curvature of a density, relative to its mean weight
_MIN_EIGENVALUE = 0.05  # of the Hessian of a pair
_MAX_STEP = 0.3  # largest entry of D
_MIN_DECREASE = 1e-4  # nats per parameter; a descent stops when the next step is expected to gain less
_PATIENCE, _GAIN = 10, 0.1  # a descent stops when this number of steps gains less than this many nats


@dataclass(frozen=True)
class UnmixingFit:
    """Result of a descent: an unmixing matrix of the whitened channels, and the loss before each step."""

    unmixing: Array
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The last loss."""
        return self.losses[-1] if self.losses else math.inf


class LikelihoodDescent:
    """Maximum-likelihood descent for whitened channels.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    noise : ndarray of shape (sources,)
        Variance of the sensor noise in each whitened channel; noise is uncorrelated between channels.
    colour : ndarray of shape (LAGS + 1,)
        Autocorrelation of the noise.
    """

    def __init__(self, z: Array, noise: Array, colour: Array) -> None:
        n_sources, n_samples = z.shape
        self.z, self.noise = z, noise
        self.lags = min(LAGS, max(1, n_samples // 20))
        self.colour = colour[None, : self.lags + 1]
        self.covariances = np.array(
            [z[:, k:] @ z[:, : n_samples - k].T / n_samples for k in range(self.lags + 1)]
        )
        self._e, self._psi = np.empty((2, n_sources, n_samples - self.lags))
        self._adjoint = np.empty((n_sources, n_samples))
        self._power, self._curvature = np.empty((2, n_sources))

    def run(
        self,
        start: Array,
        n_steps: int,
        *,
        prior_samples: float = 0.0,
        loss_to_beat: float = math.inf,
        step_done: StepDone = ignore_step,
    ) -> UnmixingFit:
        """Run a descent from an unmixing matrix of the whitened channels.

        Parameters
        ----------
        start : ndarray of shape (sources, sources)
        n_steps : int
            Largest number of steps.
        prior_samples : float
            Weight of a prior around `start`, as a number of samples.
        loss_to_beat : float
            Stop if `n_steps` steps that gain as much as the last one would not reach this loss.
        step_done : callable
            Called after each step.

        Returns
        -------
        UnmixingFit
        """
        w, y, relative, losses = start, np.ascontiguousarray(start @ self.z), np.eye(len(start)), [math.inf]
        prior_weight, taps, shape = prior_samples / self.z.shape[1], None, None
        while len(losses) <= n_steps:
            lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
            size = np.sqrt(lagged[:, :1])
            w, lagged = w / size, lagged / lagged[:, :1]
            y /= size
            if taps is None:
                taps = fit_whitening_taps(lagged)
                learning.filter_rows(y, taps, self._e)
            else:
                relative = relative / size
                self._e /= size
            noise, gain = (w * self.noise) @ w.T, _compute_filtered_power(taps, self.colour)[:, 0]
            floor = self._compute_floor(np.diag(noise) * gain)
            shape = self._pick_shapes(shape, floor)
            learning.compute_power_scores(self._e, shape, floor, self._psi, self._power, self._curvature)
            extra = NoiseAndPrior(self._curvature / self._power * gain, noise, prior_weight, relative)
            likelihood = float(np.sum(compute_source_loss(shape, self._power)) - np.linalg.slogdet(w)[1])
            losses.append(likelihood + extra.compute_loss())
            step, tap_step, slope = self._compute_steps(y, taps, lagged, shape, floor, extra)
            missing, gained = losses[-1] - loss_to_beat, abs(losses[-2] - losses[-1])
            if (len(losses) > 3 and missing > n_steps * gained) or self._is_done(slope, losses):
                break
            t, y = self._search_line(y, step, slope, taps, tap_step, shape, floor, extra)
            if t == 0.0:
                break
            move = np.eye(len(w)) + t * step
            w, relative, taps = move @ w, move @ relative, taps + t * tap_step
            step_done()
        return UnmixingFit(w, tuple(losses[1:]))

    def _compute_steps(
        self, y: Array, taps: Array, lagged: Array, shape: Array, floor: Array, extra: "NoiseAndPrior"
    ) -> tuple[Array, Array, float]:
        """Return the Newton steps D of the unmixing matrix and of the taps, and the slope of the loss."""
        learning.filter_rows_adjoint(self._psi, taps, self._adjoint)
        gradient = (self._adjoint @ y.T) / (self._e.shape[1] * self._power[:, None])
        gradient = gradient + extra.compute_gradient()
        np.fill_diagonal(gradient, 0.0)
        bend = self._curvature / self._power
        hessian = bend[:, None] * _compute_filtered_power(taps, lagged) + extra.compute_hessian()
        step = _solve_pairs(gradient, hessian)
        tap_slope, tap_step = compute_tap_step(y, self._e, self._psi, shape, floor, self._curvature)
        slope = float(np.sum(gradient * step) + np.sum(tap_slope * tap_step / self._power[:, None]))
        return step, tap_step, slope

    def _is_done(self, slope: float, losses: list[float]) -> bool:
        """Return whether the expected decrease of a step, or that of the last steps, is negligible."""
        n_sources, n_samples = self.z.shape
        if -0.5 * slope * n_samples < _MIN_DECREASE * n_sources * (n_sources + self.lags):
            return True
        return len(losses) > _PATIENCE + 1 and losses[-1 - _PATIENCE] - losses[-1] < _GAIN / n_samples

    def _compute_floor(self, noise: Array) -> Array:
        """Return the smoothing of squared innovations, given the power of the noise in them, (sources,).

        Noisy innovations are never exactly zero, so that a cusp at zero would be an artefact.
        """
        power = np.einsum("it,it->i", self._e, self._e) / self._e.shape[1]
        return np.asarray(
            np.maximum(np.maximum(_SMOOTHING * power, _NOISE_SMOOTHING * noise), _MIN_SMOOTHING)
        )

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
        extra: "NoiseAndPrior",
    ) -> tuple[float, Array]:
        """Return the largest t = 1, 1/2, ... that lowers the loss, or 0, and y after this step."""
        here = float(np.sum(np.log(self._power) / shape)) + extra.compute_loss()
        t = 1.0
        for _ in range(12):
            move = np.eye(len(step)) + t * step
            moved = np.matmul(move, y, out=self._adjoint)
            learning.filter_rows(moved, taps + t * tap_step, self._e)
            learning.compute_mean_power(self._e, shape, floor, self._power)
            there = float(
                np.sum(np.log(self._power) / shape) - np.linalg.slogdet(move)[1]
            ) + extra.compute_loss(move)
            if there <= here + 1e-4 * t * slope:
                self._adjoint = y
                return t, moved
            t *= 0.5
        return 0.0, y


@dataclass(frozen=True)
class NoiseAndPrior:
    """Terms of noise and prior in the loss at (I + D) W, with their gradient and curvature in D.

    Parameters
    ----------
    gain : ndarray of shape (sources,)
        Bias of G_ij per unit of noise in y_i.
    noise : ndarray of shape (sources, sources)
        Covariance of the noise in y.
    prior_weight : float
        Number of samples that the prior is equivalent to, divided by the number of available samples.
    relative : ndarray of shape (sources, sources)
        W times the inverse of the earlier unmixing matrix.
    """

    gain: Array
    noise: Array
    prior_weight: float
    relative: Array

    def compute_loss(self, move: Array | None = None) -> float:
        """Return the terms at ``move @ W``, or at W if no move is given."""
        relative = self.relative if move is None else move @ self.relative
        noise = self.noise if move is None else move @ self.noise @ move.T
        scaled = relative / np.diag(relative)[:, None]
        prior = np.sum(scaled**2) - len(scaled)
        return 0.5 * float(self.prior_weight * prior - np.sum(self.gain * np.diag(noise)))

    def compute_gradient(self) -> Array:
        """Return the gradient in the off-diagonal entries of D."""
        diagonal = np.diag(self.relative)[:, None]
        scaled = self.relative / diagonal
        slope = scaled - np.diag(np.sum(scaled**2, axis=1))
        return np.asarray(
            self.prior_weight * slope / diagonal @ self.relative.T - self.gain[:, None] * self.noise
        )

    def compute_hessian(self) -> Array:
        """Return the curvature in each entry of D; that of the prior assumes that W is close to W_0."""
        return np.asarray(self.prior_weight - self.gain[:, None] * np.diag(self.noise))


def compute_source_loss(shape: Array, power: Array) -> Array:
    """Return the negative log-likelihood per sample of innovations with given shapes and mean powers."""
    log_gamma = _LOG_GAMMA[np.searchsorted(SHAPES, shape)]
    return np.asarray(math.log(2.0) + log_gamma + (np.log(shape * power) + 1.0) / shape)


def fit_whitening_taps(lagged: Array) -> Array:
    """Return the whitening taps of autocovariances, both (sources, lags + 1), by Levinson recursion."""
    taps = np.zeros(lagged.shape)  # C-ordered for the kernels, unlike `lagged` with some versions of NumPy
    taps[:, 0] = 1.0
    error = lagged[:, 0] * (1.0 + _RIDGE)
    for k in range(1, lagged.shape[1]):
        reflection = -np.sum(taps[:, :k] * lagged[:, k:0:-1], axis=1) / error
        taps[:, 1 : k + 1] += reflection[:, None] * taps[:, k - 1 :: -1][:, :k]
        error = error * (1.0 - reflection**2)
    return taps


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


def _compute_filtered_power(taps: Array, lagged: Array) -> Array:
    """Return the mean square of f_i * y_j, (i, j)."""
    lags = taps.shape[1]
    overlap = np.array([np.sum(taps[:, : lags - k] * taps[:, k:], axis=1) for k in range(lags)]).T
    overlap[:, 1:] *= 2.0
    return np.asarray(np.maximum(overlap @ lagged.T, 1e-12))


def _solve_pairs(gradient: Array, hessian: Array) -> Array:
    """Solve the two equations of each pair, with the eigenvalues of its Hessian bounded from below."""
    across = hessian.T
    least = 0.5 * (hessian + across) - np.sqrt(0.25 * (hessian - across) ** 2 + 1.0)
    lift = np.maximum(_MIN_EIGENVALUE - least, 0.0)
    first, second = hessian + lift, across + lift
    step = -(second * gradient - gradient.T) / (first * second - 1.0)
    np.fill_diagonal(step, 0.0)
    largest = float(np.abs(step).max(initial=0.0))
    return np.asarray(step * min(1.0, _MAX_STEP / max(largest, _MAX_STEP)))
