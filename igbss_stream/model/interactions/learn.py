"""Learn sources from mixtures that contain products of them.

The forward model of order k has a weight for every channel and every set of at most k sources::

    x = offset + sum over S of mixing[:, S] prod over i in S of z_i

It has no linear inverse. With equal numbers of channels and sources, the map has folds: different sources
can give the same channels. They are distinguished by the fact that sources are predictable up to sparse
innovations. Sources and weights are estimated jointly, by descents
(`igbss_stream.model.interactions.descent`) from many starting points
(`igbss_stream.model.interactions.search`) on an excerpt of the samples. The best results are then refined
on all samples.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import track
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.model.interactions.descent import (
    LAGS,
    PolynomialDescent,
    PolynomialFit,
    SigmaSchedule,
    compute_products,
    standardise,
)
from igbss_stream.model.interactions.search import run_descents, search
from igbss_stream.model.interactions.whitening import RANK_TOLERANCE, Whitening
from igbss_stream.model.kernels import interactions
from igbss_stream.model.poset import list_subsets

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

_EXCERPT = 1024  # samples for the search
_MAX_SAMPLES = 16384  # samples for the refinement
_MAX_NUMBERS = 2**23  # size of the largest array of a descent
_EXTENSION = SigmaSchedule(0.3, 0.01, 0.85, 5)  # from the excerpt to all samples
_N_FINALISTS = 6  # results that are refined
_REFINEMENT = SigmaSchedule(0.05, 0.001, 0.85, 20)
_INVERSION_STEPS = 50


@dataclass(frozen=True)
class LearnedInteractions:
    """Learned sources and the polynomial that mixes them.

    Parameters
    ----------
    sources : ndarray of shape (samples, sources)
        Sources of the given samples, with mean 0 and variance 1 if all samples were used for learning. They
        are sorted by the norm of their column of `mixing`, largest first; its strongest weight is positive.
    mixing : ndarray of shape (channels, subsets)
        Weights in the unit of the channels, with columns in the order of `subsets`.
    offset : ndarray of shape (channels,)
        Values of the channels where all sources are zero.
    subsets : tuple of tuple of int
    loss : float
        Loss of the best descent, per sample.
    """

    sources: Array
    mixing: Array
    offset: Array
    subsets: tuple[tuple[int, ...], ...]
    loss: float
    _whitening: Whitening = field(repr=False)
    _anchors: tuple[Array, Array] = field(repr=False)  # whitened channels and their sources

    def separate(self, x: Array) -> Array:
        """Return the sources of other samples of the same mixture.

        If several sources give the same channels, the sources closest to those of a similar training sample
        are used; similar samples have similar neighbours in time.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Consecutive samples, in the unit of the training samples.

        Returns
        -------
        ndarray of shape (samples, sources)
        """
        if x.ndim != 2 or x.shape[1] != len(self.offset):
            raise InputError(f"x must have shape (samples, {len(self.offset)}). Got {x.shape} instead.")
        white = self._whitening.apply(x)
        weights = self._whitening.transform_weights(np.column_stack([self.offset, self.mixing]))
        return _invert_from_nearest(white, _to_masks(self.subsets), weights, *self._anchors)

    def mix(self, sources: Array) -> Array:
        """Return the channels that the model computes from sources.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)

        Returns
        -------
        ndarray of shape (samples, channels)
        """
        if sources.ndim != 2 or sources.shape[1] != self.sources.shape[1]:
            raise InputError(
                f"sources must have shape (samples, {self.sources.shape[1]}). Got {sources.shape} instead."
            )
        rows = np.ascontiguousarray(sources.T, dtype=np.float64)
        features = compute_products(rows, _to_masks(self.subsets))
        return np.asarray(features @ np.column_stack([self.offset, self.mixing]).T)


def learn_interactions(x: Array, n_sources: int, order: int) -> LearnedInteractions:
    """Learn sources, and the weights of the sources and their products.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        Finite, consecutive samples; no channel may be constant. At least `n_sources` channels.
    n_sources : int
        At least 2.
    order : int
        Largest number of sources in a product, from 2 to `n_sources`.

    Returns
    -------
    LearnedInteractions

    Raises
    ------
    ParameterError
        If the order or the number of sources is invalid, or gives too many products.
    InputError
        If there are too few samples, or their rank is lower than `n_sources`.
    """
    _check_counts(n_sources, order)
    sets = list_subsets(n_sources, order)
    whitening = Whitening.fit(x, len(sets))
    n_directions = len(whitening.forward)
    if n_directions < n_sources:
        raise InputError(
            f"the samples span {n_directions} directions, fewer than n_sources = {n_sources}. "
            "Lower n_sources, or pass more channels."
        )
    n_learned = _choose_n_samples(len(x), n_sources, n_directions, len(sets))
    masks, white = _to_masks(sets), whitening.apply(x)
    fits = _search_excerpt(white[:n_learned], n_sources, masks)
    fit = _refine(white[:n_learned], masks, fits[:_N_FINALISTS])
    return _apply_conventions(white, sets, whitening, fit)


def _check_counts(n_sources: int, order: int) -> None:
    if n_sources < 2:
        raise ParameterError(
            f"n_sources must be at least 2 for products of sources. Got {n_sources} instead."
        )
    if not 2 <= order <= n_sources:
        raise ParameterError(
            f"order must be between 2 and n_sources = {n_sources}. Got {order} instead. "
            "For order 1, without products, learn a linear structure."
        )


def _choose_n_samples(n_samples: int, n_sources: int, n_directions: int, n_sets: int) -> int:
    """Return the number of samples to learn from; check that the sizes are feasible."""
    least = max(100, 10 * (n_sets + 1))
    most = min(_MAX_SAMPLES, _MAX_NUMBERS // (n_sources * (1 + n_directions * (n_sets + 1))))
    if most < least:
        raise ParameterError(
            f"{n_sources} sources in {n_directions} directions have {n_sets} sets of sources, too many. "
            "Lower n_sources or order."
        )
    if n_samples < least:
        raise InputError(
            f"{n_sets} weights per channel need at least {least} samples. Got {n_samples} instead. "
            "Pass a longer recording, or lower n_sources or order."
        )
    return min(n_samples, most)


def _to_masks(sets: tuple[tuple[int, ...], ...]) -> Masks:
    """Convert sets to bit masks, with the empty set first."""
    return np.array([0] + [sum(1 << i for i in members) for members in sets], dtype=np.int64)


def _choose_excerpt(x: Array) -> slice:
    """Return the range of samples for the search."""
    start = max(0, (len(x) - _EXCERPT) // 2)
    stop = min(len(x), start + _EXCERPT)
    values = np.linalg.eigvalsh(np.cov(x[start:stop].T))
    if values[0] <= RANK_TOLERANCE * max(values[-1], 1.0):
        raise InputError(
            f"samples {start} to {stop} are constant, or have a lower rank than all samples. "
            "Learn from a segment in which all channels vary."
        )
    return slice(start, stop)


def _search_excerpt(x: Array, n_sources: int, masks: Masks) -> list[PolynomialFit]:
    """Search an excerpt, and extend the results to all samples; return them, the best first."""
    excerpt = _choose_excerpt(x)
    fits = search(x, n_sources, masks, excerpt)
    if len(x) > _EXCERPT:
        places = _stack_neighbours(x[excerpt])
        longer = [_invert_from_nearest(x, masks, fit.weights, places, fit.z.T).T for fit in fits]
        with track("extending to all samples", len(longer)) as step:
            fits = run_descents(x, masks, longer, _EXTENSION, step)
    return fits


def _refine(x: Array, masks: Masks, fits: list[PolynomialFit]) -> PolynomialFit:
    """Refine fits at a small sigma, and invert the best one exactly where possible."""
    descent = PolynomialDescent(x, masks, len(fits[0].z), LAGS)
    refined = []
    with track("refining the best results", len(fits)) as step:
        for fit in fits:
            refined.append(descent.run(fit.z, _REFINEMENT, fit.weights))
            step()
    best = min(refined, key=lambda fit: fit.loss)
    z = best.z.copy()
    interactions.invert(x, masks, best.weights, _INVERSION_STEPS, z)
    return PolynomialFit(*standardise(z, best.weights, masks), best.loss)


def _stack_neighbours(x: Array) -> Array:
    """Return each sample with its previous and next sample, side by side."""
    before, after = np.vstack([x[:1], x[:-1]]), np.vstack([x[1:], x[-1:]])
    return np.hstack([x, before, after])


def _invert_from_nearest(x: Array, masks: Masks, weights: Array, places: Array, sources: Array) -> Array:
    """Invert samples to sources (samples, sources), starting from the sources at similar neighbourhoods."""
    from scipy.spatial import cKDTree  # half a second to import

    nearest = cKDTree(places).query(_stack_neighbours(x))[1]
    z = np.ascontiguousarray(sources[nearest].T)
    interactions.invert(x, masks, weights, _INVERSION_STEPS, z)
    return np.ascontiguousarray(z.T)


def _apply_conventions(
    white: Array, sets: tuple[tuple[int, ...], ...], whitening: Whitening, fit: PolynomialFit
) -> LearnedInteractions:
    """Return the result with conventional order and signs, in the unit of the channels."""
    n_sources = len(fit.z)
    weights = whitening.restore_weights(fit.weights)
    own = weights[:, 1 : n_sources + 1]
    order = np.argsort(-np.sum(own**2, axis=0), kind="stable")
    sign = np.sign(own[np.abs(own).argmax(axis=0), np.arange(n_sources)])
    position = {members: column for column, members in enumerate(sets, 1)}
    mixing = np.column_stack(
        [
            weights[:, position[tuple(sorted(order[list(members)]))]] * np.prod(sign[order[list(members)]])
            for members in sets
        ]
    )
    learned_from = np.ascontiguousarray((fit.z[order] * sign[order][:, None]).T)
    offset = weights[:, 0]
    anchors = _stack_neighbours(white[: len(learned_from)]), learned_from
    if len(learned_from) < len(white):
        moved = whitening.transform_weights(np.column_stack([offset, mixing]))
        sources = _invert_from_nearest(white, _to_masks(sets), moved, *anchors)
    else:
        sources = learned_from
    return LearnedInteractions(sources, mixing, offset, sets, fit.loss, whitening, anchors)
