"""Starting points of descents: components of polynomials of the channels.

If the inverse of a polynomial mixture is a polynomial, sources are linear in the monomials of the channels,
and they are predictable from their past. The rotation that diagonalises lagged covariances of the monomials
therefore approximates some of the sources. Sources are distinguished from their own products and powers by
the fact that the channels are a low-order polynomial of the sources, but not of other components.
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
Choice = tuple[int, ...]  # indices of rows used as sources

_DEGREES = (2, 3, 4, 5)  # highest degrees of the monomials, in addition to 1
_MAX_MONOMIALS = 60
_MAX_COMPONENTS = 14  # per degree, the most predictable ones
_MAX_CHOICES = 3000
_N_SAMPLES = 1024  # approximate number of samples for ranking choices
_MAX_CORRELATION = 0.9  # between the sources of a starting point
_SAME = 0.98  # correlation from which two sources are considered the same
_RIDGE = 1e-9


def compute_monomials(x: Array) -> list[Array]:
    """Return the whitened monomials of white channels, (samples, directions), for each highest degree.

    Degrees with too many monomials for the number of samples are omitted.
    """
    n_samples, n_directions = x.shape
    most = min(_MAX_MONOMIALS, n_samples // 8)
    fitting = [degree for degree in _DEGREES if math.comb(n_directions + degree, degree) - 1 <= most]
    return [x, *(_whiten_monomials(x, degree) for degree in fitting)]


def find_components(monomials: Array) -> Array:
    """Return the components (rows) of whitened columns with the largest correlation at lag 1."""
    n_samples = len(monomials)
    lagged = np.array(
        [monomials[k:].T @ monomials[: n_samples - k] / n_samples for k in range(1, likelihood.LAGS + 1)]
    )
    rows = standardise_rows(diagonalise_jointly(lagged) @ monomials.T)
    alike = np.mean(rows[:, 1:] * rows[:, :-1], axis=1)
    return rows[np.argsort(-alike, kind="stable")[:_MAX_COMPONENTS]]


def pick_explaining(
    x: Array, rows: Array, choices: Iterable[Choice], masks: Masks, n_max: int
) -> list[Array]:
    """Return the choices of rows whose products best explain x, as sources (sources, samples).

    Equal choices, and choices with two almost equal sources, are omitted.
    """
    alike = _correlate(rows, rows)
    thinned = slice(None, None, max(1, len(x) // _N_SAMPLES))
    few_rows, few_x = np.ascontiguousarray(rows[:, thinned]), x[thinned]
    ranked = sorted(
        (-_compute_explained(few_x, few_rows[list(chosen)], masks), chosen)
        for chosen in itertools.islice(choices, _MAX_CHOICES)
        if all(alike[pair] < _MAX_CORRELATION for pair in itertools.combinations(chosen, 2))
    )
    kept: list[Choice] = []
    for _, chosen in ranked:
        if len(kept) == n_max:
            break
        if not any(_covers(alike[np.ix_(chosen, other)]) for other in kept):
            kept.append(chosen)
    return [rows[list(chosen)] for chosen in kept]


def are_alike(z: Array, other: Array) -> bool:
    """Return whether each source of `z` is among those of `other`."""
    return _covers(_correlate(z, other))


def _correlate(z: Array, other: Array) -> Array:
    return np.asarray(np.abs(z @ other.T) / z.shape[1])


def _covers(correlation: Array) -> bool:
    return bool(correlation.max(axis=1).min() > _SAME)


def _compute_explained(x: Array, z: Array, masks: Masks) -> float:
    """Return the sum of squares of x explained by products of sources."""
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
