"""Read, separate and write a recording block by block.

Memory is bounded, see `Channels.keep_samples`. If samples are separated independently (closed form) and the
transform needs no state, one pass suffices: faults of the samples are then found on the way, and the output
is discarded. Otherwise a first pass surveys the recording; samples that are costly to read are kept.
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
from igbss_stream.batch.channels import Channels, Progress, choose_channels, find_left_out
from igbss_stream.batch.fits import FitWriter
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.output_writer import (
    NamesLeftOut,
    append_samples,
    name_left_out,
    reserve_samples,
    write_events,
    write_gaps,
    write_left_out,
    write_origin,
    write_positions,
)
from igbss_stream.batch.prepare_separator import PlannedSeparation, prepare_separator
from igbss_stream.batch.segment_context import Segment
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.batch.windows import cut_windows, plan_windows
from igbss_stream.errors import IgbssWarning, ParameterError, printable
from igbss_stream.files.bad_rows import count_rows
from igbss_stream.files.recording import Recording
from igbss_stream.files.writers.hdf5_output import Hdf5Sink
from igbss_stream.files.writers.model_file import write_excluded, write_model
from igbss_stream.separation.engine import Separator

DEFAULT_WINDOW = 4096  # samples

_Work = tuple[NDArray[Any], int, NDArray[Any]]
"""Samples, the index of the first one, and the array for their sources."""


@dataclass(frozen=True)
class Outcome:
    """Facts of a completed separation.

    Parameters
    ----------
    n_samples, n_channels, n_sources : int
    rate : float or None
        Sampling rate in Hz.
    solver : str
    flat, bad : tuple of str
        Channels that were left out because they are flat, and because the file marks them as bad.
    n_windows : int
        Number of fitted windows; 0 for the closed form.
    n_failed : int
        Number of windows that did not converge.
    taken_out : str, optional
        Sources that were removed from the channels, and why; None without cleaning.
    learning : str, optional
        How the structure was learned, and how reliable it is; None unless it was learned.
    n_bad_samples : int
        Number of samples that nothing was learned from because the file marks them as bad.
    """

    n_samples: int
    n_channels: int
    n_sources: int
    rate: float | None
    solver: str
    flat: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    n_windows: int = 0
    n_failed: int = 0
    taken_out: str | None = None
    learning: str | None = None
    n_bad_samples: int = 0

    @property
    def exclusions(self) -> list[str]:
        """What was left out because the file marks it as bad, as phrases."""
        phrases = [f"left out as bad: {', '.join(map(printable, self.bad))}"] if self.bad else []
        if self.n_bad_samples:
            n = self.n_bad_samples
            length = f"{n / self.rate:.1f} s" if self.rate else f"{n} samples"
            phrases.append(f"not learned from {length} marked as bad")
        return phrases


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
        File to write. It appears when it is complete, and not at all after an error.
    settings : BatchSettings
    model : KnownModel, optional
        Model to use instead of the model of the settings.
    segment : Segment, optional
        Rows to separate by `model`; all rows by default. See `igbss_stream.batch.segments`.
    attrs : mapping, optional
        Further attributes of the output.
    overwrite : bool
        Whether an existing output is replaced.
    progress : callable, optional

    Returns
    -------
    Outcome

    Raises
    ------
    IgbssError
        If the recording cannot be read or separated, or the output cannot be written.
    """
    report = progress or (lambda *_: None)
    with Hdf5Sink(output, overwrite=overwrite, source=recording.path) as sink, compute_pool() as pool:
        left_out = find_left_out(recording, settings, report) if segment is None else segment.found.left_out
        named = name_left_out(recording, left_out)
        source = choose_channels(
            recording, settings, left_out, model, None if segment is None else segment.rows
        )
        stored, recording = recording, source.recording
        window = _get_window_length(settings.window, recording.rate)
        if segment is not None and model is not None:
            start, separator = None, segment.found.separator(model, settings.cleaning)
        else:
            start = prepare_separator(source, settings, model, pool)
            if start.separator is None:
                source.keep_samples()
            separator = start.separator or start.look(source, report)
        reserve_samples(sink, source, separator, settings.compression)
        if segment is None:
            write_gaps(sink, recording)
            write_events(sink, recording)
            write_positions(sink, stored, source.cleaned_names)
        if separator.by_sample:
            fits = None
            on_the_way = start if start is not None and start.separator is not None else None
            _separate_by_sample(source, separator, on_the_way, sink, report, pool)
        else:
            fits = _separate_by_window(source, separator, window, sink, report)
        write_model(sink, source.names, recording.unit, separator, settings.preparation.to_json())
        write_origin(sink, recording, model if segment is None else None, **(attrs or {}))
        excluded = () if start is None else start.excluded
        write_left_out(sink, named, excluded, interpolated=source.interpolation is not None)
        if separator.cleaner is not None:
            write_excluded(sink, separator.cleaner)
            for notice in separator.cleaner.notices:
                warnings.warn(f"{notice}.", IgbssWarning, stacklevel=2)
    return _make_outcome(source, separator, named, excluded, fits)


