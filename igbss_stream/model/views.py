"""Learn an unmixing matrix from a view of the sources: through filters that whiten each in part.

Let z be the whitened channels, y = W z the sources of unit variance, r_i their autocovariances. The taps
f_i of a view solve the Yule-Walker equations with r_i(0) replaced by (1 + rho) r_i(0). For a ridge rho near
0, e_i = f_i * y_i are the innovations of an autoregressive source, which carry most information if the
model holds. Whitening also lifts the frequencies where a source is weaker than sensor noise, or than
whatever the model lacks. A large ridge leaves e_i close to the samples themselves, which are robust against
both.

The densities p_i of e_i are learned (`igbss_stream.model.densities`). With f and p fixed, the negative
log-likelihood per sample is the sum over i of the mean of -log p_i(e_i), minus log |det W|. With
psi_i = -(log p_i)', W takes a relative Newton step W <- (I + t D) W from::

    G[i, j] = mean of psi_i (f_i * y_j)
    H[i, j] = mean of psi_i' y_j^2, times the ratio of the powers of f_i * y_j and y_j

solved for each pair as [[H_ij, k], [k, H_ji]] (D_ij, D_ji) = -(G_ij, G_ji), with k = 1. The mean of the
product in H, unlike the product of means, is right for sources that are large at the same time, as
artefacts are.

Sources that the model allows are uncorrelated, up to chance. For a robust view, c / 2 times the log
determinant of their correlation matrix is subtracted from the loss, which adds c times the correlation to
G, and c to H and to k: a rotation does not change it. This keeps two sources from sharing one large
artefact. c is s rho / (1 + rho): innovations, which can be far more accurate than correlations of a finite
sample, are not affected. s is the number of independent samples in thousands, held between 1 and 5. The
density of an artefact that pauses, as a heart does between beats, has a sharp peak, and a small pull would
give up the decorrelation for less activity of other sources in the pauses. But a pull towards zero is an
error where independent sources correlate by chance, as in few independent samples.
With a prior around an earlier unmixing matrix c is 0, as short windows correlate
by chance.

White sensor noise of covariance S in z makes the sources correlate, and moves the optimum away from the
inverse of the mixing matrix. By Stein's lemma, Gaussian noise adds (mean of psi_i') |f_i|^2 N_ij to G, with
N = W S W^T, and c N_ij to the gradient of the pull. Both terms are subtracted if S is known (see
`igbss_stream.model.sensor_noise`). While a step is tried, they are those before the step: of a loss that is
linear in D.

The curvature neglects that more than two sources can be large at the same time, as they are in EEG. After
the first steps, later ones are therefore corrected by what earlier ones did to the gradient (`StepMemory`).
A few sources are found without it; corrected steps could leave the optimum that the view started near.

The mean of G over a part of the samples gives the step that this part alone would take. The scatter of the
steps of several parts yields the sampling error of W (a sandwich estimate from batch means), which allows
for the correlation between successive samples.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step
from igbss_stream.model.densities import Densities
from igbss_stream.model.kernels import learning
from igbss_stream.model.newton import (
    Prior,
    StepMemory,
    compute_filtered_power,
    compute_overlaps,
    estimate_error,
)
from igbss_stream.model.spectra import Bands, compute_overlap

Array = NDArray[np.float64]

_MAX_SUBSAMPLE = 4096  # samples that the curvature is estimated from
_MIN_CURVATURE = 0.05  # of a pair, relative to that of independent sources
_MIN_DECREASE = 5e-3  # nats per parameter; a descent stops when the next step is expected to gain less
_SLACK = 1e-3  # nats per sample that a step may lose, as taps and densities change with it
_MAX_HALVINGS = 6
_CHANCE, _CHANCE_EXPONENT = 5.0, 0.4  # information that learned densities of Gaussian sources show
_PLAIN_STEPS = 10  # of Newton, before later ones learn from earlier ones
_PULL_RANGE = (1.0, 5.0)  # towards uncorrelated sources, of a view that whitens nothing
_SAMPLES_OF_PULL = 1000.0  # independent samples for a pull of 1


@dataclass(frozen=True)
class ViewFit:
    """Result of a descent on a view.

    Parameters
    ----------
    unmixing : ndarray of shape (sources, sources)
        Of the whitened channels; sources have unit variance.
    losses : tuple of float
        Negative log-likelihood per sample before each step.
    error : ndarray of shape (sources, sources)
        Sampling error: the variance of entry D_ij of ``(I + D) @ unmixing``, around the unmixing matrix of
        infinitely many samples.
    is_stuck : bool
        Whether no step lowered the loss although one was expected to.
    """

    unmixing: Array
    losses: tuple[float, ...]
    error: Array
    is_stuck: bool = False

    @property
    def loss(self) -> float:
        """The last loss."""
        return self.losses[-1]


@dataclass
class _State:
    """Where a descent is: an unmixing matrix and what follows from it."""

    w: Array
    y: Array
    relative: Array  # W times the inverse of the matrix that the prior is around
    lagged: Array
    taps: Array
    densities: Densities
    power: Array
    pull: float  # towards uncorrelated sources
    loss: float
    noise: Array  # its covariance in the sources
    noise_gains: Array  # factors of its rows in the gradient


class ViewDescent:
    """Relative Newton descent on views of whitened channels.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    covariances : ndarray of shape (lags + 1, sources, sources)
        Lagged covariances of z, lag 0 first.
    bands : Bands
        Band covariances of z.
    noise : ndarray of shape (sources, sources), optional
        Covariance of white sensor noise in z.
    """

    def __init__(self, z: Array, covariances: Array, bands: Bands, noise: Array | None = None) -> None:
        n_sources, n_samples = z.shape
        self.z, self.covariances, self.bands = z, covariances, bands
        self.noise = np.zeros((n_sources, n_sources)) if noise is None else noise
        self.lags = len(covariances) - 1
        self._e, self._psi = np.empty((2, n_sources, n_samples - self.lags))
        self._adjoint, self._moved = np.empty((2, n_sources, n_samples))
        self._gains = _compute_lag_gains(bands, self.lags)
        n_independent = n_samples / compute_overlap(bands)
        self._strongest_pull = float(np.clip(n_independent / _SAMPLES_OF_PULL, *_PULL_RANGE))

    def run(
        self,
        start: Array,
        ridge: float,
        n_steps: int,
        around: Array | None = None,
        *,
        prior_samples: float = 0.0,
        is_hopeless: Callable[[Array], bool] | None = None,
        with_error: bool = True,
        step_done: StepDone = ignore_step,
    ) -> ViewFit:
        """Run a descent.

        Parameters
        ----------
        start : ndarray of shape (sources, sources)
            Initial unmixing matrix of the whitened channels.
        ridge : float
            The ridge rho; infinity for the samples themselves.
        n_steps : int
            Largest number of steps.
        around : ndarray of shape (sources, sources), optional
            Centre of a prior: an earlier unmixing matrix of the whitened channels.
        prior_samples : float
            Weight of the prior, as a number of samples.
        is_hopeless : callable, optional
            Called with the unmixing matrix after each step; ends the descent by returning True.
        with_error : bool
            Whether to estimate the sampling error; it is zero otherwise.
        step_done : callable
            Called after each step.

        Returns
        -------
        ViewFit
        """
        n_sources, n_samples = self.z.shape
        weight = prior_samples / n_samples
        relative = np.eye(n_sources) if around is None else start @ np.linalg.inv(around)
        state = self._evaluate(start, np.ascontiguousarray(start @ self.z), relative, ridge, weight)
        losses, enough = [state.loss], _MIN_DECREASE * n_sources**2 / n_samples
        gradient, hessian = self._differentiate(state, weight)
        is_stuck = False
        coupling = 1.0 + state.pull
        memory = StepMemory(coupling)
        while len(losses) <= n_steps:
            step = memory.propose(gradient, hessian)
            if -0.5 * float(np.sum(gradient * step)) < enough:
                break
            moved = self._step(state, step, ridge, weight)
            is_stuck = moved is None
            if moved is None:
                break
            state, taken = moved
            if is_hopeless is not None and is_hopeless(state.w):
                break
            losses.append(state.loss)
            before = gradient
            gradient, hessian = self._differentiate(state, weight)
            if len(losses) > _PLAIN_STEPS:
                memory.remember(taken, gradient - before)
            step_done()
        error = np.zeros_like(hessian)
        if with_error:
            chance = _CHANCE * self.z.size**_CHANCE_EXPONENT
            error = estimate_error(self._adjoint, state.y, hessian, coupling, chance)
        return ViewFit(state.w, tuple(losses), error, is_stuck)

    def _step(self, state: _State, step: Array, ridge: float, weight: float) -> tuple[_State, Array] | None:
        """Return the state after the largest step t = 1, 1/2, ... that does not raise the loss."""
        t = 1.0
        for _ in range(_MAX_HALVINGS):
            move = np.eye(len(step)) + t * step
            y = np.matmul(move, state.y, out=self._moved)
            moved = self._evaluate(move @ state.w, y, move @ state.relative, ridge, weight)
            of_noise = 0.5 * float(state.noise_gains @ np.diag(moved.noise - state.noise))
            if moved.loss - of_noise <= state.loss + (
                _SLACK if t < 1.0 or np.abs(step).max() < 0.1 else 0.0
            ):
                self._moved = state.y
                return moved, t * step
            t *= 0.5
        # the last evaluation overwrote what belongs to the state
        self._evaluate(state.w, state.y, state.relative, ridge, weight)
        return None

    def _evaluate(self, w: Array, y: Array, relative: Array, ridge: float, weight: float) -> _State:
        """Scale the sources to unit variance, and find their taps, densities, scores and loss."""
        lagged = np.einsum("in,knm,im->ik", w, self.covariances, w, optimize=True)
        size = np.sqrt(lagged[:, :1])
        w, relative, lagged = w / size, relative / size, lagged / lagged[:, :1]
        y /= size
        taps = fit_ridge_taps(lagged, ridge)
        learning.filter_rows(y, taps, self._e)
        densities = Densities.learn(self._e, self._count_effective(w, taps))
        losses, power = densities.compute_scores(self._e, self._psi)
        pull = 0.0 if weight > 0.0 else self._strongest_pull * compute_share_kept(ridge)
        loss = (
            float(losses.sum() - (1.0 + pull) * np.linalg.slogdet(w)[1])
            + Prior(weight, relative).compute_loss()
        )
        noise = w @ self.noise @ w.T
        return _State(w, y, relative, lagged, taps, densities, power, pull, loss, noise, np.zeros(len(w)))

    def _differentiate(self, state: _State, weight: float) -> tuple[Array, Array]:
        """Return gradient and curvature of the loss in D, both (sources, sources)."""
        learning.filter_rows_adjoint(self._psi, state.taps, self._adjoint)
        n_filtered = self._e.shape[1]
        self._adjoint += state.pull * state.y
        gradient = self._adjoint @ state.y.T / n_filtered
        gradient += Prior(weight, state.relative).compute_gradient()
        stride = math.ceil(n_filtered / _MAX_SUBSAMPLE)
        bends = state.densities.compute_bends(np.ascontiguousarray(self._e[:, ::stride]))
        state.noise_gains = bends.mean(axis=1) * np.sum(state.taps**2, axis=1) + state.pull
        gradient -= state.noise_gains[:, None] * state.noise
        np.fill_diagonal(gradient, 0.0)
        powers = state.y[:, self.lags :: stride] ** 2
        gain = compute_filtered_power(state.taps, state.lagged)
        together = bends @ powers.T / bends.shape[1]
        least = _MIN_CURVATURE * state.power[:, None]
        return gradient, gain * np.maximum(together, least) + weight + state.pull

    def _count_effective(self, w: Array, taps: Array) -> Array:
        """Return the number of independent samples that the filtered sources are equivalent to."""
        spectra = np.einsum("in,qnm,im->iq", w, self.bands.covariances, w, optimize=True)
        spectra *= np.maximum(compute_overlaps(taps) @ self._gains, 0.0)
        flatness = (spectra @ self.bands.weights) ** 2 / np.maximum(spectra**2 @ self.bands.weights, 1e-300)
        return np.asarray(np.maximum(self._e.shape[1] * flatness, 1.0))


def fit_ridge_taps(lagged: Array, ridge: float) -> Array:
    """Return the taps that whiten sources as far as a ridge, by Levinson recursion.

    Parameters
    ----------
    lagged : ndarray of shape (sources, lags + 1)
        Autocovariances of the sources.
    ridge : float
        Added to the variance, relative to it; with infinity, the taps pass the samples unchanged.

    Returns
    -------
    ndarray of shape (sources, lags + 1)
        The first tap is 1.
    """
    taps = np.zeros(lagged.shape)  # C-ordered for the kernels, unlike `lagged` with some versions of NumPy
    taps[:, 0] = 1.0
    if math.isinf(ridge):
        return taps
    error = lagged[:, 0] * (1.0 + ridge)
    for k in range(1, lagged.shape[1]):
        reflection = -np.sum(taps[:, :k] * lagged[:, k:0:-1], axis=1) / error
        taps[:, 1 : k + 1] += reflection[:, None] * taps[:, k - 1 :: -1][:, :k]
        error = error * (1.0 - reflection**2)
    return taps


def compute_share_kept(ridge: float) -> float:
    """Return rho / (1 + rho): 0 for innovations, 1 for the samples themselves."""
    return 1.0 if math.isinf(ridge) else ridge / (1.0 + ridge)


def _compute_lag_gains(bands: Bands, lags: int) -> Array:
    """Return the factors of the overlaps of taps in the gain of each band, (lags + 1, bands)."""
    centres = np.pi * (np.cumsum(bands.weights) - 0.5 * bands.weights)
    gains = 2.0 * np.cos(np.arange(lags + 1)[:, None] * centres)
    gains[0] = 1.0
    return gains
