"""Separate a stream sample by sample or by overlapping windows, with models that change.

`SampleSeparator` separates each sample independently, without delay. `WindowSeparator` fits the samples of
overlapping windows together and starts each fit from the previous one.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.result import Separation
from igbss_stream.streaming.stream_model import StreamModel
from igbss_stream.streaming.windowing import OverlapAdd, WindowSplitter


class SampleSeparator:
    """Separate sample by sample; cross-fade from one model to the next.

    Parameters
    ----------
    fade : int
        Number of samples of a cross-fade. In it, sources are ``old + w (new - old)``, with w rising
        linearly from 0 to 1.
    """

    delay = 0

    def __init__(self, fade: int = 0) -> None:
        self._fade = fade
        self._model: StreamModel | None = None
        self._previous: StreamModel | None = None

    def activate(self, model: StreamModel) -> None:
        """Use a model from its index `since` on."""
        self._previous, self._model = self._model, model

    def choose(self, sources: tuple[int, ...] | None) -> None:
        """Remove other sources from the channels from the next sample on, see `StreamModel.choose`."""
        self._previous, self._model = (
            None if model is None else model.choose(sources) for model in (self._previous, self._model)
        )

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Return the sources of a chunk; none of its samples is before the active model."""
        if self._model is None:
            raise RuntimeError("there is no model yet")
        if self._previous is None:
            return [_separate_samples(chunk, self._model)]
        fade_stop = self._model.since + self._fade
        if chunk.stop <= fade_stop:
            return [self._cross_fade(chunk, self._previous, self._model)]
        n_faded = max(0, fade_stop - chunk.start)
        out = []
        if n_faded:
            faded = Chunk(chunk.data[:n_faded], chunk.start)
            out.append(self._cross_fade(faded, self._previous, self._model))
        self._previous = None
        rest = Chunk(chunk.data[n_faded:], chunk.start + n_faded)
        return [*out, _separate_samples(rest, self._model)]

    def flush(self) -> list[Chunk]:
        """Return the remaining sources: none."""
        return []

    def _cross_fade(self, chunk: Chunk, before: StreamModel, after: StreamModel) -> Chunk:
        old, new = (_separate_samples(chunk, model) for model in (before, after))
        n_elapsed = np.arange(chunk.start, chunk.stop) - after.since
        weight = ((n_elapsed + 1.0) / (self._fade + 1.0))[:, None]
        cleaned = new.cleaned
        if old.cleaned is not None and cleaned is not None:
            cleaned = _interpolate(old.cleaned, cleaned, weight)
        return Chunk(_interpolate(old.data, new.data, weight), chunk.start, after.version, cleaned)


def _separate_samples(chunk: Chunk, model: StreamModel) -> Chunk:
    sources = model.separator.separate_samples(chunk.data, chunk.start)
    return Chunk(sources, chunk.start, model.version, _clean_channels(chunk, sources, model))


def _clean_channels(chunk: Chunk, sources: NDArray[Any], model: StreamModel) -> NDArray[Any] | None:
    """Return the channels without the removed sources; None if no cleaned channels are computed."""
    return None if model.cleaner is None else model.cleaner.clean(chunk.data, sources)


def _interpolate(old: NDArray[Any], new: NDArray[Any], weight: NDArray[Any]) -> NDArray[Any]:
    """Return ``old + weight (new - old)`` in the dtype of `old`, with a weight for each sample."""
    mean: NDArray[Any] = (old + weight * (new.astype(np.float64) - old)).astype(old.dtype)
    return mean


@dataclass(slots=True)
class FitCounts:
    """Counts of the fits of windows.

    Parameters
    ----------
    fits : int
    iterations : int
    unconverged : int
        Fits that stopped before the gradient was small enough.
    refused : int
        Windows whose range of values is too large for a fit; least squares gave their sources.
    """

    fits: int = 0
    iterations: int = 0
    unconverged: int = 0
    refused: int = 0


class WindowSeparator:
    """Fit overlapping windows, and overlap-add their sources.

    Parameters
    ----------
    length, hop : int
        In samples.
    warm : bool
        Whether a fit starts from the previous one, shifted by the hop (warm start).

    Attributes
    ----------
    counts : FitCounts
    """

    def __init__(self, length: int, hop: int, *, warm: bool = True) -> None:
        self.counts = FitCounts()
        self.delay = length - 1
        self._windows = WindowSplitter(length, hop)
        self._sources, self._cleaned = OverlapAdd(), OverlapAdd()
        self._warm = warm
        self._model: StreamModel | None = None
        self._last: tuple[int, Separation] | None = None

    def activate(self, model: StreamModel) -> None:
        """Use a model for the windows that are completed from now on."""
        if model.separator.poset.periods > 1:
            raise ParameterError(
                "a structure that changes from sample to sample ('cyclic' with fewer sources than "
                "channels) cannot be fitted in windows that overlap; use 'systematic' or 'random'."
            )
        self._model, self._last = model, None

    def choose(self, sources: tuple[int, ...] | None) -> None:
        """Remove other sources from the channels of later windows, see `StreamModel.choose`."""
        self._model = None if self._model is None else self._model.choose(sources)

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Return the sources of samples that no later window overlaps."""
        out = []
        for window in self._windows.push(chunk):
            out += self._overlap_add(self._fit(window), window.start + self._windows.hop)
        return out

    def flush(self) -> list[Chunk]:
        """End the run, and return the sources of its last samples."""
        out = []
        for window in self._windows.flush():
            out += self._overlap_add(self._fit(window), window.stop)
        out += _attach_cleaned(self._sources.flush(), self._cleaned.flush())
        self._last = None
        return out

    def _overlap_add(self, window: Chunk, complete: int) -> list[Chunk]:
        """Add a window of sources, and of cleaned channels if there are any."""
        sources = self._sources.push(window, complete)
        if window.cleaned is None:
            return sources
        cleaned = Chunk(window.cleaned, window.start, window.model_version)
        return _attach_cleaned(sources, self._cleaned.push(cleaned, complete))

    def _fit(self, window: Chunk) -> Chunk:
        if self._model is None:
            raise RuntimeError("there is no model yet")
        separator, version = self._model.separator, self._model.version
        try:
            separation = separator.separate_window(
                window.data, window.start, self._get_initial_values(window)
            )
        except InputError:
            self.counts.refused += 1
            self._last = None
            return _separate_samples(window, self._model)
        self.counts.fits += 1
        self.counts.iterations += separation.n_iter
        self.counts.unconverged += not separation.converged
        self._last = (window.start, separation)
        sources = separation.sources
        return Chunk(sources, window.start, version, _clean_channels(window, sources, self._model))

    def _get_initial_values(self, window: Chunk) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return theta of the previous window where they overlap, else least squares at its level."""
        if self._model is None or self._last is None or not self._warm:
            return None
        start, separation = self._last
        known = separation.theta_z[window.start - start :]
        if not 0 < len(known) <= len(window.data):
            return None
        log_sources = self._model.separator.estimate_log_sources(window.data)
        log_sources += (known - log_sources[: len(known)]).mean(axis=0)
        log_sources[: len(known)] = known
        return log_sources, separation.theta_a


def _attach_cleaned(sources: list[Chunk], cleaned: list[Chunk]) -> list[Chunk]:
    """Return sources with the cleaned channels of the same samples, if there are any."""
    if not cleaned:
        return sources
    return [replace(chunk, cleaned=other.data) for chunk, other in zip(sources, cleaned, strict=True)]
