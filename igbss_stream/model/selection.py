"""Select the view of the sources from which the unmixing matrix of the whitened channels is learned.

Views form a ladder, from a robust one, which is close to the samples, to innovations, which carry most
information (see `igbss_stream.model.views`). If the model holds, all views estimate the same unmixing
matrix, and innovations have the smallest sampling error. If it does not, because there is sensor noise or
because there are more sources than channels, the views that whiten most are biased first.

The ladder is descended as long as no more robust view contradicts the result (Lepski's principle). With
D = W_k inv(W_j), rows scaled to D_ii = 1, the contradiction of view k by a more robust view j is the mean
over the pairs of min(D^2 / S, 50), where S is the sampling error of view j, held above a quarter of its
geometric mean. Each pair is compared with its own error. Pairs of sources that the samples do not separate
have large errors, and contradict nothing.

Contradictions need a sampling error that is right. Where slow structure of the whole recording leaves few
independent samples, as in small images, robust views are wrong by more than their parts show: the parts
share the error. Sensor noise, in contrast, moves each view that whitens more further away. With few
independent samples, innovations are therefore selected in spite of robust views if the three views that
whiten most do not contradict each other. Their sampling errors must be small, as uncertain views contradict
nothing, and their sources must not correlate strongly, as they do where frequencies without power are
whitened. A prior around an earlier matrix would make views agree; with one, robust views are always
believed. Views that allow for sensor noise (below) may agree with each other, but not with innovations: the
last view before innovations is then selected.

With many independent samples, the view after the most robust one is not selected: the sampling error is
small then, and whitening more would gain little.

Sensor noise is estimated with the first view, and all views but innovations allow for it. They can then
whiten more before they are contradicted.

A prior is for the windows of a stream. They are short: the most robust view then whitens a little more, as
its sampling error is smaller, and less of a source counts as noise, as estimates of noise differ from
window to window, and sources with them.

The view that is rejected shows what sensor noise and other departures from the model do to a source. By how
much it differs from the selected view, beyond the sampling error, is added to the predicted interference.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import track
from igbss_stream.model.likelihood import LAGS, LikelihoodDescent
from igbss_stream.model.principal_axes import PrincipalAxes
from igbss_stream.model.sensor_noise import estimate_sensor_noise
from igbss_stream.model.spectra import compute_bands, compute_overlap
from igbss_stream.model.starts import find_starts
from igbss_stream.model.views import ViewDescent, ViewFit

Array = NDArray[np.float64]

INNOVATIONS = 0.0
"""View of innovations, with taps and shapes of maximum likelihood."""

LADDER = (20.0, 1.0, 0.1, 0.01, INNOVATIONS)
"""Ridges of the views, from robust to efficient."""

MOST_ROBUST_UPDATE = 5.0
"""Ridge of the most robust view with a prior around an earlier matrix."""

MAX_CONTRADICTION = 1.5
"""A view that is contradicted by more than this is not selected."""

MAX_CORRELATION = 0.3
"""Sources that correlate by more than this are doubtful."""

_N_EFFICIENT = 3  # views that whiten most
_FEW_SAMPLES = 1000.0  # independent ones
_SMALL_ERROR = 0.01  # predicted interference of each source, relative to the source
_FIRST = 1.0  # view that is learned first: it has fewer local optima than the more robust one
_TRIAL_STEPS, _STEPS = 10, 150
_MIN_TRIAL_SAMPLES, _TRIAL_SAMPLES = 8192, 256  # samples that starts are tried on, at least and per source
_N_BLOCKS = 8  # of these samples
_PRIOR_SAMPLES = 100.0  # weight of the prior around an earlier unmixing matrix, per source
_PATIENCE = 8  # a descent ends when it was contradicted by 1.5 times the bound in this many steps
_LARGEST = 50.0  # contribution of a pair
_LEAST_DIAGONAL = 1e-6  # of D, before it is scaled; a source may be another one in the other view
_LEAST_ERROR = 0.25  # of a pair, relative to the geometric mean over the pairs
_NOISE_ROUNDS, _NOISE_GROWTH = 6, 1.05  # of its estimates; a better fit shows more noise
_SHARE_OF_NOISE = 0.01  # of the power of its effect; the noise is known to about a tenth
_MOST_NOISE, _MOST_NOISE_OF_UPDATE = 0.5, 0.3  # of a source; without a prior, and with one


@dataclass(frozen=True)
class Selection:
    """The selected unmixing matrix and the evidence for its view.

    Parameters
    ----------
    fit : ViewFit
        The unmixing matrix, its losses and its sampling error.
    view : float
        The ridge; 0 for innovations.
    contradictions : dict of float to float
        The largest contradiction of each view that was tried below the first one; of a view selected
        in spite of robust views, by the views between.
    interference : ndarray of shape (sources,)
        Predicted power of all other sources in each source, relative to the source.
    """

    fit: ViewFit
    view: float
    contradictions: dict[float, float]
    interference: Array


def select_unmixing(z: Array, axes: PrincipalAxes, previous: Array | None, view: float | None) -> Selection:
    """Return the unmixing matrix of whitened channels, learned from the selected view.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    axes : PrincipalAxes
        Of the channels.
    previous : ndarray of shape (sources, sources), optional
        Earlier unmixing matrix of the whitened channels: the start, and the centre of a prior.
    view : float, optional
        Ridge of the view; selected by default.
    """
    learner = _Learner(z, axes, previous)
    first = learner.allow_for_noise(learner.learn_first())
    if view is not None:
        for rung in (rung for rung in LADDER if view < rung < _FIRST):
            first = learner.learn(first.unmixing, rung)
        fit = learner.learn(first.unmixing, view)
        return Selection(fit, view, {}, fit.error.sum(axis=1))
    accepted, rejected, contradictions = _descend(learner, first)
    share = _SHARE_OF_NOISE if learner.allows_for_noise and INNOVATIONS in contradictions else 1.0
    if rejected is not None and previous is None and learner.n_independent < _FEW_SAMPLES:
        efficient = _learn_efficient(learner, rejected.unmixing)
        if efficient is not None:
            *others, last = efficient.values()
            evidence = [compute_contradiction(last.unmixing, fit) for fit in others]
            accepted, rejected, share = efficient, others[-1], 1.0
            contradictions[min(accepted)] = max(evidence)
    selected = min(accepted)
    fit = accepted[selected]
    interference = fit.error.sum(axis=1)
    if rejected is not None:
        departure = np.maximum(compare(fit.unmixing, rejected.unmixing) - fit.error, 0.0)
        interference += share * departure.sum(axis=1)
    return Selection(fit, selected, contradictions, interference)


def _descend(
    learner: "_Learner", first: ViewFit
) -> tuple[dict[float, ViewFit], ViewFit | None, dict[float, float]]:
    """Return the fits that are not contradicted, the one that ends the descent, and the contradictions."""
    top = learner.most_robust
    accepted, contradictions = {top: learner.learn(first.unmixing, top)}, dict[float, float]()
    for rung in LADDER[1:]:
        robust = list(accepted.values())
        best = accepted[min(accepted)]
        fit = first if rung == _FIRST else learner.learn(best.unmixing, rung, _Watch(robust))
        contradictions[rung] = max(compute_contradiction(fit.unmixing, other) for other in robust)
        if contradictions[rung] > MAX_CONTRADICTION or fit.is_stuck:
            return accepted, fit, contradictions
        if rung != _FIRST or learner.n_independent < _FEW_SAMPLES:
            accepted[rung] = fit
    return accepted, None, contradictions


def _learn_efficient(learner: "_Learner", start: Array) -> dict[float, ViewFit] | None:
    """Return the fits of the views that whiten most, or None if they are uncertain or disagree.

    Innovations are left out if they alone do so, and the other views allow for sensor noise.
    """
    fits = dict[float, ViewFit]()
    for rung in LADDER[-_N_EFFICIENT:]:
        fit = learner.learn(start, rung)
        contradictions = [compute_contradiction(fit.unmixing, other) for other in fits.values()]
        rows = normalise_rows(fit.unmixing)
        if (
            fit.is_stuck
            or fit.error.sum(axis=1).max() >= _SMALL_ERROR
            or max(contradictions, default=0.0) > MAX_CONTRADICTION
            or np.abs(np.tril(rows @ rows.T, -1)).max(initial=0.0) > MAX_CORRELATION
        ):
            return fits if rung == INNOVATIONS and learner.allows_for_noise else None
        fits[rung], start = fit, fit.unmixing
    return fits


def compute_contradiction(unmixing: Array, robust: ViewFit) -> float:
    """Return by how much a view differs from a more robust one, relative to the latter's sampling error."""
    pairs = ~np.eye(len(unmixing), dtype=bool)
    if not pairs.any():
        return 0.0
    error = np.maximum(robust.error[pairs], np.finfo(float).tiny)
    error = np.maximum(error, _LEAST_ERROR * math.exp(np.mean(np.log(error))))
    return float(np.mean(np.minimum(compare(unmixing, robust.unmixing)[pairs] / error, _LARGEST)))


