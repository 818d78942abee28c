"""Maximum likelihood of autoregressive sources with generalised-Gaussian innovations.

With z the whitened channels, y = W z and e_i = f_i * y_i (the taps f_i begin with 1), the negative
log-likelihood a sample is, the scales a_i profiled out::

    sum over i of [log(2 Gamma(1 + 1/b_i)) + (1 + log(b_i mean |e_i|^b_i)) / b_i] - log |det W|

Shapes are chosen before each step, which moves W and the taps together. That of W is a relative Newton step
W <- (I + t D) W with

    G[i, j] = mean of psi_i (f_i * y_j),    psi_i = |e_i|^(b_i - 1) sign(e_i) / mean |e_i|^b_i
    H[i, j] = mean of psi_i' * mean of (f_i * y_j)^2

solved pair by pair, [[H_ij, 1], [1, H_ji]] (D_ij, D_ji) = -(G_ij, G_ji), as in relative Newton methods of
ICA. That of the taps solves a regression on lags, see `compute_tap_step`. |e| is smoothed near zero, so
that densities with a cusp keep a gradient.

Sensor noise in z comes out of W correlated between the sources, and biases G. By Stein's lemma,
E[psi(e + a) b] = E[psi'(e + a)] E[a b] for Gaussian a and b, so that with R_ij the covariance of the noise
of y_i and y_j, and c_i the mean of psi_i' times the power gain of f_i on the spectrum of the noise::

    G[i, j] - c_i R_ij

is without bias whatever the density. It is the slope of the loss less half the sum of c_i R_ii, c held.

A prior around W_0 counts as so many samples: with the rows of both scaled to unit variance and
P = W / W_0, half the sum over i != j of (P_ij / P_ii)^2, times those samples over the samples at hand,
is added to the loss. A long window overrules it; a short one moves what it can tell.
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
_SMOOTHING = 1e-4  # added to e^2, as a share of its mean
_NOISE_SMOOTHING = 0.1  # as a share of the noise in e
_LEAST_POWER = 1e-12  # added at least, to innovations of sources of unit variance
_RIDGE = 1e-7  # of a regression on lags, as a share of its diagonal: a sine is predicted all too well
_ROWS = 4096  # that curvatures and shapes are estimated from: few numbers need no more
_LEAST_BEND = 0.3  # mean curvature of a density, over its mean weight
_FLOOR = 0.05  # least eigenvalue of a pair's Hessian
_LONGEST = 0.3  # largest entry of a step
_PROMISE = 1e-4  # nats for each number learned: a descent is done when its next step promises less
_PATIENCE, _GAIN = 10, 0.1  # a descent is done when so many steps gain less than so many nats in all


@dataclass(frozen=True)
class UnmixingFit:
    """Where a descent ended: an unmixing of the whitened channels, and the loss before each step."""

    unmixing: Array
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        """The last loss."""
        return self.losses[-1] if self.losses else math.inf


class LikelihoodDescent:
    """Maximum likelihood for whitened channels.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    noise : ndarray of shape (sources,)
        Variance of the sensor noise in each of them; between them it is uncorrelated.
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
        memory: float = 0.0,
        beat: float = math.inf,
        step_done: StepDone = ignore_step,
    ) -> UnmixingFit:
        """Descend from an unmixing of the whitened channels, itself worth so many samples.

        Give up once steps as good as the last one cannot bring the loss below what is to beat.
        """
        w, y, moved, losses = start, start @ self.z, np.eye(len(start)), [math.inf]
        inertia, taps, shape = memory / self.z.shape[1], None, None
        while len(losses) <= n_steps:
            lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
            size = np.sqrt(lagged[:, :1])
            w, lagged = w / size, lagged / lagged[:, :1]
            y /= size
            if taps is None:
                taps = fit_whitening_taps(lagged)
                learning.filter_rows(y, taps, self._e)
            else:
                moved = moved / size
                self._e /= size
            noise, gain = (w * self.noise) @ w.T, _compute_filtered_power(taps, self.colour)[:, 0]
            floor = self._compute_floor(np.diag(noise) * gain)
            shape = self._pick_shapes(shape, floor)
            learning.compute_power_scores(self._e, shape, floor, self._psi, self._power, self._curvature)
            bend = self._curvature / self._power
            extra = NoiseAndPrior(bend * gain, noise, inertia, moved)
            likelihood = float(np.sum(compute_source_loss(shape, self._power)) - np.linalg.slogdet(w)[1])
            losses.append(likelihood + extra.compute_loss())
            learning.filter_rows_adjoint(self._psi, taps, self._adjoint)
            gradient = (self._adjoint @ y.T) / (
                self._e.shape[1] * self._power[:, None]
            ) + extra.compute_gradient()
            np.fill_diagonal(gradient, 0.0)
            step = _solve_pairs(
                gradient, bend[:, None] * _compute_filtered_power(taps, lagged) + extra.compute_hessian()
            )
            tap_slope, tap_step = compute_tap_step(y, self._e, self._psi, shape, floor, self._curvature)
            slope = float(np.sum(gradient * step) + np.sum(tap_slope * tap_step / self._power[:, None]))
            hopeless = len(losses) > 3 and losses[-1] - beat > n_steps * abs(losses[-2] - losses[-1])
            if hopeless or self._is_done(slope, losses):
                break
            t, y = self._search_line(y, step, slope, taps, tap_step, shape, floor, extra)
            if t == 0.0:
                break
            move = np.eye(len(w)) + t * step
            w, moved, taps = move @ w, move @ moved, taps + t * tap_step
            step_done()
        return UnmixingFit(w, tuple(losses[1:]))

    def _is_done(self, slope: float, losses: list[float]) -> bool:
        """Tell whether what a step promises, or the last ones gained, is too little to mean anything."""
        n_sources, n_samples = self.z.shape
        if -0.5 * slope * n_samples < _PROMISE * n_sources * (n_sources + self.lags):
            return True
        return len(losses) > _PATIENCE + 1 and losses[-1 - _PATIENCE] - losses[-1] < _GAIN / n_samples

    def _compute_floor(self, noise: Array) -> Array:
        """Return what is added to the squares of innovations with so much noise in them, (sources,).

        Where there is noise they are never quite zero, and a cusp there would be made up.
        """
        power = np.einsum("it,it->i", self._e, self._e) / self._e.shape[1]
        return np.asarray(
            np.maximum(np.maximum(_SMOOTHING * power, _NOISE_SMOOTHING * noise), _LEAST_POWER)
        )

    def _pick_shapes(self, last: Array | None, floor: Array) -> Array:
        """Return the most likely shape of each source's innovations: of all, or of the last one's like."""
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
        """Return the largest t = 1, 1/2, ... for which t steps lower the loss, or 0; and y there."""
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
    """What noise and a prior add to the loss at (I + D) W, and its slope and curvature in D.

    Parameters
    ----------
    gain : ndarray of shape (sources,)
        What a unit of noise in y_i biases G_ij by.
    noise : ndarray of shape (sources, sources)
        Covariance of the noise in y.
    inertia : float
        Samples that the prior is worth, over the samples at hand.
    moved : ndarray of shape (sources, sources)
        W over the unmixing before.
    """

    gain: Array
    noise: Array
    inertia: float
    moved: Array

    def compute_loss(self, move: Array | None = None) -> float:
        """Return the loss once W has moved; at W without a move."""
        moved = self.moved if move is None else move @ self.moved
        noise = self.noise if move is None else move @ self.noise @ move.T
        apart = moved / np.diag(moved)[:, None]
        prior = np.sum(apart**2) - len(apart)
        return 0.5 * float(self.inertia * prior - np.sum(self.gain * np.diag(noise)))

    def compute_gradient(self) -> Array:
        """Return the slope in the entries of D off its diagonal."""
        diagonal = np.diag(self.moved)[:, None]
        apart = self.moved / diagonal
        slope = apart - np.diag(np.sum(apart**2, axis=1))
        return np.asarray(self.inertia * slope / diagonal @ self.moved.T - self.gain[:, None] * self.noise)

    def compute_hessian(self) -> Array:
        """Return the curvature in each entry of D, of the prior where W is close to the one before."""
        return np.asarray(self.inertia - self.gain[:, None] * np.diag(self.noise))


