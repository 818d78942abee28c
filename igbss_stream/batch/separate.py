"""A recording in, its sources out: reads, separates and writes block by block.

Memory does not grow with the recording. Where each sample stands alone (closed form) and the transform
needs no state, one pass does: what is wrong with the samples is then found on the way, and the output is
given up. Otherwise a first pass surveys the recording.
"""

import json
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream import __version__
from igbss_stream.batch.cleaned import needs_look, reserve_cleaned, starting_with, write_excluded
from igbss_stream.batch.models import KnownModel
from igbss_stream.batch.settings import BatchSettings
from igbss_stream.batch.windows import cut, planned
from igbss_stream.config import plain
from igbss_stream.errors import IgbssWarning, InputError, ParameterError
from igbss_stream.ingest.recording import Recording
from igbss_stream.preparation.recording import PreparedRecording
from igbss_stream.preparation.settings import Preparation
from igbss_stream.publish.hdf5 import Hdf5Sink
from igbss_stream.publish.recording import GAP
from igbss_stream.separator import Separator
from igbss_stream.survey import Survey
from igbss_stream.threads import Memory, in_order, reckoning

BLOCK_BYTES = 1 << 21  # the blocks under way and their sources stay in the processor's cache
DEFAULT_WINDOW = 4096  # samples

_Work = tuple[NDArray[Any], int, NDArray[Any]]
"""Samples, the index of the first, and where their sources go."""

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
    with (
        Hdf5Sink(output, overwrite=overwrite, source=recording.path) as sink,
        reckoning() as pool,
    ):
        flat = flat_channels(recording, tell) if settings.drop_flat else []
        left_out = tuple(recording.channels[i] for i in flat)
        recording, keep = prepared(recording, settings.preparation, flat)
        window = _window(settings.window, recording.rate)
        if model is not None:
            keep = keep[model.positions([recording.channels[i] for i in keep], recording.unit)]
        source = Channels(recording, keep)
        if settings.cleaning is not None:
            settings.cleaning.check_channels(source.names)
        separator, survey, prepare = _starting(source, settings, model, pool)
        surveyed = separator.needs_survey if model is None else needs_look(separator)
        if surveyed:
            for _, block in source.blocks(source.block_length, tell, "surveying"):
                survey.update(source.memory.copied(block))
            prepare(survey)
        _create_outputs(sink, recording, source.names, separator, settings.compression)
        _write_gaps(sink, recording)
        if separator.by_sample:
            fits = None
            _separate_by_sample(source, separator, survey, sink, tell, None if surveyed else prepare, pool)
        else:
            fits = _separate_by_window(source, separator, window, sink, tell)
        if fits is not None:
            sink.write("fits", fits)
        write_model(sink, source.names, recording.unit, separator, settings.preparation)
        name = os.fsencode(recording.path.name).decode(errors="replace")
        sink.set_attrs(input=name, dataset=recording.dataset, **(attrs or {}))
        if separator.cleaner is not None:
            write_excluded(sink, separator.cleaner)
            for notice in separator.cleaner.notices:
                warnings.warn(f"{notice}.", IgbssWarning, stacklevel=2)
    return Outcome(
        recording.n_samples,
        len(keep),
        separator.stage.n_sources,
        recording.rate,
        separator.solver,
        left_out,
        0 if fits is None else len(fits),
        0 if fits is None else int(np.sum(~fits["converged"])),
        None if separator.cleaner is None else str(separator.cleaner),
    )


def prepared(
    recording: Recording, preparation: Preparation, flat: Sequence[int]
) -> tuple[Recording, NDArray[np.int_]]:
    """Return a recording as it is separated, and the positions of its channels that are.

    Parameters
    ----------
    recording : Recording
    preparation : Preparation
    flat : sequence of int
        Channels of it that are left out.
    """
    if not preparation.does_nothing:  # a flat channel must not get into a reference
        recording = PreparedRecording(recording, preparation, flat, remedy=" with --drop-flat")
        flat = []
    return recording, np.setdiff1d(np.arange(recording.n_channels), flat)


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


def _starting(
    source: "Channels", settings: BatchSettings, model: KnownModel | None, pool: ThreadPoolExecutor
) -> tuple[Separator, Survey, Callable[[Survey], None]]:
    """Return the separator, an empty survey for it, and what makes it ready once all is surveyed."""
    if model is not None:
        return starting_with(model, source.names, source.dtype, source.n_samples, settings.cleaning)
    separator = Separator(settings.model, len(source.names), cleaning=settings.cleaning)
    survey = separator.new_survey(source.names, source.dtype, source.n_samples, pool)
    return separator, survey, partial(separator.prepare, remedy=" with --drop-flat")


