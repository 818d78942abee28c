"""Search for the most likely sources of a polynomial mixture, by rounds of descents.

A descent reaches the true sources from a distance, but only if it starts from all of them at once, each
with a correlation of about 0.8. The first starting points are the sources of a linear mixture, and
components of the monomials of the channels (`igbss_stream.model.interactions.starts`). Most results of
descents contain some of the true sources, and the more they contain, the lower is their loss. In each
round, descents therefore start from variations of the best results:

* sources from several results;
* a result with one source replaced by a component;
* a result with products of its sources, or monomials of the channels, added to the sources.

Of the first two kinds, the variations that best explain the channels are used. Random numbers come from a
generator with a fixed seed, so that repeated searches are identical to the bit.
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

_N_FIRST = (4, 8, 12, 12, 16)  # largest number of first starting points, for each degree of components
_MAX_ROUNDS = 10
_PATIENCE = 3  # rounds without improvement after which the search stops
_MIN_GAIN = 0.02  # decrease of the loss that counts as an improvement
_N_BEST = 8  # results whose sources are recombined
_N_VARIED = 4  # best results that are also varied individually
_N_RECOMBINED, _N_EXCHANGED = 8, 8  # starting points per round
_SCALES = (0.2, 0.4, 0.6)  # of added products, monomials up to degree 3, and all monomials; sources have 1
_N_PER_ROUND = _N_RECOMBINED + _N_EXCHANGED + _N_VARIED * len(_SCALES)  # upper bound
_SCHEDULE = SigmaSchedule(0.3, 0.01, 0.7, 3)


def search(x: Array, n_sources: int, masks: Masks, excerpt: slice) -> list[PolynomialFit]:
    """Return the distinct results of descents on an excerpt of the samples, the best first.

    Parameters
    ----------
    x : ndarray of shape (samples, directions)
        Whitened channels. Components of their monomials are computed from all samples.
    n_sources : int
    masks : ndarray of shape (sets,)
        Sets of sources as bit masks, the empty set first.
    excerpt : slice

    Returns
    -------
    list of PolynomialFit
    """
    monomials = compute_monomials(x)
    starts = [np.ascontiguousarray(_separate_linearly(x, n_sources)[:, excerpt])]
    pools = [standardise_rows(find_components(each)[:, excerpt]) for each in monomials]
    monomials = [np.ascontiguousarray(each[excerpt]) for each in monomials]
    x = x[excerpt]
    for pool, n_max in zip(pools, _N_FIRST, strict=False):
        starts += pick_explaining(
            x, pool, itertools.combinations(range(len(pool)), n_sources), masks, n_max
        )
    with track("searching", len(starts) + _MAX_ROUNDS * _N_PER_ROUND) as step:
        fits = run_descents(x, masks, starts, _SCHEDULE, step)
        rng = np.random.default_rng(0)
        n_waited = 0
        for _ in range(_MAX_ROUNDS):
            best = fits[0].loss
            varied = _vary_best(x, masks, [fit.z for fit in fits], monomials, pools, rng)
            fits = _keep_best(fits + run_descents(x, masks, varied, _SCHEDULE, step))
            n_waited = 0 if fits[0].loss < best - _MIN_GAIN else n_waited + 1
            if n_waited == _PATIENCE:
                break
    return fits


def run_descents(
    x: Array, masks: Masks, starts: list[Array], schedule: SigmaSchedule, step_done: StepDone = ignore_step
) -> list[PolynomialFit]:
    """Run descents from sources (sources, samples); return distinct results, the best first."""
    descent = PolynomialDescent(x, masks, len(starts[0]), LAGS)
    fits = []
    for start in starts:
        fits.append(descent.run(start, schedule))
        step_done()
    return _keep_best(fits)


def _keep_best(fits: list[PolynomialFit]) -> list[PolynomialFit]:
    kept: list[PolynomialFit] = []
    for fit in sorted(fits, key=lambda fit: fit.loss):
        if len(kept) < _N_BEST and not any(are_alike(fit.z, other.z) for other in kept):
            kept.append(fit)
    return kept


def _separate_linearly(x: Array, n_sources: int) -> Array:
    """Return the sources learned under the assumption of a mixture without products."""
    learned = structure.learn_structure(x, n_sources)
    return standardise_rows(learned.unmixing @ (x - learned.mean).T)


def _vary_best(
    x: Array,
    masks: Masks,
    best: list[Array],
    monomials: list[Array],
    pools: list[Array],
    rng: np.random.Generator,
) -> list[Array]:
    """Return the starting points of a round."""
    n_sources, leading = len(best[0]), best[:_N_VARIED]
    together = np.vstack(best)
    recombined = pick_explaining(
        x, together, itertools.combinations(range(len(together)), n_sources), masks, _N_RECOMBINED
    )
    rows = np.vstack([*leading, *pools])
    exchanged = pick_explaining(
        x, rows, _exchange_rows(len(leading), n_sources, len(rows)), masks, _N_EXCHANGED
    )
    return [*recombined, *exchanged, *_add_products(leading, monomials, masks, rng)]


def _exchange_rows(n_fits: int, n_sources: int, n_rows: int) -> Iterator[Choice]:
    """Yield the sources of each result with one replaced by a row after those of all results."""
    for first in range(0, n_fits * n_sources, n_sources):
        for i, row in itertools.product(range(n_sources), range(n_fits * n_sources, n_rows)):
            own = list(range(first, first + n_sources))
            own[i] = row
            yield tuple(own)


def _add_products(
    leading: list[Array], monomials: list[Array], masks: Masks, rng: np.random.Generator
) -> list[Array]:
    """Return sources plus random combinations of their products, or of monomials of the channels."""
    starts = []
    for z in leading:
        bases = compute_products(z, masks[1:]), monomials[min(2, len(monomials) - 1)], monomials[-1]
        for basis, scale in zip(bases, _SCALES, strict=True):
            drawn = standardise_rows(rng.normal(size=(len(z), basis.shape[1])) @ basis.T)
            starts.append(z + scale * drawn)
    return starts
