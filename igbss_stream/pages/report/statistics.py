"""Compute all statistics of an output in one pass over its samples, in bounded memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.progress import Progress
from igbss_stream.pages.plotting.columns import Overview
from igbss_stream.pages.plotting.spectrum import SpectrumAverager
from igbss_stream.pages.report.blocks import SampleBlock, iter_blocks
from igbss_stream.pages.report.data import ReportData
from igbss_stream.pages.report.moments import CrossMoments, Moments
from igbss_stream.pages.report.reconstruct import ChannelReconstructor
from igbss_stream.pages.report.reference_channels import ReferenceReader

Array = NDArray[np.float64]

_MAX_COLUMNS = 1500  # of a trace
_MAX_TOTAL_COLUMNS = 96_000  # of all traces together


@dataclass(frozen=True, eq=False)
class ChannelStatistics:
    """Statistics of the channels.

    Parameters
    ----------
    exact : bool
        Whether the channels are those that were separated. Otherwise they are as modelled by the sources.
    variance : ndarray of shape (channels,)
    correlation : ndarray of shape (sources, channels)
    explained : ndarray of shape (sources,)
        Explained variance: the variance of a source in all channels, as a share of the variance of the
        channels.
    after : ndarray of shape (channels,) or None
        Variance after cleaning.
    reference_correlation : ndarray of shape (2, channels, references) or None
        Correlation of each channel, before and after cleaning, with the references before cleaning.
    peak : int
        Row where cleaning removes most.
    """

    exact: bool
    variance: Array
    correlation: Array
    explained: Array
    after: Array | None
    reference_correlation: Array | None
    peak: int


@dataclass(frozen=True, eq=False)
class ReferenceCorrelations:
    """Correlations of the sources with the reference channels.

    Parameters
    ----------
    names : tuple of str
    correlation : ndarray of shape (sources, references)
    """

    names: tuple[str, ...]
    correlation: Array


@dataclass(frozen=True, eq=False)
class SampleStatistics:
    """Statistics of all samples.

    Parameters
    ----------
    overview : Overview
        Traces of the sources.
    frequency : ndarray
        In Hz, or in cycles per sample if the sampling rate is not known.
    density : ndarray of shape (frequencies, sources)
    mean, variance, kurtosis : ndarray of shape (sources,)
    peaks : ndarray of int
        Row where each source is farthest from its median.
    channels : ChannelStatistics or None
        None if sources do not add up to channels.
    references : ReferenceCorrelations
        References that were separated, if the channels are known, and those that were not.
    """

    overview: Overview
    frequency: Array
    density: Array
    mean: Array
    variance: Array
    kurtosis: Array
    peaks: NDArray[np.int64]
    channels: ChannelStatistics | None
    references: ReferenceCorrelations


def collect_statistics(
    data: ReportData, marked: Sequence[int], reader: ReferenceReader, progress: Progress | None = None
) -> SampleStatistics:
    """Read all samples once and compute their statistics.

    Parameters
    ----------
    data : ReportData
    marked : sequence of int
        Indices of the reference channels.
    reader : ReferenceReader
        Reads the reference channels that were not separated.
    progress : callable, optional
        Called with the progress.

    Returns
    -------
    SampleStatistics
    """
    sources = data.sources
    collector = _Collector(data, marked, reader)
    for block in iter_blocks(sources, data.cleaned):
        collector.update(block)
        if progress is not None:
            progress("reading sources", block.row + len(block.sources), sources.n_samples)
    return collector.finish()


class _Collector:
    """Compute the statistics of sources block by block."""

    def __init__(self, data: ReportData, marked: Sequence[int], reader: ReferenceReader) -> None:
        n = data.sources.n_channels
        n_columns = max(100, min(_MAX_COLUMNS, _MAX_TOTAL_COLUMNS // n))
        self._mixing = data.model.mixing
        self._overview = Overview(n, data.n_indices, n_columns)
        self._spectra = SpectrumAverager(n, data.sources.rate)
        self._moments = Moments(n)
        self._peaks = _PeakFinder(n)
        possible = ChannelReconstructor.is_possible(data)
        self._channels = _ChannelCollector(data, n, marked) if possible else None
        self._marked = {i: data.model.channels[i] for i in marked}
        self._reader, n_extra = reader, len(reader.names)
        self._extra_moments, self._extra_cross_moments = Moments(n_extra), CrossMoments(n, n_extra)

    def update(self, block: SampleBlock) -> None:
        """Add samples."""
        x = block.sources.astype(np.float64)
        self._overview.update(block.index, x)
        if block.after_gap:
            self._spectra.end_run()
        self._spectra.update(x)
        self._moments.update(x)
        self._peaks.update(block.row, x)
        extra = self._reader.read(len(x))
        self._extra_moments.update(extra)
        self._extra_cross_moments.update(x, extra)
        if self._channels is not None:
            self._channels.update(block, x)

    def finish(self) -> SampleStatistics:
        """Return the statistics."""
        frequency, density = self._spectra.finish()
        moments = self._moments
        channels = None if self._channels is None else self._channels.finish(moments.variance, self._mixing)
        return SampleStatistics(
            overview=self._overview,
            frequency=frequency,
            density=density,
            mean=moments.mean,
            variance=moments.variance,
            kurtosis=moments.kurtosis,
            peaks=self._peaks.rows,
            channels=channels,
            references=self._correlate_references(channels),
        )

    def _correlate_references(self, channels: ChannelStatistics | None) -> ReferenceCorrelations:
        extra = self._extra_cross_moments.compute_correlation(
            self._moments.variance, self._extra_moments.variance
        )
        if channels is None:
            return ReferenceCorrelations(self._reader.names, extra)
        among = channels.correlation[:, list(self._marked)]
        return ReferenceCorrelations(
            (*self._marked.values(), *self._reader.names), np.hstack([among, extra])
        )


class _PeakFinder:
    """Find the row where each trace is farthest from its median over the first block."""

    def __init__(self, n_traces: int) -> None:
        self.rows = np.zeros(n_traces, np.int64)
        self.size = np.full(n_traces, -1.0)
        self._median: Array | None = None

    def update(self, row: int, x: Array) -> None:
        """Add samples, an array of shape (samples, traces)."""
        if self._median is None:
            self._median = np.median(x, axis=0)
        away = np.abs(x - self._median)
        at = away.argmax(axis=0)
        size = away[at, np.arange(x.shape[1])]
        larger = size > self.size
        self.rows[larger], self.size[larger] = row + at[larger], size[larger]


class _ChannelCollector:
    """Compute the statistics of channels block by block."""

    def __init__(self, data: ReportData, n_sources: int, marked: Sequence[int]) -> None:
        n = len(data.model.channels)
        self._reconstructor = ChannelReconstructor(data)
        self._cleaned = data.cleaned is not None
        self._before, self._after = Moments(n), Moments(n)
        self._with_sources = CrossMoments(n_sources, n)
        self._marked = list(marked)
        self._with_references = [CrossMoments(n, len(marked)) for _ in ("before", "after")]
        self._peak = _PeakFinder(1)

    def update(self, block: SampleBlock, sources: Array) -> None:
        """Add samples."""
        before = self._reconstructor.compute_before(block)
        self._before.update(before)
        self._with_sources.update(sources, before)
        if block.cleaned is not None:
            after = block.cleaned.astype(np.float64)
            self._after.update(after)
            for channels, cross_moments in zip((before, after), self._with_references, strict=True):
                cross_moments.update(channels, before[:, self._marked])
            self._peak.update(block.row, np.abs(before - after).sum(axis=1, keepdims=True))

    def finish(self, source_variance: Array, mixing: Array) -> ChannelStatistics:
        """Return the statistics.

        Parameters
        ----------
        of_sources : ndarray of shape (sources,)
            Variances of the sources.
        mixing : ndarray
        """
        variance = self._before.variance
        weights = (mixing if mixing.ndim == 3 else mixing[None])[:, :, : len(source_variance)]
        power = source_variance * (weights**2).sum(axis=1).mean(axis=0)
        total = float(variance.sum())
        after = self._after.variance if self._cleaned else None
        return ChannelStatistics(
            exact=self._reconstructor.exact,
            variance=variance,
            correlation=self._with_sources.compute_correlation(source_variance, variance),
            explained=power / total if total > 0 else np.full_like(power, np.nan),
            after=after,
            reference_correlation=None
            if after is None
            else self._correlate_with_references(variance, after),
            peak=int(self._peak.rows[0]),
        )

    def _correlate_with_references(self, before: Array, after: Array) -> Array:
        marked = before[self._marked]
        pairs = zip(self._with_references, (before, after), strict=True)
        return np.array([moments.compute_correlation(variance, marked) for moments, variance in pairs])
