"""The search for the likeliest sources of a polynomial mixture: rounds of descents from varied ends.

A descent reaches the true sources from far, but only if it starts with all of them at once, each at a
correlation of 0.8 or so. First starts are the sources of a linear mixture, and components of the channels'
monomials (`igbss_stream.model.interactions.starts`). Most ends of descents hold a part of the truth, and
the more of it they hold, the lower is their loss. So in each round, descents start from variations of the
best ends:

* sources taken from several ends;
* an end with one source exchanged for a component;
* an end with something added to its sources: their products, or monomials of the channels.

Of the first two kinds, those that explain the channels best are taken. What is added is drawn by a
generator of a fixed seed: two runs give the same bits.
"""

import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import StepDone, ignore_step, track
from igbss_stream.model import structure
from igbss_stream.model.interactions.descent import (
    LAGS,
    PolynomialDescent,
    PolynomialFit,
    SigmaSchedule,
    compute_products,
    standardise_rows,
)
from igbss_stream.model.interactions.starts import (
    Choice,
    are_alike,
    compute_monomials,
    find_components,
    pick_explaining,
)

Array = NDArray[np.float64]
Masks = NDArray[np.int64]

_BEGUN = (4, 8, 12, 12, 16)  # first starts from the components of each degree, at most
_ROUNDS = 10
_PATIENCE = 3  # rounds without a better end after which the search is done
_GAIN = 0.02  # of the loss that counts as better
_ELITE = 8  # ends whose sources are taken together
_LEADING = 4  # those of them that are varied one by one
_CROSSED, _EXCHANGED = 8, 8  # starts of a round
_SHARES = (0.2, 0.4, 0.6)  # of products, of monomials to degree 3 and of all, in deviations of a source
_IN_A_ROUND = _CROSSED + _EXCHANGED + _LEADING * len(_SHARES)  # starts of it at most
_SCHEDULE = SigmaSchedule(0.3, 0.01, 0.7, 3)


def search(x: Array, n_sources: int, masks: Masks, stretch: slice) -> list[PolynomialFit]:
    """Return ends of descents over a stretch of the samples, no two alike, the best ones first.

    Parameters
    ----------
    x : ndarray of shape (samples, directions)
        Whitened channels. Components of their monomials are those of all samples.
    n_sources : int
    masks : ndarray of shape (sets,)
        Sets of sources as bit masks, the empty set first.
    stretch : slice

    Returns
    -------
    list of End
    """
    monomials = compute_monomials(x)
    begun = [np.ascontiguousarray(_separate_linearly(x, n_sources)[:, stretch])]
    pools = [standardise_rows(find_components(each)[:, stretch]) for each in monomials]
    monomials = [np.ascontiguousarray(each[stretch]) for each in monomials]
    x = x[stretch]
    for pool, most in zip(pools, _BEGUN, strict=False):
        begun += pick_explaining(x, pool, itertools.combinations(range(len(pool)), n_sources), masks, most)
    with track("searching", len(begun) + _ROUNDS * _IN_A_ROUND) as step:
        ends = run_descents(x, masks, begun, _SCHEDULE, step)
        rng = np.random.default_rng(0)
        waited = 0
        for _ in range(_ROUNDS):
            best = ends[0].loss
            varied = _vary_best(x, masks, [end.z for end in ends], monomials, pools, rng)
            ends = _keep_best(ends + run_descents(x, masks, varied, _SCHEDULE, step))
            waited = 0 if ends[0].loss < best - _GAIN else waited + 1
            if waited == _PATIENCE:
                break
    return ends


def run_descents(
    x: Array, masks: Masks, starts: list[Array], schedule: SigmaSchedule, step_done: StepDone = ignore_step
) -> list[PolynomialFit]:
    """Return the ends of descents from sources (sources, samples), no two alike, the best ones first."""
    descent = PolynomialDescent(x, masks, len(starts[0]), LAGS)
    ends = []
    for start in starts:
        ends.append(descent.run(start, schedule))
        step_done()
    return _keep_best(ends)


def _keep_best(ends: list[PolynomialFit]) -> list[PolynomialFit]:
    kept: list[PolynomialFit] = []
    for end in sorted(ends, key=lambda end: end.loss):
        if len(kept) < _ELITE and not any(are_alike(end.z, other.z) for other in kept):
            kept.append(end)
    return kept


def _separate_linearly(x: Array, n_sources: int) -> Array:
    """Return the sources that would be learned from a mixture without products."""
    learned = structure.learn_structure(x, n_sources)
    return standardise_rows(learned.unmixing @ (x - learned.mean).T)


def _vary_best(
    x: Array,
    masks: Masks,
    elite: list[Array],
    monomials: list[Array],
    pools: list[Array],
    rng: np.random.Generator,
) -> list[Array]:
    """Return the starts of a round."""
    n_sources, leading = len(elite[0]), elite[:_LEADING]
    together = np.vstack(elite)
    crossed = pick_explaining(
        x, together, itertools.combinations(range(len(together)), n_sources), masks, _CROSSED
    )
    rows = np.vstack([*leading, *pools])
    exchanged = pick_explaining(
        x, rows, _exchange_rows(len(leading), n_sources, len(rows)), masks, _EXCHANGED
    )
    return [*crossed, *exchanged, *_add_products(leading, monomials, masks, rng)]


def _exchange_rows(n_ends: int, n_sources: int, n_rows: int) -> Iterator[Choice]:
    """Yield the sources of each end, one of them exchanged for a row that follows those of all ends."""
    for first in range(0, n_ends * n_sources, n_sources):
        for i, row in itertools.product(range(n_sources), range(n_ends * n_sources, n_rows)):
            own = list(range(first, first + n_sources))
            own[i] = row
            yield tuple(own)


def _add_products(
    leading: list[Array], monomials: list[Array], masks: Masks, rng: np.random.Generator
) -> list[Array]:
    """Return sources to which products of them, or monomials of the channels, are added at random."""
    starts = []
    for z in leading:
        bases = compute_products(z, masks[1:]), monomials[min(2, len(monomials) - 1)], monomials[-1]
        for basis, share in zip(bases, _SHARES, strict=True):
            drawn = standardise_rows(rng.normal(size=(len(z), basis.shape[1])) @ basis.T)
            starts.append(z + share * drawn)
    return starts
