"""Sources learned from mixtures that hold products of them.

The forward model of order k has a weight for every channel and every set of at most k sources::

    x = offset + sum over S of mixing[:, S] prod over i in S of z_i

No linear map undoes it, and with as many channels as sources it folds: different sources may make up the
same channels. What tells them apart is that sources are predictable but for sparse innovations. Sources and
weights are found together, by descents (`igbss_stream.model.interactions.descent`) from many starts
(`igbss_stream.model.interactions.search`) over one stretch of the samples; the best ends are then improved
on all of them.
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

_STRETCH = 1024  # samples that are searched
_LONGEST = 16384  # samples that are learned from
_NUMBERS = 2**23  # of the largest array of a descent
_SLOWLY = SigmaSchedule(0.3, 0.01, 0.85, 5)  # from a stretch to all samples
_FINALISTS = 6  # ends that are descended from to the last
_FINISH = SigmaSchedule(0.05, 0.001, 0.85, 20)
_INVERSIONS = 50  # steps of a sample's inversion


@dataclass(frozen=True)
class LearnedInteractions:
    """Sources and the polynomial that mixes them.

    Parameters
    ----------
    sources : ndarray of shape (samples, sources)
        Of the samples that were learned from; mean 0 and variance 1 where none were left out. They come by
        the length of their own column of `mixing`, largest first; its strongest weight is positive.
    mixing : ndarray of shape (channels, subsets)
        In the unit of the channels; columns as `subsets`.
    offset : ndarray of shape (channels,)
        What the channels are where all sources are zero.
    subsets : tuple of tuple of int
    loss : float
        That of the descent that won, a sample.
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

        Where several sources make up the same channels, those nearest to a sample that was learned from
        are taken; near means that its neighbours in time are alike as well.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            In their order in time, and in the unit of the channels that were learned from.

        Returns
        -------
        ndarray of shape (samples, sources)
        """
        if x.ndim != 2 or x.shape[1] != len(self.offset):
            raise InputError(f"expected samples of {len(self.offset)} channels, got shape {x.shape}.")
        white = self._whitening.apply(x)
        weights = self._whitening.transform_weights(np.column_stack([self.offset, self.mixing]))
        return _invert_from_nearest(white, _to_masks(self.subsets), weights, *self._anchors)

    def mix(self, sources: Array) -> Array:
        """Return the channels that sources make up.

        Parameters
        ----------
        sources : ndarray of shape (samples, sources)

        Returns
        -------
        ndarray of shape (samples, channels)
        """
        if sources.ndim != 2 or sources.shape[1] != self.sources.shape[1]:
            raise InputError(f"expected {self.sources.shape[1]} sources, got shape {sources.shape}.")
        rows = np.ascontiguousarray(sources.T, dtype=np.float64)
        features = compute_products(rows, _to_masks(self.subsets))
        return np.asarray(features @ np.column_stack([self.offset, self.mixing]).T)


def learn_interactions(x: Array, n_sources: int, order: int) -> LearnedInteractions:
    """Learn sources, their weights and those of their products.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        Finite, in their order in time; no channel constant. At least as many channels as sources.
    n_sources : int
        At least 2.
    order : int
        Most sources in a product, from 2 to `n_sources`.

    Returns
    -------
    LearnedInteractions

    Raises
    ------
    ParameterError
        If the order or the number of sources cannot be, or makes more products than can be learned.
    InputError
        If there are too few samples, or they have a lower rank than `n_sources`.
    """
    _check_counts(n_sources, order)
    sets = list_subsets(n_sources, order)
    whitening = Whitening.fit(x, len(sets))
    n_directions = len(whitening.forward)
    if n_directions < n_sources:
        raise InputError(
            f"the samples span {n_directions} directions, fewer than n_sources = {n_sources}. "
            "Ask for fewer sources, or give more channels."
        )
    n_learned = _choose_n_samples(len(x), n_sources, n_directions, len(sets))
    masks, white = _to_masks(sets), whitening.apply(x)
    ends = _search_excerpt(white[:n_learned], n_sources, masks)
    end = _refine(white[:n_learned], masks, ends[:_FINALISTS])
    return _apply_conventions(white, sets, whitening, end)


def _check_counts(n_sources: int, order: int) -> None:
    if n_sources < 2:
        raise ParameterError(f"n_sources = {n_sources} has no products. Ask for 2 sources or more.")
    if not 2 <= order <= n_sources:
        raise ParameterError(
            f"order must be from 2 to n_sources = {n_sources}, got {order}. "
            "For order 1, without products, learn a linear structure."
        )


def _choose_n_samples(n_samples: int, n_sources: int, n_directions: int, n_sets: int) -> int:
    """Return how many samples may be learned from; refuse sizes that are hopeless."""
    least = max(100, 10 * (n_sets + 1))
    most = min(_LONGEST, _NUMBERS // (n_sources * (1 + n_directions * (n_sets + 1))))
    if most < least:
        raise ParameterError(
            f"{n_sources} sources in {n_directions} directions have {n_sets} sets to weigh, too many. "
            "Ask for fewer sources by n_sources, or a lower order."
        )
    if n_samples < least:
        raise InputError(
            f"{n_sets} weights a channel need {least} samples or more, got {n_samples}. "
            "Give a longer recording, or ask for fewer sources or a lower order."
        )
    return min(n_samples, most)


def _to_masks(sets: tuple[tuple[int, ...], ...]) -> Masks:
    """Return sets as bit masks, the empty set first."""
    return np.array([0] + [sum(1 << i for i in members) for members in sets], dtype=np.int64)


def _choose_excerpt(x: Array) -> slice:
    """Return which samples are searched."""
    start = max(0, (len(x) - _STRETCH) // 2)
    stop = min(len(x), start + _STRETCH)
    values = np.linalg.eigvalsh(np.cov(x[start:stop].T))
    if values[0] <= RANK_TOLERANCE * max(values[-1], 1.0):
        raise InputError(
            f"samples {start} to {stop} rest, or span fewer directions than the others do. "
            "Learn from a part where all channels move."
        )
    return slice(start, stop)


def _search_excerpt(x: Array, n_sources: int, masks: Masks) -> list[PolynomialFit]:
    """Return ends over all samples, the best first; where samples are many, a stretch is searched."""
    stretch = _choose_excerpt(x)
    ends = search(x, n_sources, masks, stretch)
    if len(x) > _STRETCH:
        places = _stack_neighbours(x[stretch])
        longer = [_invert_from_nearest(x, masks, end.weights, places, end.z.T).T for end in ends]
        with track("descending on all samples", len(longer)) as step:
            ends = run_descents(x, masks, longer, _SLOWLY, step)
    return ends


def _refine(x: Array, masks: Masks, ends: list[PolynomialFit]) -> PolynomialFit:
    """Return the best end with hardly any misfit; where any sources make up the channels, its do."""
    descent = PolynomialDescent(x, masks, len(ends[0].z), LAGS)
    finished = []
    with track("improving the best ends", len(ends)) as step:
        for end in ends:
            finished.append(descent.run(end.z, _FINISH, end.weights))
            step()
    end = min(finished, key=lambda end: end.loss)
    z = end.z.copy()
    interactions.invert(x, masks, end.weights, _INVERSIONS, z)
    return PolynomialFit(*standardise(z, end.weights, masks), end.loss)


def _stack_neighbours(x: Array) -> Array:
    """Return each sample with those before and after it."""
    before, after = np.vstack([x[:1], x[:-1]]), np.vstack([x[1:], x[-1:]])
    return np.hstack([x, before, after])


def _invert_from_nearest(x: Array, masks: Masks, weights: Array, places: Array, sources: Array) -> Array:
    """Return sources (samples, sources) from those of the nearest neighbourhoods."""
    from scipy.spatial import cKDTree  # half a second to import

    nearest = cKDTree(places).query(_stack_neighbours(x))[1]
    z = np.ascontiguousarray(sources[nearest].T)
    interactions.invert(x, masks, weights, _INVERSIONS, z)
    return np.ascontiguousarray(z.T)


def _apply_conventions(
    white: Array, sets: tuple[tuple[int, ...], ...], whitening: Whitening, end: PolynomialFit
) -> LearnedInteractions:
    """Return the result by the conventions: order, sign and the unit of the channels."""
    n_sources = len(end.z)
    weights = whitening.restore_weights(end.weights)
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
    learned_from = np.ascontiguousarray((end.z[order] * sign[order][:, None]).T)
    offset = weights[:, 0]
    anchors = _stack_neighbours(white[: len(learned_from)]), learned_from
    if len(learned_from) < len(white):
        moved = whitening.transform_weights(np.column_stack([offset, mixing]))
        sources = _invert_from_nearest(white, _to_masks(sets), moved, *anchors)
    else:
        sources = learned_from
    return LearnedInteractions(sources, mixing, offset, sets, end.loss, whitening, anchors)