def _get_window_length(seconds: float | None, rate: float | None) -> int:
    """Return the approximate window length in samples, for solvers that fit windows."""
    if seconds is None:
        return DEFAULT_WINDOW
    if rate is None:
        raise ParameterError("--window is in seconds, but the recording has no sampling rate; pass --rate.")
    length = seconds * rate
    if not (math.isfinite(length) and round(length) >= 2):
        raise ParameterError(
            f"--window must be at least 2 samples, {2 / rate:g} s. Got {seconds:g} s instead."
        )
    return round(length)


def _separate_by_sample(
    source: Channels,
    separator: Separator,
    start: PlannedSeparation | None,
    sink: Hdf5Sink,
    progress: Progress,
    pool: ThreadPoolExecutor,
) -> None:
    """Separate block by block; a start surveys the samples on the way, and refuses them at the end."""
    memory = BlockPool(source.block_length, separator.stage.n_sources, source.dtype)

    def good() -> Iterator[_Work]:
        for first, block in source.read_lasting_blocks(progress, "separating"):
            if start is not None:
                start.survey.update(block)
            if start is None or start.survey.n_bad == 0:  # else only count
                yield block, first, memory.get_rows(len(block))

    def separated(work: _Work) -> tuple[NDArray[Any], NDArray[Any] | None]:
        samples, first, out = work
        sources = separator.separate_samples(samples, first, out)
        return sources, source.complete(separator.clean_channels(samples, sources))

    for sources, cleaned in map_in_order(pool, separated, good()):
        append_samples(sink, sources, cleaned)
    if start is not None:
        start.prepare(start.survey)


def _separate_by_window(
    source: Channels, separator: Separator, window: int, sink: Hdf5Sink, progress: Progress
) -> FitWriter:
    """Fit windows of about equal length between gaps, one after the other."""
    windows = plan_windows(source.n_samples, source.gaps, window, separator.poset.periods)
    length = max(w.n_samples for w in windows)
    fits = FitWriter(sink, len(windows))
    for w, samples in cut_windows(source.read_blocks(length, progress, "separating"), windows):
        separation = separator.separate_window(samples, w.row, period=w.index)
        cleaned = source.complete(separator.clean_channels(samples, separation.sources, w.index))
        append_samples(sink, separation.sources, cleaned)
        fits.add(w, separation)
    return fits


def _make_outcome(
    source: Channels,
    separator: Separator,
    left_out: NamesLeftOut,
    excluded: Sequence[tuple[int, int]],
    fits: FitWriter | None,
) -> Outcome:
    return Outcome(
        n_samples=source.n_samples,
        n_channels=len(source.names),
        n_sources=separator.stage.n_sources,
        rate=source.recording.rate,
        solver=separator.solver,
        flat=left_out.flat,
        bad=left_out.bad,
        n_bad_samples=count_rows(excluded),
        n_windows=0 if fits is None else fits.n_windows,
        n_failed=0 if fits is None else fits.n_failed,
        taken_out=None if separator.cleaner is None else str(separator.cleaner),
        learning=None if separator.learning is None else str(separator.learning),
    )
