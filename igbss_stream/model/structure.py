"""Learn a structure: the incidence of sources on channels, with real weights.

With the transform "exp", the model is the linear mixing model, and an incidence that separates can be
learned by maximum likelihood. See `likelihood` for autoregressive sources, `spectra` for Gaussian sources
in sensor noise, `starts` for the starting points, and `selection` for the choice of the result.

Gaps divide the samples into runs. Amplifiers drift and electrodes settle during a gap, so the mean of a
channel differs between runs for reasons unrelated to the sources. The mean of each run is therefore
subtracted. The remainder is a mixture of the centred sources with the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model.selection import WhitenedSignal, select_unmixing

Array = NDArray[np.float64]

_RANK_TOLERANCE = 1e-14  # smallest eigenvalue relative to the largest one
_CENTRED_RANK_TOLERANCE = 1e-10  # likewise after subtraction of means, whose rounding errors are larger
_MIN_RUN = 20  # shorter runs share a mean if most samples are in short runs


@dataclass(frozen=True)
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
    losses : tuple of float
        Negative log-likelihood per sample, up to a constant of the data, before each step of the selected
        descent; empty if the fit of spectra was selected, which needs no descent.
    """

    mixing: Array
    unmixing: Array
    mean: Array
    losses: tuple[float, ...]


def learn_structure(
    x: Array, n_sources: int, previous: Array | None = None, breaks: Sequence[int] = ()
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

    Returns
    -------
    Learned

    Raises
    ------
    InputError
        If the rank of the samples is lower than `n_sources`, as it may be in an excerpt of a recording.
    """
    mean = x.mean(axis=0)
    standard, scale, values, axes = _compute_principal_axes(x, mean, n_sources, breaks)
    root = np.sqrt(values)
    whitening, colouring = axes.T / root[:, None], axes * root
    signal = WhitenedSignal.from_channels(standard, axes, root)
    del standard  # the same size as x
    before = None if previous is None else (previous * scale) @ colouring
    best = select_unmixing(signal, before)
    unmixing = best.unmixing @ whitening / scale
    mixing = scale[:, None] * colouring @ np.linalg.inv(best.unmixing)
    order, sign = _sort_by_variance(mixing) if before is None else _match_sources(best.unmixing, before)
    return LearnedStructure(mixing[:, order] * sign, (unmixing[order].T * sign).T, mean, best.losses)


def _compute_principal_axes(
    x: Array, mean: Array, n_sources: int, breaks: Sequence[int]
) -> tuple[Array, Array, Array, Array]:
    """Return channels of unit variance, (channels, samples), their scales, and the principal axes."""
    scale = x.std(axis=0)
    standard = np.subtract(x.T, mean[:, None], order="C")
    if breaks:
        overall = scale
        subtract_run_means(standard, breaks)
        scale = standard.std(axis=1)
        if np.any(scale**2 <= _CENTRED_RANK_TOLERANCE * overall**2):
            return _compute_principal_axes(x, mean, n_sources, ())
    standard /= scale[:, None]
    values, vectors = np.linalg.eigh(standard @ standard.T / len(x))
    leading = slice(len(scale) - n_sources, None)
    if breaks and values[leading][0] <= _CENTRED_RANK_TOLERANCE * values[-1]:
        return _compute_principal_axes(x, mean, n_sources, ())
    if values[leading][0] <= _RANK_TOLERANCE * values[-1]:
        raise InputError(
            f"the samples from which the structure is learned span fewer than {n_sources} directions. "
            "Lower n_sources."
        )
    return standard, scale, values[leading], vectors[:, leading]


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

    new, old = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (unmixing, before))
    correlations = new @ old.T
    order = linear_sum_assignment(np.abs(correlations).T, maximize=True)[1]
    return order, np.sign(correlations[order, np.arange(len(order))])
