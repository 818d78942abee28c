"""A structure learned from the data: which channels each source reaches, and how strongly.

With transform "exp" the model is the linear mixing model, so an incidence that separates can be learned
by maximum likelihood. Each source is an autoregressive process driven by independent innovations of
generalised-Gaussian density, exp(-|e / a|^b); time structure and the shape of the density separate
together, and no source has to be white, Gaussian or uncorrelated with the others in the sample.

With z the whitened channels, y = W z and e_i = f_i * y_i (the taps f_i begin with 1), the negative
log-likelihood a sample is, the scales a_i profiled out::

    sum over i of [log(2 Gamma(1 + 1/b_i)) + (1 + log(b_i mean |e_i|^b_i)) / b_i] - log |det W|

Taps and shapes are improved in turn with W. A step of W is a relative Newton step W <- (I + t D) W with

    G[i, j] = mean of psi_i (f_i * y_j),    psi_i = |e_i|^(b_i - 1) sign(e_i) / mean |e_i|^b_i
    H[i, j] = mean of psi_i' * mean of (f_i * y_j)^2

solved pair by pair, [[H_ij, 1], [1, H_ji]] (D_ij, D_ji) = -(G_ij, G_ji), as in relative Newton methods of
ICA. |e| is smoothed near zero, so that densities with a cusp keep a gradient. The likelihood has several
optima: descents start from a joint diagonalisation of lagged covariances and from fixed-point ICA on the
signals and on their differences, and the most likely end wins.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model import _learning_kernels

Array = NDArray[np.float64]

LAGS = 20
_SHAPES = np.array([0.5, 0.6, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0])
_LOG_GAMMA = np.array([math.lgamma(1.0 + 1.0 / shape) for shape in _SHAPES])
_SINGULAR = 1e-14  # eigenvalue, as a share of the largest, that is but rounding
_SMOOTHING = 1e-4  # added to e^2, as a share of its mean
_RIDGE = 1e-7  # of a regression on lags, as a share of its diagonal: a sine is predicted all too well
_ROWS = 4096  # that taps and shapes are estimated from: few numbers need no more
_FLOOR = 0.05  # least eigenvalue of a pair's Hessian
_LONGEST = 0.3  # largest entry of a step
_RESOLVED = 1e-2  # gradient, in units of its standard error, at which a descent is done
_TRIAL_STEPS, _STEPS = 40, 200
_TRIAL_SAMPLES = 16384  # that starts are tried on
_PATIENCE, _GAIN = 10, 0.1  # a descent is done when so many steps gain less than so many nats in all


@dataclass(frozen=True)
class Learned:
    """A learned structure.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
        In the unit of the channels: sources have unit variance. The strongest weight of each source is
        positive; sources come by the variance they explain, largest first.
    unmixing : ndarray of shape (sources, channels)
        ``unmixing @ mixing`` is the identity; ``sources = (x - mean) @ unmixing.T``.
    mean : ndarray of shape (channels,)
    loss : float
        Negative log-likelihood a sample, up to a constant of the data.
    n_iter : int
        Steps of the descent that won.
    """

    mixing: Array
    unmixing: Array
    mean: Array
    loss: float
    n_iter: int


def learn(x: Array, n_sources: int, previous: Array | None = None) -> Learned:
    """Learn the incidence of sources on channels.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        Finite; no channel constant.
    n_sources : int
        At most the rank of x.
    previous : ndarray of shape (sources, channels), optional
        Unmixing matrix of an earlier structure: the one start of the descent, and what order and sign are
        matched to.

    Returns
    -------
    Learned

    Raises
    ------
    InputError
        If the samples have a lower rank than that, as an excerpt of a recording may.
    """
    mean, scale = x.mean(axis=0), x.std(axis=0)
    standard = np.ascontiguousarray(((x - mean) / scale).T)
    values, vectors = np.linalg.eigh(standard @ standard.T / len(x))
    leading = slice(len(scale) - n_sources, None)
    if values[leading][0] <= _SINGULAR * values[-1]:
        raise InputError(
            f"the samples that a structure is learned from span fewer than {n_sources} directions. "
            "Ask for fewer sources by n_sources."
        )
    root, axes = np.sqrt(values[leading]), vectors[:, leading]
    whitening = axes.T / root[:, None]
    descent = _Descent(whitening @ standard)
    if previous is None:
        trial = _Descent(np.ascontiguousarray(descent.z[:, :_TRIAL_SAMPLES]))
        trials = [trial.run(start, _TRIAL_STEPS) for start in _starts(descent)]
        best = descent.run(min(trials, key=lambda end: end.loss).unmixing, _STEPS)
    else:
        best = descent.run((previous * scale) @ (axes * root), _STEPS)
    unmixing = best.unmixing @ whitening / scale
    mixing = scale[:, None] * (axes * root) @ np.linalg.inv(best.unmixing)
    order, sign = _convention(mixing) if previous is None else _matched(unmixing @ np.linalg.pinv(previous))
    return Learned(mixing[:, order] * sign, (unmixing[order].T * sign).T, mean, best.loss, best.n_iter)


def back_projected(learned: Learned) -> Learned:
    """Return the same structure with each source as it shows in the channel where it is strongest.

    Sources then have the unit of the channels, and the strongest weight of each is one.
    """
    gain = np.take_along_axis(learned.mixing, np.abs(learned.mixing).argmax(axis=0)[None], axis=0)[0]
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def rescaled(learned: Learned, mixing: Array) -> Learned:
    """Return the same structure with the scale of an earlier one: that of its columns of `mixing`.

    A source is then as large as what it does to the channels, however loud it was when it was learned.
    """
    gain = np.linalg.norm(learned.mixing, axis=0) / np.linalg.norm(mixing, axis=0)
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def _convention(mixing: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs: variance explained, and a positive strongest weight."""
    order = np.argsort(-np.sum(mixing**2, axis=0), kind="stable")
    strongest = np.abs(mixing).argmax(axis=0)
    return order, np.sign(mixing[strongest, np.arange(mixing.shape[1])])[order]


