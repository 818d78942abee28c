"""A recording in, its sources out: reads, separates and writes block by block.

Memory does not grow with the recording. Where each sample stands alone (closed form) and the transform
needs no state, one pass does: what is wrong with the samples is then found on the way, and the output is
given up. Otherwise a first pass surveys the recording.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream import __version__
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.batch.windows import cut, planned
from igbss_stream.chunk import Chunk
from igbss_stream.config import plain
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.ingest.recording import Recording
from igbss_stream.learning import Model
from igbss_stream.paths import SamplePath
from igbss_stream.preparation.recording import PreparedRecording
from igbss_stream.publish.hdf5 import Hdf5Sink
from igbss_stream.publish.recording import GAP
from igbss_stream.separator import Separator
from igbss_stream.survey import Survey

BLOCK_BYTES = 1 << 22  # a block and its sources stay in the processor's cache
DEFAULT_WINDOW = 4096  # samples

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the samples done and the samples in all."""


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
    """

    n_samples: int
    n_channels: int
    n_sources: int
    rate: float | None
    solver: str
    left_out: tuple[str, ...] = ()
    n_windows: int = 0
    n_failed: int = 0


def separate_recording(
    recording: Recording,
    output: str | Path,
    settings: BatchSettings,
    *,
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
    with Hdf5Sink(output, overwrite=overwrite, source=recording.path) as sink:
        left_out = _flat_channels(recording, tell) if settings.drop_flat else []
        names_left_out = tuple(recording.channels[i] for i in left_out)
        if not settings.preparation.does_nothing:  # a flat channel must not get into a reference
            recording = PreparedRecording(
                recording, settings.preparation, left_out, remedy=" with --drop-flat"
            )
            left_out = []
        window = _window(settings.window, recording.rate)
        keep = np.setdiff1d(np.arange(recording.n_channels), left_out)
        source = _Channels(recording, keep)
        separator = Separator(settings.model, len(keep))
        survey = separator.new_survey(source.names, recording.dtype, recording.n_samples)
        if separator.needs_survey:
            for _, block in source.blocks(source.block_length, tell, "surveying"):
                survey.update(block)
            separator.prepare(survey, remedy=" with --drop-flat")
        _create_outputs(sink, recording, separator)
        _write_gaps(sink, recording)
        if separator.by_sample:
            fits = None
            _separate_by_sample(source, separator, survey, sink, tell)
        else:
            fits = _separate_by_window(source, separator, window, sink, tell)
        _write_model(sink, recording, source.names, separator, fits)
        sink.set_attrs(preparation=settings.preparation.to_json())
    return Outcome(
        recording.n_samples,
        len(keep),
        separator.stage.n_sources,
        recording.rate,
        separator.solver,
        names_left_out,
        0 if fits is None else len(fits),
        0 if fits is None else int(np.sum(~fits["converged"])),
    )


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


class _Channels:
    """The channels of a recording that are separated, block by block."""

    def __init__(self, recording: Recording, keep: NDArray[np.int_]) -> None:
        self._recording, self._keep = recording, keep
        self.names = [recording.channels[i] for i in keep]
        self.n_samples, self.breaks = recording.n_samples, recording.breaks
        self.block_length = _block_length(recording)

    def blocks(self, length: int, tell: Progress, doing: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples) and report progress after each block is done with."""
        for start, block in self._recording.blocks(length):
            whole = len(self._keep) == self._recording.n_channels
            yield start, block if whole else np.ascontiguousarray(block[:, self._keep])
            tell(doing, start + len(block), self.n_samples)


def _block_length(recording: Recording) -> int:
    return max(1, BLOCK_BYTES // (recording.n_channels * recording.dtype.itemsize))


def _flat_channels(recording: Recording, tell: Progress) -> list[int]:
    survey = Survey(recording.channels, recording.dtype, recording.n_samples)
    for start, block in recording.blocks(_block_length(recording)):
        survey.update(block)
        tell("looking for flat channels", start + len(block), recording.n_samples)
    if survey.n_bad:
        survey.check()
    if len(survey.flat) > recording.n_channels - 2:
        raise InputError(
            f"{len(survey.flat)} of {recording.n_channels} channels are flat (constant): "
            "separation needs at least 2 that are not."
        )
    return survey.flat


def _create_outputs(sink: Hdf5Sink, recording: Recording, separator: Separator) -> None:
    n_sources = separator.stage.n_sources
    sink.create(
        "sources",
        (recording.n_samples, n_sources),
        recording.dtype,
        rate=recording.rate,
        unit=None if separator.settings.has_unit_variance else recording.unit,
        channels=[f"source-{n}" for n in range(n_sources)],
    )


def _write_gaps(sink: Hdf5Sink, recording: Recording) -> None:
    """Say where samples are missing, as recordings of streams do; gaps take no rows."""
    if not recording.breaks:
        return
    missing, gaps = 0, []
    for gap in recording.breaks:
        gaps.append((gap.row, gap.row + missing, gap.n_samples, gap.reason.encode()[:40]))
        missing += gap.n_samples
    sink.write("gaps", np.array(gaps, GAP))


def _separate_by_sample(
    source: _Channels, separator: Separator, survey: Survey, sink: Hdf5Sink, tell: Progress
) -> None:
    surveyed = separator.needs_survey
    path = SamplePath()
    path.change(Model(1, separator, 0))
    for start, block in source.blocks(source.block_length, tell, "separating"):
        if not surveyed:
            survey.update(block)
        if survey.n_bad == 0:  # else only the count goes on, for the message
            for chunk in path.push(Chunk(block, start)):
                sink.append("sources", chunk.data)
    if not surveyed:
        separator.prepare(survey, remedy=" with --drop-flat")


_FIT = np.dtype([("start", "i8"), ("n_samples", "i8"), ("n_iter", "i8"), ("kl", "f8"), ("converged", "?")])


def _separate_by_window(
    source: _Channels, separator: Separator, window: int, sink: Hdf5Sink, tell: Progress
) -> NDArray[np.void]:
    """Fit windows of about equal length, one after the other, between one gap and the next."""
    windows = planned(source.n_samples, source.breaks, window, separator.poset.periods)
    length = max(w.n_samples for w in windows)
    fits = []
    for w, samples in cut(source.blocks(length, tell, "separating"), windows):
        separation = separator.window(samples, w.row, period=w.index)
        sink.append("sources", separation.sources)
        fits.append((w.row, w.n_samples, separation.n_iter, separation.kl[-1], separation.converged))
    return np.array(fits, dtype=_FIT)


def _write_model(
    sink: Hdf5Sink,
    recording: Recording,
    channels: list[str],
    separator: Separator,
    fits: NDArray[np.void] | None,
) -> None:
    stage = separator.stage
    mixing, unmixing = (
        weights if len(weights) > 1 else weights[0] for weights in (stage.mixing, stage.unmixing)
    )
    unit = recording.unit if separator.settings.has_unit_variance else None
    sink.write("mixing", mixing, channels=channels, unit=unit)
    sink.write("unmixing", unmixing, channels=channels)
    if stage.mean is not None:
        sink.write("mean", stage.mean, channels=channels, unit=recording.unit)
    if fits is not None:
        sink.write("fits", fits)
    sink.set_attrs(
        igbss_stream_version=__version__,
        input=os.fsencode(recording.path.name).decode(errors="replace"),
        dataset=recording.dataset,
        solver=separator.solver,
        settings=separator.settings.to_json(),
        transform=json.dumps(plain(separator.transform)),
    )