def compare(unmixing: Array, other: Array) -> Array:
    """Return the squares of D = W inv(W_other), rows scaled to D_ii = 1, with zeros on the diagonal."""
    gains = normalise_rows(unmixing) @ np.linalg.inv(normalise_rows(other))
    diagonal = np.maximum(np.abs(np.diag(gains)), _LEAST_DIAGONAL)
    gains /= diagonal[:, None]
    np.fill_diagonal(gains, 0.0)
    return np.asarray(gains**2)


def compute_lagged(z: Array, lags: int) -> Array:
    """Return the lagged covariances of rows, (lags + 1, rows, rows)."""
    n_samples = z.shape[1]
    return np.array([z[:, k:] @ z[:, : n_samples - k].T / n_samples for k in range(lags + 1)])


def take_blocks(z: Array, n_samples: int) -> Array:
    """Return blocks that are spread over the samples, together n_samples; all samples if these are few."""
    n_all = z.shape[1]
    if n_all < 2 * n_samples:
        return z
    length = n_samples // _N_BLOCKS
    starts = np.linspace(0, n_all - length, _N_BLOCKS).astype(int)
    return np.concatenate([z[:, start : start + length] for start in starts], axis=1)


def normalise_rows(unmixing: Array) -> Array:
    """Return an unmixing matrix of white channels whose sources have unit variance."""
    return np.asarray(unmixing / np.linalg.norm(unmixing, axis=1, keepdims=True))


