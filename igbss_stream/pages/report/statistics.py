"""The one pass over all samples of an output, in bounded memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import Progress
from igbss_stream.pages.plotting.spectrum import GrowingSpectra
from igbss_stream.pages.report.blocks import Piece, pieces
from igbss_stream.pages.report.contents import Contents
from igbss_stream.pages.report.moments import CrossMoments, Moments
from igbss_stream.pages.report.overview import Overview
from igbss_stream.pages.report.reconstruct import Rebuilt
from igbss_stream.pages.report.reference_channels import Aside

Array = NDArray[np.float64]

_COLUMNS = 1500  # of a trace; fewer where there are many
_MOST_COLUMNS = 96_000  # of all traces together


@dataclass(frozen=True, eq=False)
class OfChannels:
    """What was found of the channels.

    Parameters
    ----------
    exact : bool
        Whether they are those that were separated; otherwise as the model has them.
    variance : ndarray of shape (channels,)
    correlation : ndarray of shape (sources, channels)
    explained : ndarray of shape (sources,)
        Variance that a source alone makes in all channels, as a share of theirs.
    after : ndarray of shape (channels,) or None
        Variance after cleaning.
    likeness : ndarray of shape (2, channels, references) or None
        Correlation of each channel, before and after cleaning, with the references before.
    peak : int
        Row where cleaning takes off most.
    """

    exact: bool
    variance: Array
    correlation: Array
    explained: Array
    after: Array | None
    likeness: Array | None
    peak: int


@dataclass(frozen=True, eq=False)
class References:
    """Channels that sources are compared with.

    Parameters
    ----------
    names : tuple of str
    correlation : ndarray of shape (sources, references)
    """

    names: tuple[str, ...]
    correlation: Array


@dataclass(frozen=True, eq=False)
class Look:
    """What was found in the samples.

    Parameters
    ----------
    overview : Overview
        Of the sources.
    frequency : ndarray
        In Hz, or in cycles a sample if no rate is known.
    density : ndarray of shape (frequencies, sources)
    mean, variance, kurtosis : ndarray of shape (sources,)
    peaks : ndarray of int
        Row where each source is farthest from its middle.
    channels : OfChannels or None
        None where sources do not add up to the channels.
    references : References
        Those that were separated, as far as channels are known, and those that were not.
    """

    overview: Overview
    frequency: Array
    density: Array
    mean: Array
    variance: Array
    kurtosis: Array
    peaks: NDArray[np.int64]
    channels: OfChannels | None
    references: References


def look(contents: Contents, marked: Sequence[int], aside: Aside, tell: Progress | None = None) -> Look:
    """Look through all samples once.

    Parameters
    ----------
    contents : Contents
    marked : sequence of int
        Reference channels.
    aside : Aside
        More of them, which were not separated.
    tell : callable, optional
        Told how far it is.

    Returns
    -------
    Look
    """
    sources = contents.sources
    looking = _Looking(contents, marked, aside)
    for piece in pieces(sources, contents.cleaned):
        looking.take(piece)
        if tell is not None:
            tell("reading sources", piece.row + len(piece.sources), sources.n_samples)
    return looking.finish()


class _Looking:
    def __init__(self, contents: Contents, marked: Sequence[int], aside: Aside) -> None:
        n = contents.sources.n_channels
        n_columns = max(100, min(_COLUMNS, _MOST_COLUMNS // n))
        self._mixing = contents.model.mixing
        self._overview = Overview(n, contents.n_indices, n_columns)
        self._spectra = GrowingSpectra(n, contents.sources.rate)
        self._moments = Moments(n)
        self._peaks = _Peaks(n)
        possible = Rebuilt.is_possible(contents)
        self._channels = _Channels(contents, n, marked) if possible else None
        self._marked = {i: contents.model.channels[i] for i in marked}
        self._aside, n_aside = aside, len(aside.names)
        self._beside, self._shared = Moments(n_aside), CrossMoments(n, n_aside)

    def take(self, piece: Piece) -> None:
        """Take in samples."""
        x = piece.sources.astype(np.float64)
        self._overview.update(piece.index, x)
        if piece.after_gap:
            self._spectra.cut()
        self._spectra.update(x)
        self._moments.update(x)
        self._peaks.update(piece.row, x)
        beside = self._aside.take(len(x))
        self._beside.update(beside)
        self._shared.update(x, beside)
        if self._channels is not None:
            self._channels.take(piece, x)

    def finish(self) -> Look:
        """Return what was found."""
        frequency, density = self._spectra.finish()
        moments = self._moments
        channels = None if self._channels is None else self._channels.finish(moments.variance, self._mixing)
        return Look(
            overview=self._overview,
            frequency=frequency,
            density=density,
            mean=moments.mean,
            variance=moments.variance,
            kurtosis=moments.kurtosis,
            peaks=self._peaks.rows,
            channels=channels,
            references=self._references(channels),
        )

    def _references(self, channels: OfChannels | None) -> References:
        beside = self._shared.correlation(self._moments.variance, self._beside.variance)
        if channels is None:
            return References(self._aside.names, beside)
        among = channels.correlation[:, list(self._marked)]
        return References((*self._marked.values(), *self._aside.names), np.hstack([among, beside]))


class _Peaks:
    """Finds the row where each trace is farthest from where it begins."""

    def __init__(self, n_traces: int) -> None:
        self.rows = np.zeros(n_traces, np.int64)
        self.size = np.full(n_traces, -1.0)
        self._middle: Array | None = None

    def update(self, row: int, x: Array) -> None:
        """Take in samples, (samples, traces)."""
        if self._middle is None:
            self._middle = np.median(x, axis=0)
        away = np.abs(x - self._middle)
        at = away.argmax(axis=0)
        size = away[at, np.arange(x.shape[1])]
        larger = size > self.size
        self.rows[larger], self.size[larger] = row + at[larger], size[larger]


class _Channels:
    def __init__(self, contents: Contents, n_sources: int, marked: Sequence[int]) -> None:
        n = len(contents.model.channels)
        self._rebuilt = Rebuilt(contents)
        self._cleaned = contents.cleaned is not None
        self._before, self._after = Moments(n), Moments(n)
        self._with_sources = CrossMoments(n_sources, n)
        self._marked = list(marked)
        self._likeness = [CrossMoments(n, len(marked)) for _ in ("before", "after")]
        self._peak = _Peaks(1)

    def take(self, piece: Piece, sources: Array) -> None:
        """Take in samples."""
        before = self._rebuilt.before(piece)
        self._before.update(before)
        self._with_sources.update(sources, before)
        if piece.cleaned is not None:
            after = piece.cleaned.astype(np.float64)
            self._after.update(after)
            for channels, likeness in zip((before, after), self._likeness, strict=True):
                likeness.update(channels, before[:, self._marked])
            self._peak.update(piece.row, np.abs(before - after).sum(axis=1, keepdims=True))

    def finish(self, of_sources: Array, mixing: Array) -> OfChannels:
        """Return what was found.

        Parameters
        ----------
        of_sources : ndarray of shape (sources,)
            Their variances.
        mixing : ndarray
        """
        variance = self._before.variance
        weights = (mixing if mixing.ndim == 3 else mixing[None])[:, :, : len(of_sources)]
        power = of_sources * (weights**2).sum(axis=1).mean(axis=0)
        total = float(variance.sum())
        after = self._after.variance if self._cleaned else None
        return OfChannels(
            exact=self._rebuilt.exact,
            variance=variance,
            correlation=self._with_sources.correlation(of_sources, variance),
            explained=power / total if total > 0 else np.full_like(power, np.nan),
            after=after,
            likeness=None if after is None else self._likenesses(variance, after),
            peak=int(self._peak.rows[0]),
        )

    def _likenesses(self, before: Array, after: Array) -> Array:
        marked = before[self._marked]
        pairs = zip(self._likeness, (before, after), strict=True)
        return np.array([likeness.correlation(variance, marked) for likeness, variance in pairs])
