"""A structure learned from the data: which channels each source reaches, and how strongly.

With transform "exp" the model is the linear mixing model, so an incidence that separates can be learned
by maximum likelihood: see `likelihood` for sources that innovate, `spectra` for sources in sensor noise,
`starts` for where descents begin, and `selection` for which result is taken.

Samples that do not follow each other, as around a gap, come in runs. Amplifiers drift and electrodes settle
while nothing is recorded, so that each run has a level of its own, which no source made: it is taken out.
What is left is the mixture of the sources less their levels, by the same weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError
from igbss_stream.model.selection import WhitenedSignal, select_unmixing

Array = NDArray[np.float64]

_SINGULAR = 1e-14  # eigenvalue, as a share of the largest, that is but rounding
_FAINT = 1e-10  # that of runs less their levels, lest rounding fills what only the levels filled
_SHORT = 20  # samples of a run that has a level of its own however short the others are


@dataclass(frozen=True)
class LearnedStructure:
    """A learned structure.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
        In the unit of the channels: sources have unit variance. The strongest weight of each source is
        positive; sources come by the variance they explain, largest first.
    unmixing : ndarray of shape (sources, channels)
        ``unmixing @ mixing`` is the identity; ``sources = (x - mean) @ unmixing.T``.
    mean : ndarray of shape (channels,)
    losses : tuple of float
        Negative log-likelihood a sample, up to a constant of the data, before each step of the descent that
        won; empty where spectra won, which need no descent.
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
        Finite; no channel constant.
    n_sources : int
        At most the rank of x.
    previous : ndarray of shape (sources, channels), optional
        Unmixing matrix of an earlier structure: the one start of the descent, worth some samples, and what
        order and sign are matched to.
    breaks : sequence of int
        Rows that do not continue the row before them, in their order. Sources then have unit variance about
        the level of each run; but if the runs less their levels span too few directions, levels stay in.

    Returns
    -------
    Learned

    Raises
    ------
    InputError
        If the samples have a lower rank than that, as an excerpt of a recording may.
    """
    mean = x.mean(axis=0)
    standard, scale, values, axes = _compute_principal_axes(x, mean, n_sources, breaks)
    root = np.sqrt(values)
    whitening, colouring = axes.T / root[:, None], axes * root
    signal = WhitenedSignal.from_channels(standard, axes, root)
    del standard  # as large as the samples
    before = None if previous is None else (previous * scale) @ colouring
    best = select_unmixing(signal, before)
    unmixing = best.unmixing @ whitening / scale
    mixing = scale[:, None] * colouring @ np.linalg.inv(best.unmixing)
    order, sign = _sort_by_variance(mixing) if before is None else _match_sources(best.unmixing, before)
    return LearnedStructure(mixing[:, order] * sign, (unmixing[order].T * sign).T, mean, best.losses)


def _compute_principal_axes(
    x: Array, mean: Array, n_sources: int, breaks: Sequence[int]
) -> tuple[Array, Array, Array, Array]:
    """Return channels at unit variance, (channels, samples), their deviations, and the principal axes."""
    scale = x.std(axis=0)
    standard = np.subtract(x.T, mean[:, None], order="C")
    if breaks:
        overall = scale
        subtract_run_means(standard, breaks)
        scale = standard.std(axis=1)
        if np.any(scale**2 <= _FAINT * overall**2):
            return _compute_principal_axes(x, mean, n_sources, ())
    standard /= scale[:, None]
    values, vectors = np.linalg.eigh(standard @ standard.T / len(x))
    leading = slice(len(scale) - n_sources, None)
    if breaks and values[leading][0] <= _FAINT * values[-1]:
        return _compute_principal_axes(x, mean, n_sources, ())
    if values[leading][0] <= _SINGULAR * values[-1]:
        raise InputError(
            f"the samples that a structure is learned from span fewer than {n_sources} directions. "
            "Ask for fewer sources by n_sources."
        )
    return standard, scale, values[leading], vectors[:, leading]


def subtract_run_means(channels: Array, breaks: Sequence[int]) -> None:
    """Subtract from channels (channels, samples) the mean of each run between breaks, in place.

    Where most samples lie in short runs, as many of them share a mean as make up a longer one: means of a
    few samples would take slow sources out as well.
    """
    edges = np.array([0, *breaks, channels.shape[1]])
    lengths = np.diff(edges)
    least = 1 if 2 * lengths[lengths >= _SHORT].sum() >= edges[-1] else _SHORT
    start = 0
    for stop in edges[1:].tolist():
        if stop - start >= least or stop == edges[-1]:
            part = channels[:, start:stop]
            part -= part.mean(axis=1, keepdims=True)
            start = stop


def back_project(learned: LearnedStructure) -> LearnedStructure:
    """Return the same structure with each source as it shows in the channel where it is strongest.

    Sources then have the unit of the channels, and the strongest weight of each is one.
    """
    gain = np.take_along_axis(learned.mixing, np.abs(learned.mixing).argmax(axis=0)[None], axis=0)[0]
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def rescale_like(learned: LearnedStructure, mixing: Array) -> LearnedStructure:
    """Return the same structure with the scale of an earlier one: that of its columns of `mixing`.

    A source is then as large as what it does to the channels, however loud it was when it was learned.
    """
    gain = np.linalg.norm(learned.mixing, axis=0) / np.linalg.norm(mixing, axis=0)
    return replace(learned, mixing=learned.mixing / gain, unmixing=learned.unmixing * gain[:, None])


def _sort_by_variance(mixing: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs: variance explained, and a positive strongest weight."""
    order = np.argsort(-np.sum(mixing**2, axis=0), kind="stable")
    strongest = np.abs(mixing).argmax(axis=0)
    return order, np.sign(mixing[strongest, np.arange(mixing.shape[1])])[order]


def _match_sources(unmixing: Array, before: Array) -> tuple[NDArray[np.int_], Array]:
    """Return order and signs by which sources correlate best with those before, on the samples at hand.

    Both unmix white channels, so that correlations of the sources are cosines of the rows.
    """
    from scipy.optimize import linear_sum_assignment  # half a second to import

    new, old = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (unmixing, before))
    correlations = new @ old.T
    order = linear_sum_assignment(np.abs(correlations).T, maximize=True)[1]
    return order, np.sign(correlations[order, np.arange(len(order))])
