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
from igbss_stream.streaming.model_updates import StreamModel
from igbss_stream.streaming.overlap_add import OverlapAdd
from igbss_stream.streaming.windowing import WindowSplitter


class SampleSeparator:
    """Sources sample by sample; a model gives way to the next over a number of samples.

    Parameters
    ----------
    fade : int
        That number. In it sources are ``old + w (new - old)``, w rising evenly from 0 to 1.
    """

    delay = 0

    def __init__(self, fade: int = 0) -> None:
        self._fade = fade
        self._model: StreamModel | None = None
        self._before: StreamModel | None = None

    def activate(self, model: StreamModel) -> None:
        """Let a model take force from its index on."""
        self._before, self._model = self._model, model

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Return the sources of samples that follow the change of the model."""
        if self._model is None:
            raise RuntimeError("there is no model yet")
        if self._before is None:
            return [self._plain(chunk, self._model)]
        faded = self._model.since + self._fade
        if chunk.stop > faded:
            done = max(0, faded - chunk.start)
            before, after = chunk.data[:done], chunk.data[done:]
            first = [self._blended(Chunk(before, chunk.start), self._before, self._model)] if done else []
            self._before = None
            return [*first, self._plain(Chunk(after, chunk.start + done), self._model)]
        return [self._blended(chunk, self._before, self._model)]

    def flush(self) -> list[Chunk]:
        """Return what is still inside: nothing."""
        return []

    def _plain(self, chunk: Chunk, model: StreamModel) -> Chunk:
        separator = model.separator
        sources = separator.sources(chunk.data, chunk.start)
        return Chunk(sources, chunk.start, model.version, separator.cleaned(chunk.data, sources))

    def _blended(self, chunk: Chunk, before: StreamModel, after: StreamModel) -> Chunk:
        old, new = (self._plain(chunk, model) for model in (before, after))
        passed = np.arange(chunk.start, chunk.stop) - after.since
        share = ((passed + 1.0) / (self._fade + 1.0))[:, None]
        cleaned = new.cleaned
        if old.cleaned is not None and cleaned is not None:
            cleaned = _interpolate(old.cleaned, cleaned, share)
        return Chunk(_interpolate(old.data, new.data, share), chunk.start, after.version, cleaned)


def _interpolate(old: NDArray[Any], new: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
    """Return the way from old to new, by a share for each sample."""
    mean: NDArray[Any] = (old + share * (new.astype(np.float64) - old)).astype(old.dtype)
    return mean


@dataclass(slots=True)
class FitCounts:
    """What the fits of windows took.

    Parameters
    ----------
    fits : int
    iterations : int
    unconverged : int
        Fits that stopped before the gradient was small enough.
    refused : int
        Windows whose samples span more than a fit can hold; least squares gave their sources.
    """

    fits: int = 0
    iterations: int = 0
    unconverged: int = 0
    refused: int = 0


class WindowSeparator:
    """Sources of windows that are fitted, overlapped and added.

    Parameters
    ----------
    length, hop : int
        In samples.
    warm : bool
        Whether a fit starts from the one before, shifted by the hop.

    Attributes
    ----------
    counts : FitCounts
    """

    def __init__(self, length: int, hop: int, *, warm: bool = True) -> None:
        self.counts = FitCounts()
        self.delay = length - 1
        self._windows = WindowSplitter(length, hop)
        self._joined, self._joined_cleaned = OverlapAdd(), OverlapAdd()
        self._warm = warm
        self._model: StreamModel | None = None
        self._last: tuple[int, Separation] | None = None

    def activate(self, model: StreamModel) -> None:
        """Let a model be in force for the windows that are complete from now on."""
        if model.separator.poset.periods > 1:
            raise ParameterError(
                "a structure that changes from sample to sample ('cyclic' with fewer sources than "
                "channels) cannot be fitted in windows that overlap; use 'systematic' or 'random'."
            )
        self._model, self._last = model, None

    def push(self, chunk: Chunk) -> list[Chunk]:
        """Return the sources of samples that no later window will touch."""
        out = []
        for window in self._windows.push(chunk):
            out += self._joined_to(self._fitted(window), window.start + self._windows.hop)
        return out

    def flush(self) -> list[Chunk]:
        """End the stretch, and return the sources of its last samples."""
        out = []
        for window in self._windows.flush():
            out += self._joined_to(self._fitted(window), window.stop)
        out += _attach_cleaned(self._joined.flush(), self._joined_cleaned.flush())
        self._last = None
        return out

    def _joined_to(self, window: Chunk, complete: int) -> list[Chunk]:
        """Add a window of sources, and of cleaned channels where there are any."""
        sources = self._joined.push(window, complete)
        if window.cleaned is None:
            return sources
        cleaned = Chunk(window.cleaned, window.start, window.model_version)
        return _attach_cleaned(sources, self._joined_cleaned.push(cleaned, complete))

    def _fitted(self, window: Chunk) -> Chunk:
        if self._model is None:
            raise RuntimeError("there is no model yet")
        separator, version = self._model.separator, self._model.version
        try:
            separation = separator.window(window.data, window.start, self._start_of(window))
        except InputError:
            self.counts.refused += 1
            self._last = None
            sources = separator.sources(window.data, window.start)
            return Chunk(sources, window.start, version, separator.cleaned(window.data, sources))
        self.counts.fits += 1
        self.counts.iterations += separation.n_iter
        self.counts.unconverged += not separation.converged
        self._last = (window.start, separation)
        sources = separation.sources
        return Chunk(sources, window.start, version, separator.cleaned(window.data, sources))

    def _start_of(self, window: Chunk) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return theta of the window before where they overlap; elsewhere, least squares at its level."""
        if self._model is None or self._last is None or not self._warm:
            return None
        start, separation = self._last
        kept = separation.theta_z[window.start - start :]
        if not 0 < len(kept) <= len(window.data):
            return None
        log_sources = self._model.separator.log_least_squares(window.data)
        log_sources += (kept - log_sources[: len(kept)]).mean(axis=0)
        log_sources[: len(kept)] = kept
        return log_sources, separation.theta_a


def _attach_cleaned(sources: list[Chunk], cleaned: list[Chunk]) -> list[Chunk]:
    """Return sources with the cleaned channels of the same samples, if there are any."""
    if not cleaned:
        return sources
    return [replace(one, cleaned=its.data) for one, its in zip(sources, cleaned, strict=True)]