def compute_source_loss(shape: Array, power: Array) -> Array:
    """Return the negative log-likelihood a sample of innovations of these shapes and mean powers."""
    log_gamma = _LOG_GAMMA[np.searchsorted(SHAPES, shape)]
    return np.asarray(math.log(2.0) + log_gamma + (np.log(shape * power) + 1.0) / shape)


def fit_whitening_taps(lagged: Array) -> Array:
    """Return the taps (sources, lags + 1) that whiten rows of these autocovariances (sources, lags + 1)."""
    taps = np.zeros_like(lagged)
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
    """Return the slope of mean |e|^b / b in the taps, (sources, lags + 1), and a step to its minimum.

    The products of lags are weighted by |e|^(b - 2), from some of the samples, and scaled to the mean
    curvature of |e|^b / b: by b - 1 where the density is smooth, by less where it has a cusp. Without
    the curvature they are scaled by b - 1 or 1, which is shorter, and safe without a line search.
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
            # Below a shape of 1 a few innovations near zero make up most of the mean weight.
            least = _LEAST_BEND if shape[i] >= 1.0 else 1.0
            bend = max(curvature[i] / np.mean(weights[i] ** 2), least)
        products = bend / weights.shape[1] * (past @ past.T)
        products[np.diag_indices(lags)] += _RIDGE * np.trace(products) / lags
        step[i, 1:] = -np.linalg.solve(products, slope[i, 1:])
    slope[:, 0] = 0.0
    return slope, step


def _compute_stride(e: Array) -> int:
    """Return how far apart the samples are that curvatures and shapes are estimated from."""
    n_samples: int = e.shape[1]
    return math.ceil(n_samples / _ROWS)


def _compute_filtered_power(taps: Array, lagged: Array) -> Array:
    """Return the mean square of f_i * y_j, (i, j)."""
    lags = taps.shape[1]
    overlap = np.array([np.sum(taps[:, : lags - k] * taps[:, k:], axis=1) for k in range(lags)]).T
    overlap[:, 1:] *= 2.0
    return np.asarray(np.maximum(overlap @ lagged.T, 1e-12))


def _solve_pairs(gradient: Array, hessian: Array) -> Array:
    """Solve each pair's two equations, with the eigenvalues of its Hessian held above a floor."""
    across = hessian.T
    least = 0.5 * (hessian + across) - np.sqrt(0.25 * (hessian - across) ** 2 + 1.0)
    lift = np.maximum(_FLOOR - least, 0.0)
    first, second = hessian + lift, across + lift
    step = -(second * gradient - gradient.T) / (first * second - 1.0)
    np.fill_diagonal(step, 0.0)
    largest = float(np.abs(step).max(initial=0.0))
    return np.asarray(step * min(1.0, _LONGEST / max(largest, _LONGEST)))
