"""A recording in, its sources out: reads, separates and writes block by block.

Memory does not grow with the recording. Where each sample stands alone (closed form) and the transform
needs no state, one pass does: what is wrong with the samples is then found on the way, and the output is
given up. Otherwise a first pass surveys the recording.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from igbss_stream._util.compute_pool import BlockPool, compute_pool, map_in_order
from igbss_stream.batch.channels import Channels, Progress, flat_channels, prepared
from igbss_stream.batch.fits import Fits
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.output_writer import (
    append_samples,
    reserve_samples,
    write_excluded,
    write_gaps,
    write_model,
    write_origin,
)
from igbss_stream.batch.prepare_separator import Start, starting
from igbss_stream.batch.segment_context import Segment
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.batch.windows import cut, planned
from igbss_stream.errors import IgbssWarning, ParameterError
from igbss_stream.files.recording import Recording
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.separation.engine import Separator

DEFAULT_WINDOW = 4096  # samples

_Work = tuple[NDArray[Any], int, NDArray[Any]]
"""Samples, the index of the first, and where their sources go."""


@dataclass(frozen=True)
class Outcome:
    """What a run did.

    Parameters
    ----------
    n_samples, n_channels, n_sources : int
    rate : float or None
        In Hz.
    solver : str
    left_out : tuple of str
        Flat channels that were left out.
    n_windows : int
        Number of windows that were fitted; 0 for the closed form.
    n_failed : int
        Number of those that did not converge.
    taken_out : str, optional
        Which sources were taken out of the channels, and why; None if channels were not cleaned.
    """

    n_samples: int
    n_channels: int
    n_sources: int
    rate: float | None
    solver: str
    left_out: tuple[str, ...] = ()
    n_windows: int = 0
    n_failed: int = 0
    taken_out: str | None = None


def separate_recording(
    recording: Recording,
    output: str | Path,
    settings: BatchSettings,
    *,
    model: KnownModel | None = None,
    segment: Segment | None = None,
    attrs: Mapping[str, str] | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Separate a recording and write its sources.

    Parameters
    ----------
    recording : Recording
    output : path
        File to write; appears when it is complete, and not at all if anything goes wrong.
    settings : BatchSettings
    model : KnownModel, optional
        What separates, in place of the settings' model.
    segment : Segment, optional
        The rows to separate, by a model that is given; all by default. See `igbss_stream.batch.segments`.
    attrs : mapping, optional
        More attributes of the output.
    overwrite : bool
        Whether an output that exists is replaced.
    progress : callable, optional

    Returns
    -------
    Outcome

    Raises
    ------
    IgbssError
        If the recording cannot be read or separated, or the output cannot be written.
    """
    tell = progress or (lambda *_: None)
    with Hdf5Sink(output, overwrite=overwrite, source=recording.path) as sink, compute_pool() as pool:
        flat = _flat(recording, settings, segment, tell)
        left_out = tuple(recording.channels[i] for i in flat)
        recording, keep = prepared(recording, settings.preparation, flat)
        window = _window(settings.window, recording.rate)
        if model is not None:
            keep = keep[model.positions([recording.channels[i] for i in keep], recording.unit)]
        source = Channels(recording, keep, None if segment is None else segment.rows)
        if segment is not None and model is not None:
            start, separator = None, segment.found.separator(model, settings.cleaning)
        else:
            start = starting(source, settings, model, pool)
            separator = start.separator or start.look(source, tell)
        reserve_samples(sink, source, separator, settings.compression)
        if segment is None:
            write_gaps(sink, recording)
        if separator.by_sample:
            fits = None
            on_the_way = start if start is not None and start.separator is not None else None
            _separate_by_sample(source, separator, on_the_way, sink, tell, pool)
        else:
            fits = _separate_by_window(source, separator, window, sink, tell)
        write_model(sink, source.names, recording.unit, separator, settings.preparation)
        write_origin(sink, recording, model if segment is None else None, **(attrs or {}))
        if separator.cleaner is not None:
            write_excluded(sink, separator.cleaner)
            for notice in separator.cleaner.notices:
                warnings.warn(f"{notice}.", IgbssWarning, stacklevel=2)
    return _outcome(source, separator, left_out, fits)


def _flat(
    recording: Recording, settings: BatchSettings, segment: Segment | None, tell: Progress
) -> Sequence[int]:
    """Return the positions of the channels that are left out; a channel that rests in a segment is not."""
    if segment is not None:
        return segment.found.flat
    return flat_channels(recording, tell) if settings.drop_flat else []


def _window(seconds: float | None, rate: float | None) -> int:
    """Return the number of samples that are fitted together, about, where samples do not stand alone."""
    if seconds is None:
        return DEFAULT_WINDOW
    if rate is None:
        raise ParameterError(
            "--window is in seconds, and the recording does not say its rate; pass --rate."
        )
    length = seconds * rate
    if not (math.isfinite(length) and round(length) >= 2):
        raise ParameterError(
            f"--window must be at least 2 samples, {2 / rate:g} s. Got {seconds:g} s instead."
        )
    return round(length)


def _separate_by_sample(
    source: Channels,
    separator: Separator,
    start: Start | None,
    sink: Hdf5Sink,
    tell: Progress,
    pool: ThreadPoolExecutor,
) -> None:
    """Separate block by block; a start surveys the samples on the way, and refuses them at the end."""
    memory = BlockPool(source.block_length, separator.stage.n_sources, source.dtype)

    def good() -> Iterator[_Work]:
        for first, block in source.read_blocks(source.block_length, tell, "separating"):
            own = source.memory.copy(block)  # the next one is read while this one is separated
            if start is not None:
                start.survey.update(own)
            if start is None or start.survey.n_bad == 0:  # else only the count goes on, for the message
                yield own, first, memory.get_rows(len(own))

    def separated(work: _Work) -> tuple[NDArray[Any], NDArray[Any] | None]:
        samples, first, out = work
        sources = separator.separate_samples(samples, first, out)
        return sources, separator.clean_channels(samples, sources)

    for sources, cleaned in map_in_order(pool, separated, good()):
        append_samples(sink, sources, cleaned)
    if start is not None:
        start.prepare(start.survey)


def _separate_by_window(
    source: Channels, separator: Separator, window: int, sink: Hdf5Sink, tell: Progress
) -> Fits:
    """Fit windows of about equal length, one after the other, between one gap and the next."""
    windows = planned(source.n_samples, source.gaps, window, separator.poset.periods)
    length = max(w.n_samples for w in windows)
    fits = Fits(sink, len(windows))
    for w, samples in cut(source.read_blocks(length, tell, "separating"), windows):
        separation = separator.separate_window(samples, w.row, period=w.index)
        cleaned = separator.clean_channels(samples, separation.sources, w.index)
        append_samples(sink, separation.sources, cleaned)
        fits.add(w, separation)
    return fits


def _outcome(
    source: Channels, separator: Separator, left_out: tuple[str, ...], fits: Fits | None
) -> Outcome:
    return Outcome(
        n_samples=source.n_samples,
        n_channels=len(source.names),
        n_sources=separator.stage.n_sources,
        rate=source.recording.rate,
        solver=separator.solver,
        left_out=left_out,
        n_windows=0 if fits is None else fits.n_windows,
        n_failed=0 if fits is None else fits.n_failed,
        taken_out=None if separator.cleaner is None else str(separator.cleaner),
    )