class _Learner:
    """Learns unmixing matrices of the same whitened channels from several views."""

    def __init__(self, z: Array, axes: PrincipalAxes, previous: Array | None) -> None:
        n_sources, n_samples = z.shape
        lags = min(LAGS, max(1, n_samples // 20))
        self._z, self._axes, self._previous = z, axes, previous
        self._covariances = compute_lagged(z, lags)
        self._bands = compute_bands(z)
        self.n_independent = n_samples / compute_overlap(self._bands)
        self._noise: Array | None = None
        self._views: ViewDescent | None = None
        self._prior_samples = 0.0 if previous is None else _PRIOR_SAMPLES * n_sources

    def learn(
        self, start: Array, view: float, is_hopeless: Callable[[Array], bool] | None = None
    ) -> ViewFit:
        """Return the fit of a view, from an unmixing matrix of the whitened channels."""
        name = "innovations" if view == INNOVATIONS else f"view {view:g}"
        with track(f"learning from {name}", _STEPS) as step:
            if view == INNOVATIONS:
                self._views = None  # frees its buffers: those of the likelihood are as large
                return LikelihoodDescent(self._z, self._covariances).run(
                    start,
                    _STEPS,
                    self._previous,
                    prior_samples=self._prior_samples,
                    is_hopeless=is_hopeless,
                    step_done=step,
                )
            return self._get_views().run(
                start,
                view,
                _STEPS,
                self._previous,
                prior_samples=self._prior_samples,
                is_hopeless=is_hopeless,
                step_done=step,
            )

    def learn_first(self) -> ViewFit:
        """Return the fit of the first view, from the most likely starting point."""
        if self._previous is not None:
            return self.learn(self._previous, _FIRST)
        starts = find_starts(self._z, self._covariances, self._axes.vectors)
        views = self._get_views()
        part = take_blocks(self._z, max(_MIN_TRIAL_SAMPLES, _TRIAL_SAMPLES * len(self._z)))
        if part is not self._z:
            views = ViewDescent(part, compute_lagged(part, views.lags), compute_bands(part))
        with track("trying starts", len(starts) * _TRIAL_STEPS) as step:
            fits = [
                views.run(start, _FIRST, _TRIAL_STEPS, with_error=False, step_done=step) for start in starts
            ]
        best = min(fits, key=lambda fit: fit.loss)
        fit = self.learn(best.unmixing, _FIRST)
        return fit if part is not self._z else replace(fit, losses=best.losses[:-1] + fit.losses)

    @property
    def most_robust(self) -> float:
        """Ridge of the most robust view."""
        return LADDER[0] if self._previous is None else MOST_ROBUST_UPDATE

    @property
    def allows_for_noise(self) -> bool:
        """Whether sensor noise was found."""
        return self._noise is not None

    def allow_for_noise(self, fit: ViewFit) -> ViewFit:
        """Estimate the sensor noise that later fits allow for; return the fit of the first view with it.

        Parameters
        ----------
        fit : ViewFit
            Of the first view, without noise.
        """
        with track("estimating sensor noise", _NOISE_ROUNDS) as step:
            for _ in range(_NOISE_ROUNDS):
                noise = estimate_sensor_noise(
                    self._bands,
                    self._z.shape[1],
                    fit.unmixing,
                    fit.error,
                    self._axes.whitening,
                    self._axes.scale,
                    _MOST_NOISE if self._previous is None else _MOST_NOISE_OF_UPDATE,
                )
                if noise is None:
                    break
                before, self._noise, self._views = self._noise, noise, None
                if before is not None and np.trace(noise) < _NOISE_GROWTH * np.trace(before):
                    break
                fit = self._get_views().run(
                    fit.unmixing, _FIRST, _STEPS, self._previous, prior_samples=self._prior_samples
                )
                step()
        return fit

    def _get_views(self) -> ViewDescent:
        if self._views is None:
            self._views = ViewDescent(self._z, self._covariances, self._bands, self._noise)
        return self._views


class _Watch:
    """Watches a descent that moves away from what more robust views found."""

    def __init__(self, robust: Sequence[ViewFit]) -> None:
        self._robust, self._n_contradicted = robust, 0

    def __call__(self, unmixing: Array) -> bool:
        """Return whether the descent has been contradicted clearly for several steps."""
        largest = max(compute_contradiction(unmixing, fit) for fit in self._robust)
        self._n_contradicted = self._n_contradicted + 1 if largest > 1.5 * MAX_CONTRADICTION else 0
        return self._n_contradicted >= _PATIENCE
