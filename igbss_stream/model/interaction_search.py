"""Where descents to the sources of a polynomial mixture start, and which of their ends is the best.

The loss has many minima, and the true one is found from starts that already hold the sources roughly, be it
mixed with one another. Such starts are made of components that a linear separation finds: of the channels,
and of all their monomials up to a degree (by maximum likelihood, and by the joint diagonalisation of lagged
covariances). All but one source are taken from there; the last one is what explains the rest of the
channels best, and combinations that explain most go first. Descents often find one source here and another
there, so that their ends are combined in the same way, round by round. No random numbers are involved.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model import likelihood, structure
from igbss_stream.model.interaction_descent import (
    LAGS,
    Descent,
    End,
    Schedule,
    fitted_weights,
    products,
    standardised_rows,
)
from igbss_stream.model.starts import jointly_diagonal

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

RANK_TOLERANCE = 1e-9  # eigenvalue, as a share of the largest, that is but rounding
_DEGREES = (2, 3, 4, 5)  # of the monomials
_MOST_MONOMIALS = 60
_POOL = 16  # components of a separation, the most predictable ones
_STARTS = 8  # descents from each pool
ROUNDS, _ELITE, _OFFSPRING = 3, 8, 16
_AGREED = 8  # descents of a round that end at the best place so far: the search is done
_CANDIDATES = 500  # combinations of components looked at
_ALTERNATIONS = 6  # of the last source and the weights
_ALIKE = 0.98  # correlation at which two sources count as one
_RELATED = 0.9  # and at which they are too close to start from both
_SCHEDULE = Schedule(0.3, 0.01, 0.85, 5)


@dataclass(frozen=True)
class Whitening:
    """The linear map to uncorrelated directions of unit variance, and back."""

    mean: Array
    forward: Array  # (directions, channels)
    back: Array  # (channels, directions)

    @classmethod
    def fitted(cls, x: Array, most: int) -> "Whitening":
        """Return that of the leading directions, at most as many as there are weights a channel."""
        mean, scale = x.mean(axis=0), x.std(axis=0)
        standard = (x - mean) / scale
        values, vectors = np.linalg.eigh(standard.T @ standard / len(x))
        kept = np.flatnonzero(values > RANK_TOLERANCE * values[-1])[-most:]
        root, axes = np.sqrt(values[kept]), vectors[:, kept]
        return cls(mean, axes.T / root[:, None] / scale, scale[:, None] * axes * root)

    def of(self, x: Array) -> Array:
        """Return samples (samples, channels) as (samples, directions)."""
        return np.ascontiguousarray((x - self.mean) @ self.forward.T)

    def of_weights(self, weights: Array) -> Array:
        """Return weights (directions, sets) for those of channels; the first column is the offset."""
        moved = weights.copy()
        moved[:, 0] -= self.mean
        return np.ascontiguousarray(self.forward @ moved)

    def back_weights(self, weights: Array) -> Array:
        """Return weights of channels for those (directions, sets)."""
        moved = self.back @ weights
        moved[:, 0] += self.mean
        return np.asarray(moved)


def starts(x: Array, n_sources: int, masks: Masks) -> list[Array]:
    """Return sources (sources, samples) to start from, made of components of linear separations.

    Parameters
    ----------
    x : ndarray of shape (samples, directions)
        Whitened channels.
    n_sources : int
    masks : ndarray of shape (sets,)
        Sets of sources as bit masks, the empty set first.

    Returns
    -------
    list of ndarray
    """
    return [
        start
        for pool in _pools(x, n_sources)
        for start in _completed(x, itertools.combinations(pool, n_sources - 1), masks)[:_STARTS]
    ]


def search(x: Array, masks: Masks, begun: list[Array], n_rounds: int = ROUNDS) -> list[End]:
    """Return ends of descents, no two alike, the best ones first.

    Parameters
    ----------
    x : ndarray of shape (samples, directions)
        Whitened channels.
    masks : ndarray of shape (sets,)
        Sets of sources as bit masks, the empty set first.
    begun : list of ndarray of shape (sources, samples)
        What the first descents start from.
    n_rounds : int
        How often the best ends are combined to start from.

    Returns
    -------
    list of End
    """
    descent = Descent(x, masks, len(begun[0]), LAGS)
    tried, ends = begun, [descent.run(start, _SCHEDULE) for start in begun]
    for _ in range(n_rounds):
        best = _elite(ends)
        crossed = _completed(x, _crossed([end.z for end in best]), masks)
        again = _different(crossed, _OFFSPRING, tried)
        born = [descent.run(start, _SCHEDULE) for start in again]
        tried, ends = tried + again, ends + born
        if sum(_are_alike(end.z, best[0].z) for end in born) >= _AGREED:
            break
    return _elite(ends)


def _elite(ends: list[End]) -> list[End]:
    kept: list[End] = []
    for end in sorted(ends, key=lambda end: end.loss):
        if len(kept) < _ELITE and not any(_are_alike(end.z, other.z) for other in kept):
            kept.append(end)
    return kept


def _pools(x: Array, n_sources: int) -> Iterator[Array]:
    """Yield components (components, samples) of linear separations of the channels and their monomials."""
    yield _separated(x, n_sources)
    for degree in _DEGREES:
        if math.comb(x.shape[1] + degree, degree) - 1 > min(_MOST_MONOMIALS, len(x) // 8):
            break
        lifted = _monomials(x, degree)
        if degree == _DEGREES[0]:
            yield _most_predictable(_separated(lifted, lifted.shape[1]))
        yield _most_predictable(_diagonalised(lifted))


def _separated(x: Array, n_sources: int) -> Array:
    learned = structure.learn(x, n_sources)
    return standardised_rows(learned.unmixing @ (x - learned.mean).T)


def _monomials(x: Array, degree: int) -> Array:
    """Return the whitened monomials of the columns up to a degree, (samples, monomials)."""
    columns = [
        np.prod(x[:, list(factors)], axis=1)
        for r in range(1, degree + 1)
        for factors in itertools.combinations_with_replacement(range(x.shape[1]), r)
    ]
    monomials = np.column_stack(columns)
    return Whitening.fitted(monomials, monomials.shape[1]).of(monomials)


def _diagonalised(x: Array) -> Array:
    """Return the components (rows) of white columns that make their lagged covariances diagonal."""
    lagged = np.array([x[k:].T @ x[: len(x) - k] / len(x) for k in range(1, likelihood.LAGS + 1)])
    return standardised_rows(jointly_diagonal(lagged) @ x.T)


def _most_predictable(components: Array) -> Array:
    """Return the rows that follow their last sample best."""
    alike = np.mean(components[:, 1:] * components[:, :-1], axis=1)
    return components[np.argsort(-alike, kind="stable")[:_POOL]]


def _crossed(elite: list[Array]) -> Iterator[tuple[Array, ...]]:
    """Yield all but one source from several descents, no two of them alike."""
    n_sources = len(elite[0])
    rows = [(number, row) for number, z in enumerate(elite) for row in z]
    for chosen in itertools.combinations(rows, n_sources - 1):
        picked = np.array([row for _, row in chosen])
        alike = np.abs(picked @ picked.T / picked.shape[1]) - np.eye(len(picked))
        several = len({number for number, _ in chosen}) > 1 or n_sources == 2
        if several and alike.max() < _RELATED:
            yield tuple(picked)


def _completed(x: Array, combinations: Iterable[tuple[Array, ...]], masks: Masks) -> list[Array]:
    """Return combinations with a last source added; those that explain x best come first."""
    tried = [
        _with_the_last(x, np.array(rows), masks) for rows in itertools.islice(combinations, _CANDIDATES)
    ]
    return [z for _, z in sorted(tried, key=lambda pair: pair[0])]


def _with_the_last(x: Array, z: Array, masks: Masks) -> tuple[float, Array]:
    """Add the source that explains best what the others leave of x; return the rest and all sources."""
    last = len(z)
    with_it = (masks >> last) & 1 == 1
    features = products(z, masks[~with_it])
    rest = x - features @ np.linalg.lstsq(features, x, rcond=None)[0]
    z = standardised_rows(np.vstack([z, np.linalg.svd(rest, full_matrices=False)[0][:, 0]]))
    for _ in range(_ALTERNATIONS):
        weights = fitted_weights(x, z, masks)
        rest = x - products(z, masks[~with_it]) @ weights[:, ~with_it].T
        slope = products(z, masks[with_it] ^ (1 << last)) @ weights[:, with_it].T
        power = np.sum(slope**2, axis=1)
        z[last] = np.sum(slope * rest, axis=1) / (power + 0.1 * power.mean())
        z = standardised_rows(z)
    rest = x - products(z, masks) @ fitted_weights(x, z, masks).T
    return float(np.mean(rest**2)), z


def _different(starts: list[Array], most: int, known: Iterable[Array] = ()) -> list[Array]:
    """Return the first starts of which no two have the same sources, nor the sources of known ones."""
    kept: list[Array] = []
    for z in starts:
        if not any(_are_alike(z, other) for other in itertools.chain(kept, known)):
            kept.append(z)
        if len(kept) == most:
            break
    return kept


def _are_alike(z: Array, other: Array) -> bool:
    """Tell whether each source of the one is among those of the other."""
    return bool((np.abs(z @ other.T) / z.shape[1]).max(axis=1).min() > _ALIKE)