class Channels:
    """The channels of a recording that are separated, block by block.

    Parameters
    ----------
    recording : Recording
    keep : ndarray of int
        Their positions, in the order in which they are separated.
    """

    def __init__(self, recording: Recording, keep: NDArray[np.int_]) -> None:
        self._recording, self._keep = recording, keep
        self._whole = np.array_equal(keep, np.arange(recording.n_channels))
        self.names = [recording.channels[i] for i in keep]
        self.n_samples, self.breaks = recording.n_samples, recording.breaks
        self.dtype = recording.dtype
        self.block_length = min(_block_length(recording), recording.n_samples)
        self.memory = Memory(self.block_length, len(keep), recording.dtype)

    def blocks(self, length: int, tell: Progress, doing: str) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples) and report progress after each block is done with."""
        for start, block in self._recording.blocks(length):
            yield start, block if self._whole else np.ascontiguousarray(block[:, self._keep])
            tell(doing, start + len(block), self.n_samples)


def _block_length(recording: Recording) -> int:
    return max(1, BLOCK_BYTES // (recording.n_channels * recording.dtype.itemsize))


def flat_channels(recording: Recording, tell: Progress) -> list[int]:
    """Read a recording, and return the positions of its channels that are constant.

    Parameters
    ----------
    recording : Recording
    tell : callable
        Told how far it is.

    Returns
    -------
    list of int

    Raises
    ------
    InputError
        If fewer than two channels are not, or samples are not finite.
    """
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


def _create_outputs(
    sink: Hdf5Sink, recording: Recording, channels: list[str], separator: Separator, compression: str
) -> None:
    n_sources = separator.stage.n_sources
    sink.create(
        "sources",
        (recording.n_samples, n_sources),
        recording.dtype,
        compression=compression,
        rate=recording.rate,
        unit=None if separator.settings.has_unit_variance else recording.unit,
        channels=[f"source-{n}" for n in range(n_sources)],
    )
    if separator.cleaning is not None:
        reserve_cleaned(sink, recording, channels, compression)


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
    source: Channels,
    separator: Separator,
    survey: Survey,
    sink: Hdf5Sink,
    tell: Progress,
    prepare: Callable[[Survey], None] | None,
    pool: ThreadPoolExecutor,
) -> None:
    """Separate block by block; `prepare` checks the survey, if that is made on the way."""
    memory = Memory(source.block_length, separator.stage.n_sources, source.dtype)

    def good() -> Iterator[_Work]:
        for start, block in source.blocks(source.block_length, tell, "separating"):
            own = source.memory.copied(block)  # the next one is read while this one is separated
            if prepare is not None:
                survey.update(own)
            if survey.n_bad == 0:  # else only the count goes on, for the message
                yield own, start, memory.rows(len(own))

    def separated(work: _Work) -> tuple[NDArray[Any], NDArray[Any] | None]:
        samples, start, out = work
        sources = separator.sources(samples, start, out)
        return sources, separator.cleaned(samples, sources)

    for sources, cleaned in in_order(pool, separated, good()):
        _append(sink, sources, cleaned)
    if prepare is not None:
        prepare(survey)


def _append(sink: Hdf5Sink, sources: NDArray[Any], cleaned: NDArray[Any] | None) -> None:
    sink.append("sources", sources)
    if cleaned is not None:
        sink.append("cleaned", cleaned)


_FIT = np.dtype([("start", "i8"), ("n_samples", "i8"), ("n_iter", "i8"), ("kl", "f8"), ("converged", "?")])


def _separate_by_window(
    source: Channels, separator: Separator, window: int, sink: Hdf5Sink, tell: Progress
) -> NDArray[np.void]:
    """Fit windows of about equal length, one after the other, between one gap and the next."""
    windows = planned(source.n_samples, source.breaks, window, separator.poset.periods)
    length = max(w.n_samples for w in windows)
    fits = []
    for w, samples in cut(source.blocks(length, tell, "separating"), windows):
        separation = separator.window(samples, w.row, period=w.index)
        _append(sink, separation.sources, separator.cleaned(samples, separation.sources, w.index))
        fits.append((w.row, w.n_samples, separation.n_iter, separation.kl[-1], separation.converged))
    return np.array(fits, dtype=_FIT)


def write_model(
    sink: Hdf5Sink,
    channels: Sequence[str],
    unit: str | None,
    separator: Separator,
    preparation: Preparation,
) -> None:
    """Write what makes sources of samples.

    Parameters
    ----------
    sink : Hdf5Sink
    channels : sequence of str
    unit : str or None
        Of the channels.
    separator : Separator
        Prepared.
    preparation : Preparation
        Of the samples.
    """
    stage = separator.stage
    mixing, unmixing = (
        weights if len(weights) > 1 else weights[0] for weights in (stage.mixing, stage.unmixing)
    )
    mixed = unit if separator.settings.has_unit_variance else None
    sink.write("mixing", mixing, channels=channels, unit=mixed)
    sink.write("unmixing", unmixing, channels=channels)
    if stage.mean is not None:
        sink.write("mean", stage.mean, channels=channels, unit=unit)
    sink.set_attrs(
        igbss_stream_version=__version__,
        input_unit=unit,
        solver=separator.solver,
        settings=separator.settings.to_json(),
        preparation=preparation.to_json(),
        transform=json.dumps(plain(separator.transform)),
        cleaning=None if separator.cleaning is None else json.dumps(separator.cleaning.plain()),
    )
