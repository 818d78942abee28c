"""Components of polynomials of the channels, and which of them explain the channels together.

As far as a polynomial mixture can be inverted by a polynomial, sources are linear in the monomials of the
channels, and predictable as they are from their past. So the rotation that makes lagged covariances of the
monomials diagonal comes close to some of them. What tells them from their own products and powers is that
the channels are a short polynomial of the sources, but not of other components.
"""

import itertools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model import likelihood
from igbss_stream.model.interactions.descent import compute_products, standardise_rows
from igbss_stream.model.interactions.whitening import Whitening
from igbss_stream.model.starts import diagonalise_jointly

Array = NDArray[np.float64]
Masks = NDArray[np.int64]
Choice = tuple[int, ...]  # rows that are taken for sources

_DEGREES = (2, 3, 4, 5)  # of the monomials, beside 1
_MOST_MONOMIALS = 60
_POOL = 14  # components of a degree, the most predictable ones
_CANDIDATES = 3000  # choices looked at
_SAMPLES = 1024  # by which choices are ranked, about
_RELATED = 0.9  # correlation at which two sources are too close to start from both
_ALIKE = 0.98  # and at which they count as one
_RIDGE = 1e-9


def compute_monomials(x: Array) -> list[Array]:
    """Return the whitened monomials of white channels (samples, directions), an array a highest degree.

    Degrees with too many monomials for the samples are left out.
    """
    n_samples, n_directions = x.shape
    most = min(_MOST_MONOMIALS, n_samples // 8)
    fitting = [degree for degree in _DEGREES if math.comb(n_directions + degree, degree) - 1 <= most]
    return [x, *(_whiten_monomials(x, degree) for degree in fitting)]


def find_components(monomials: Array) -> Array:
    """Return the components (rows) of whitened columns that follow their last sample best."""
    n_samples = len(monomials)
    lagged = np.array(
        [monomials[k:].T @ monomials[: n_samples - k] / n_samples for k in range(1, likelihood.LAGS + 1)]
    )
    rows = standardise_rows(diagonalise_jointly(lagged) @ monomials.T)
    alike = np.mean(rows[:, 1:] * rows[:, :-1], axis=1)
    return rows[np.argsort(-alike, kind="stable")[:_POOL]]


def pick_explaining(
    x: Array, rows: Array, choices: Iterable[Choice], masks: Masks, most: int
) -> list[Array]:
    """Return the choices of rows whose products make up x best, as sources (sources, samples).

    No two of them are alike, and none has two sources that are almost one.
    """
    alike = _correlate(rows, rows)
    thinned = slice(None, None, max(1, len(x) // _SAMPLES))
    few_rows, few_x = np.ascontiguousarray(rows[:, thinned]), x[thinned]
    ranked = sorted(
        (-_compute_explained(few_x, few_rows[list(chosen)], masks), chosen)
        for chosen in itertools.islice(choices, _CANDIDATES)
        if all(alike[pair] < _RELATED for pair in itertools.combinations(chosen, 2))
    )
    kept: list[Choice] = []
    for _, chosen in ranked:
        if len(kept) == most:
            break
        if not any(_covers(alike[np.ix_(chosen, other)]) for other in kept):
            kept.append(chosen)
    return [rows[list(chosen)] for chosen in kept]


def are_alike(z: Array, other: Array) -> bool:
    """Tell whether each source of the one is among those of the other."""
    return _covers(_correlate(z, other))


def _correlate(z: Array, other: Array) -> Array:
    return np.asarray(np.abs(z @ other.T) / z.shape[1])


def _covers(correlation: Array) -> bool:
    return bool(correlation.max(axis=1).min() > _ALIKE)


def _compute_explained(x: Array, z: Array, masks: Masks) -> float:
    """Return the square of x that products of sources explain."""
    features = compute_products(z, masks)
    gram, cross = features.T @ features, features.T @ x
    gram[np.diag_indices(len(gram))] += _RIDGE * len(x)
    return float(np.vdot(cross, np.linalg.solve(gram, cross)))


def _whiten_monomials(x: Array, degree: int) -> Array:
    """Return the whitened monomials of the columns up to a degree, (samples, monomials)."""
    columns = [
        np.prod(x[:, list(factors)], axis=1)
        for r in range(1, degree + 1)
        for factors in itertools.combinations_with_replacement(range(x.shape[1]), r)
    ]
    monomials = np.column_stack(columns)
    return Whitening.fit(monomials, monomials.shape[1]).apply(monomials)