def _matched(gains: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs that agree best with the sources before; gains are (new, before)."""
    from scipy.optimize import linear_sum_assignment  # half a second to import

    size = np.abs(gains) / np.linalg.norm(gains, axis=1, keepdims=True)
    order = linear_sum_assignment(size.T, maximize=True)[1]
    return order, np.sign(gains[order, np.arange(len(order))])


@dataclass(frozen=True)
class _End:
    unmixing: Array
    loss: float
    n_iter: int


class _Descent:
    """Maximum likelihood for whitened channels, (sources, samples)."""

    def __init__(self, z: Array) -> None:
        n_sources, n_samples = z.shape
        self.z = z
        self.lags = min(LAGS, max(1, n_samples // 20))
        n_kept = n_samples - self.lags
        self.covariances = np.array(
            [z[:, k:] @ z[:, : n_samples - k].T / n_samples for k in range(self.lags + 1)]
        )
        self._e, self._psi = np.empty((2, n_sources, n_kept))
        self._adjoint = np.empty((n_sources, n_samples))
        self._power, self._curvature = np.empty((2, n_sources))

    def run(self, start: Array, n_steps: int) -> _End:
        """Descend from an unmixing of the whitened channels."""
        w, shape, losses = start, None, [math.inf]
        while len(losses) <= n_steps:
            lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
            w = w / np.sqrt(lagged[:, :1])
            lagged = lagged / lagged[:, :1]
            y = w @ self.z
            if shape is None:
                _learning_kernels.filter_rows(y, _levinson(lagged), self._e)
            taps = _weighted_taps(y, self._e, self._likeliest(shape), self._floor(), self.lags)
            _learning_kernels.filter_rows(y, taps, self._e)
            shape, floor = self._likeliest(shape), self._floor()
            _learning_kernels.power_scores(self._e, shape, floor, self._psi, self._power, self._curvature)
            losses.append(float(np.sum(_source_loss(shape, self._power)) - np.linalg.slogdet(w)[1]))
            _learning_kernels.filter_rows_adjoint(self._psi, taps, self._adjoint)
            gradient = (self._adjoint @ y.T) / (self._e.shape[1] * self._power[:, None])
            np.fill_diagonal(gradient, 0.0)
            if self._is_done(gradient, losses):
                break
            hessian = (self._curvature / self._power)[:, None] * _filtered_power(taps, lagged)
            step = _pairwise_newton(gradient, hessian)
            t = self._line_search(y, step, float(np.sum(gradient * step)), taps, shape, floor)
            if t == 0.0:
                break
            w = w + t * step @ w
        return _End(w, losses[-1], len(losses) - 1)

    def _is_done(self, gradient: Array, losses: list[float]) -> bool:
        """Tell whether the gradient, or what the last steps gained, is too small to mean anything."""
        n_samples = self.z.shape[1]
        if np.abs(gradient).max(initial=0.0) < _RESOLVED / math.sqrt(n_samples):
            return True
        return len(losses) > _PATIENCE + 1 and losses[-1 - _PATIENCE] - losses[-1] < _GAIN / n_samples

    def _floor(self) -> Array:
        """Return what is added to the squares of the innovations, (sources,)."""
        return np.asarray(_SMOOTHING * np.mean(self._e**2, axis=1))

    def _likeliest(self, last: Array | None) -> Array:
        """Return the most likely shape of each source's innovations: of all, or of the last one's like."""
        floor, some = self._floor(), np.ascontiguousarray(self._e[:, :: max(1, self._e.shape[1] // _ROWS)])
        at = np.zeros(len(floor), dtype=int) if last is None else np.searchsorted(_SHAPES, last)
        reach = range(len(_SHAPES)) if last is None else (-1, 0, 1)
        tried = np.clip(np.array([at + offset for offset in reach]), 0, len(_SHAPES) - 1)
        losses = np.empty(tried.shape)
        for loss, index in zip(losses, tried, strict=True):
            _learning_kernels.mean_power(some, _SHAPES[index], floor, self._power)
            loss[:] = _source_loss(_SHAPES[index], self._power)
        return np.asarray(_SHAPES[tried[losses.argmin(axis=0), np.arange(len(floor))]])

    def _line_search(
        self, y: Array, step: Array, slope: float, taps: Array, shape: Array, floor: Array
    ) -> float:
        """Return the largest t = 1, 1/2, ... for which I + t step lowers the loss; 0 if none does."""
        here = float(np.sum(np.log(self._power) / shape))
        t = 1.0
        for _ in range(12):
            move = np.eye(len(step)) + t * step
            _learning_kernels.filter_rows(move @ y, taps, self._e)
            _learning_kernels.mean_power(self._e, shape, floor, self._power)
            there = float(np.sum(np.log(self._power) / shape) - np.linalg.slogdet(move)[1])
            if there <= here + 1e-4 * t * slope:
                return t
            t *= 0.5
        return 0.0


def _source_loss(shape: Array, power: Array) -> Array:
    log_gamma = _LOG_GAMMA[np.searchsorted(_SHAPES, shape)]
    return np.asarray(math.log(2.0) + log_gamma + (np.log(shape * power) + 1.0) / shape)


def _levinson(lagged: Array) -> Array:
    """Return the taps (sources, lags + 1) that whiten rows of these autocovariances (sources, lags + 1)."""
    taps = np.zeros_like(lagged)
    taps[:, 0] = 1.0
    error = lagged[:, 0] * (1.0 + _RIDGE)
    for k in range(1, lagged.shape[1]):
        reflection = -np.sum(taps[:, :k] * lagged[:, k:0:-1], axis=1) / error
        taps[:, 1 : k + 1] += reflection[:, None] * taps[:, k - 1 :: -1][:, :k]
        error = error * (1.0 - reflection**2)
    return taps


def _weighted_taps(y: Array, e: Array, shape: Array, floor: Array, lags: int) -> Array:
    """Return taps by regression on lags, weighted as the density wants: |e|^(b - 2)."""
    taps = np.ones((len(y), lags + 1))
    stride = max(1, e.shape[1] // _ROWS)
    for i, row in enumerate(y):
        past = np.lib.stride_tricks.sliding_window_view(row, lags + 1)[::stride]
        some = e[i, ::stride]
        weight = (some**2 + floor[i]) ** (0.5 * shape[i] - 1.0)
        normal = (past * weight[:, None]).T @ past
        system = normal[:lags, :lags]
        system[np.diag_indices(lags)] += _RIDGE * np.trace(system) / lags
        taps[i, 1:] = -np.linalg.solve(system, normal[:lags, lags])[::-1]
    return taps


def _filtered_power(taps: Array, lagged: Array) -> Array:
    """Return the mean square of f_i * y_j, (i, j)."""
    lags = taps.shape[1]
    overlap = np.array([np.sum(taps[:, : lags - k] * taps[:, k:], axis=1) for k in range(lags)]).T
    overlap[:, 1:] *= 2.0
    return np.asarray(np.maximum(overlap @ lagged.T, 1e-12))


def _pairwise_newton(gradient: Array, hessian: Array) -> Array:
    """Solve each pair's two equations, with the eigenvalues of its Hessian held above a floor."""
    across = hessian.T
    least = 0.5 * (hessian + across) - np.sqrt(0.25 * (hessian - across) ** 2 + 1.0)
    lift = np.maximum(_FLOOR - least, 0.0)
    first, second = hessian + lift, across + lift
    step = -(second * gradient - gradient.T) / (first * second - 1.0)
    np.fill_diagonal(step, 0.0)
    largest = float(np.abs(step).max(initial=0.0))
    return np.asarray(step * min(1.0, _LONGEST / max(largest, _LONGEST)))


def _starts(descent: _Descent) -> Iterator[Array]:
    """Yield unmixings of the whitened channels that textbook methods find."""
    yield _second_order(descent.covariances[1:])
    some = descent.z[:, : 8 * _ROWS]
    yield _fixed_point(some)
    change = np.diff(some, axis=1)
    values, vectors = np.linalg.eigh(change @ change.T / change.shape[1])
    if values[0] > 1e-10 * values[-1]:
        whitening = (vectors / np.sqrt(values)) @ vectors.T
        yield _fixed_point(whitening @ change) @ whitening


def _second_order(covariances: Array) -> Array:
    """Return the rotation that makes lagged covariances as diagonal as can be."""
    matrices = 0.5 * (covariances + covariances.transpose(0, 2, 1))
    rotation = np.eye(covariances.shape[1])
    for _ in range(60):
        if _learning_kernels.rotate_to_diagonal(matrices, rotation) < 1e-8:
            break
    return rotation


def _fixed_point(z: Array) -> Array:
    """Return the rotation of symmetric fixed-point ICA with tanh, from the principal axes."""
    rotation = np.eye(len(z))
    for _ in range(200):
        score = np.tanh(rotation @ z)
        update = score @ z.T / z.shape[1] - np.mean(1.0 - score**2, axis=1)[:, None] * rotation
        left, _, right = np.linalg.svd(update)
        turned = np.abs(np.sum((left @ right) * rotation, axis=1)).min()
        rotation = left @ right
        if turned > 1.0 - 1e-8:
            break
    return rotation
