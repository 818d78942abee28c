"""Learn a structure: the incidence of sources on channels, with real weights.

With the transform "exp", the model is the linear mixing model, and an incidence that separates can be
learned by maximum likelihood. See `views` for the views of the sources that it is learned from,
`likelihood` for the view of innovations, and `selection` for the choice among the views.

Gaps divide the samples into runs. Amplifiers drift and electrodes settle during a gap, so the mean of a
channel differs between runs for reasons unrelated to the sources. The mean of each run is therefore
subtracted. The remainder is a mixture of the centred sources with the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model.drift import has_drift, remove_drift
from igbss_stream.model.learning import Learning
from igbss_stream.model.principal_axes import PrincipalAxes
from igbss_stream.model.selection import normalise_rows, select_unmixing

Array = NDArray[np.float64]

_RANK_TOLERANCE = 1e-14  # smallest eigenvalue relative to the largest one
_CENTRED_RANK_TOLERANCE = 1e-10  # likewise after subtraction of means, whose rounding errors are larger
_MIN_RUN = 20  # shorter runs share a mean if most samples are in short runs


@dataclass(frozen=True, eq=False)
class LearnedStructure:
    """A learned structure.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
        In the unit of the channels; sources have unit variance. The strongest weight of each source is
        positive. Sources are sorted by explained variance, largest first.
    unmixing : ndarray of shape (sources, channels)
        ``unmixing @ mixing`` is the identity; ``sources = (x - mean) @ unmixing.T``.
    mean : ndarray of shape (channels,)
    learning : Learning
    correlation : ndarray of shape (sources, sources)
        Of the sources in the copy of the channels that the structure was learned from.
    """

    mixing: Array
    unmixing: Array
    mean: Array
    learning: Learning
    correlation: Array


def learn_structure(
    x: Array,
    n_sources: int,
    previous: Array | None = None,
    breaks: Sequence[int] = (),
    *,
    view: float | None = None,
    keep_drift: bool = False,
) -> LearnedStructure:
    """Learn the incidence of sources on channels.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
        Finite values; no channel may be constant.
    n_sources : int
        At most the rank of x.
    previous : ndarray of shape (sources, channels), optional
        Unmixing matrix of an earlier structure. It is the only starting point of the descent, the centre of
        a prior, and the reference for the order and signs of the sources.
    breaks : sequence of int
        Indices of the first rows of runs after gaps, ascending. Sources then have unit variance around the
        mean of each run. If the centred runs span too few directions, the means are not subtracted.
    view : float, optional
        Ridge of the view to learn from, see `igbss_stream.model.selection`; selected by default.
    keep_drift : bool
        Whether to learn from the channels as they are, even if drift dominates them. If drift is removed,
        sources have unit variance without it.

    Returns
    -------
    LearnedStructure

    Raises
    ------
    InputError
        If the rank of the samples is lower than `n_sources`, as it may be in an excerpt of a recording.
    """
    mean = x.mean(axis=0)
    standard, axes = _find_axes(x - mean, n_sources, breaks, keep_drift)
    whitening, colouring = axes.whitening, axes.colouring
    z = np.ascontiguousarray(whitening @ standard)
    del standard  # as large as z
    before = None if previous is None else (previous * axes.scale) @ colouring
    selected = select_unmixing(z, axes, before, view)
    best = selected.fit
    unmixing = best.unmixing @ whitening / axes.scale
    mixing = axes.scale[:, None] * colouring @ np.linalg.inv(best.unmixing)
    order, sign = _sort_by_variance(mixing) if before is None else _match_sources(best.unmixing, before)
    interference = np.maximum(selected.interference, np.finfo(float).tiny)
    learning = Learning(
        best.losses,
        selected.view,
        selected.contradictions,
        -10.0 * np.log10(interference[order]),
        axes.drift_removed,
    )
    rows = normalise_rows(best.unmixing)[order] * sign[:, None]
    return LearnedStructure(
        mixing[:, order] * sign, (unmixing[order].T * sign).T, mean, learning, rows @ rows.T
    )


def _find_axes(
    centred: Array, n_sources: int, breaks: Sequence[int], keep_drift: bool
) -> tuple[Array, PrincipalAxes]:
    """Return a copy of the channels, (channels, samples), without drift and means of runs, and its axes.

    What is removed must not lower the rank below the number of sources: otherwise, less is removed.
    """
    found = None
    if not keep_drift:
        found = _try_axes(centred, n_sources, breaks, removes_drift=True)
    if found is None and breaks:
        found = _try_axes(centred, n_sources, breaks, removes_drift=False)
    if found is None:
        found = _try_axes(centred, n_sources, (), removes_drift=False)
    if found is None:
        raise InputError(
            f"the samples from which the structure is learned span fewer than {n_sources} directions. "
            "Lower n_sources."
        )
    return found


def _try_axes(
    centred: Array, n_sources: int, breaks: Sequence[int], removes_drift: bool
) -> tuple[Array, PrincipalAxes] | None:
    """Return the copy and its axes, or None if it spans too few directions or contains no drift."""
    standard, overall = np.array(centred.T, order="C"), centred.std(axis=0)
    if breaks:
        subtract_run_means(standard, breaks)
    if removes_drift:
        if not has_drift(standard):
            return None
        remove_drift(standard, breaks)
    is_reduced = bool(breaks) or removes_drift
    tolerance = _CENTRED_RANK_TOLERANCE if is_reduced else _RANK_TOLERANCE
    scale = standard.std(axis=1)
    if np.any(scale**2 <= _CENTRED_RANK_TOLERANCE * overall**2):
        return None
    standard /= scale[:, None]
    values, vectors = np.linalg.eigh(standard @ standard.T / len(centred))
    leading = slice(len(scale) - n_sources, None)
    if values[leading][0] <= tolerance * values[-1]:
        return None
    return standard, PrincipalAxes(scale, values[leading], vectors[:, leading], removes_drift)


def subtract_run_means(channels: Array, breaks: Sequence[int]) -> None:
    """Subtract the mean of each run from channels, (channels, samples), in place.

    If most samples are in short runs, consecutive short runs share a mean: the mean of a few samples would
    remove slow sources as well.
    """
    edges = np.array([0, *breaks, channels.shape[1]])
    lengths = np.diff(edges)
    least = 1 if 2 * lengths[lengths >= _MIN_RUN].sum() >= edges[-1] else _MIN_RUN
    start = 0
    for stop in edges[1:].tolist():
        if stop - start >= least or stop == edges[-1]:
            part = channels[:, start:stop]
            part -= part.mean(axis=1, keepdims=True)
            start = stop


def back_project(learned: LearnedStructure) -> LearnedStructure:
    """Rescale each source to its contribution to the channel where it is strongest.

    Sources then have the unit of the channels, and the strongest weight of each source is 1.
    """
    gain = np.take_along_axis(learned.mixing, np.abs(learned.mixing).argmax(axis=0)[None], axis=0)[0]
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def rescale_like(learned: LearnedStructure, mixing: Array) -> LearnedStructure:
    """Rescale sources to the column norms of an earlier mixing matrix.

    The scale of a source is then independent of its power in the samples that it was learned from.
    """
    gain = np.linalg.norm(learned.mixing, axis=0) / np.linalg.norm(mixing, axis=0)
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def _sort_by_variance(mixing: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs: descending explained variance, and a positive strongest weight."""
    order = np.argsort(-np.sum(mixing**2, axis=0), kind="stable")
    strongest = np.abs(mixing).argmax(axis=0)
    return order, np.sign(mixing[strongest, np.arange(mixing.shape[1])])[order]


def _match_sources(unmixing: Array, before: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs that maximise the correlation with earlier sources on the given samples.

    Both matrices apply to white channels, so correlations of sources are cosines between rows.
    """
    from scipy.optimize import linear_sum_assignment  # half a second to import

    correlations = normalise_rows(unmixing) @ normalise_rows(before).T
    order = linear_sum_assignment(np.abs(correlations).T, maximize=True)[1]
    return order, np.sign(correlations[order, np.arange(len(order))])
