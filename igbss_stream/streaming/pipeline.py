"""From samples to sources as they come: what the daemon does with each stream.

A `Pipeline` takes chunks and gaps in the order of their indices and gives back chunks and gaps that
account for the same indices. It knows no sockets and no clock: what comes out depends on what goes in, not
on how it is cut or when it comes.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.streaming.model_updates import Learner, LearningSchedule, StreamModel
from igbss_stream.streaming.separators import SampleSeparator, WindowSeparator

Item = Chunk | Gap


@dataclass(frozen=True)
class LearningPlan:
    """How the models of a pipeline are learned.

    Parameters
    ----------
    schedule : LearningSchedule
    executor : Executor
        Of one thread; may be shared by pipelines.
    wait : bool
    stop : Event, optional
        See `Learner`.
    """

    schedule: LearningSchedule
    executor: Executor
    wait: bool = True
    stop: Event | None = None


class Pipeline:
    """Separates one stream.

    Parameters
    ----------
    stream : Stream
        What comes in.
    settings : ModelSettings
    window : (int, int), optional
        Length and hop, in samples, of windows where samples have to be fitted together.
    model : StreamModel, optional
        That is in force from the start, prepared.
    learning : LearningPlan, optional
        Needed where there is no model yet and samples have to be seen first to make one.
    cleaning : Cleaning, optional
        Which sources are taken out of the channels: chunks then hold cleaned channels beside sources.

    Raises
    ------
    ParameterError
        If there is neither a model nor a way to one, or a window is missing.

    Notes
    -----
    Samples that come before the first model are a gap with the reason ``"learning"``; those that the
    transform does not take, such as 0 with "sum", one with the reason ``"range"``.
    """

    def __init__(
        self,
        stream: Stream,
        settings: ModelSettings,
        *,
        window: tuple[int, int] | None = None,
        model: StreamModel | None = None,
        learning: LearningPlan | None = None,
        cleaning: Cleaning | None = None,
    ) -> None:
        self.settings, self._stream = settings, stream
        if cleaning is not None:
            cleaning.check_channels(stream.channels)
        separator = _make_separator(settings, stream.n_channels, model, cleaning)
        self.stream_separator = _make_stream_separator(separator, window, learning)
        if model is None and not separator.needs_survey:
            model = StreamModel(1, separator, 0)
            learning = None  # there is nothing to learn
        if model is None and learning is None:
            raise ParameterError(
                "a model that depends on the samples needs a schedule by which it is learned."
            )
        self.learner = None
        if learning is not None:
            self.learner = Learner(
                settings,
                stream.channels,
                learning.schedule,
                learning.executor,
                model=model,
                wait=learning.wait,
                stop=learning.stop,
                cleaning=cleaning,
            )
        self.model: StreamModel | None = None
        self._position: int | None = None
        if model is not None:
            self._change(model)

    @property
    def output_stream(self) -> Stream:
        """What comes out; the number of sources is certain once there is a model."""
        if self.model is not None:
            n_sources = self.model.separator.stage.n_sources
        else:
            n_sources = self.settings.n_sources or self._stream.n_channels
        return replace(
            self._stream,
            channels=tuple(f"source-{n}" for n in range(n_sources)),
            unit=None if self.settings.has_unit_variance else self._stream.unit,
            delay=self.stream_separator.delay,
        )

    @property
    def cleaned_stream(self) -> Stream:
        """What comes out as cleaned channels."""
        return replace(self._stream, delay=self.stream_separator.delay)

    def push(self, item: Item) -> list[Item]:
        """Take in the next chunk or gap, and return what is done.

        Raises
        ------
        InputError
            If it does not begin where the last one ended, or has another number of channels.
        """
        self._check(item)
        if isinstance(item, Gap):
            if self.learner is not None:
                self.learner.record(item)
            return self._passed(item)
        if self.learner is not None:
            self.learner.begin(item.start)
            self._change(self.learner.take_late_model(item.start))
        return [done for piece in self._pieces(item) for done in self._separated(piece)]

    def flush(self) -> list[Item]:
        """Return what is still inside; the stream has ended."""
        return [*self.stream_separator.flush()]

    def _check(self, item: Item) -> None:
        if self._position not in (None, item.start):
            raise InputError(f"samples must follow each other: {item.start} came after {self._position}.")
        self._position = item.stop
        if isinstance(item, Chunk) and item.data.shape[1] != self._stream.n_channels:
            raise InputError(
                f"stream {self._stream.name!r} has {self._stream.n_channels} channels. "
                f"Got a chunk of {item.data.shape[1]} instead."
            )

    def _pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        """Cut a chunk where models are learned or take force, and do so there."""
        if self.learner is None:
            yield chunk
            return
        at = chunk.start
        while at < chunk.stop:
            boundary = self.learner.boundary
            if boundary is not None and boundary <= at:
                self._change(self.learner.handle_boundary(at))
                continue
            stop = chunk.stop if boundary is None else min(boundary, chunk.stop)
            piece = Chunk(chunk.data[at - chunk.start : stop - chunk.start], at)
            self.learner.record(piece)
            yield piece
            at = stop

    def _separated(self, piece: Chunk) -> list[Item]:
        if self.model is None:
            return [Gap(piece.start, len(piece.data), "learning")]
        separator = self.model.separator
        if separator.transform.linear or (taken := separator.has_log(piece.data)).all():
            return [*self.stream_separator.push(piece)]
        return [done for run in split_runs(piece, taken) for done in self._passed(run)]

    def _passed(self, run: Item) -> list[Item]:
        return (
            [*self.stream_separator.flush(), run]
            if isinstance(run, Gap)
            else [*self.stream_separator.push(run)]
        )

    def _change(self, model: StreamModel | None) -> None:
        if model is not None:
            self.model = model
            self.stream_separator.activate(model)


def split_runs(chunk: Chunk, taken: NDArray[np.bool_]) -> Iterator[Item]:
    """Cut a chunk into what is taken and gaps of what is not.

    Parameters
    ----------
    chunk : Chunk
    taken : ndarray of shape (samples,)
        Not empty.

    Returns
    -------
    iterator of Chunk and Gap
        Gaps have the reason ``"range"``.
    """
    edges = [0, *(np.flatnonzero(np.diff(taken)) + 1), len(taken)]
    for first, stop in itertools.pairwise(map(int, edges)):
        if taken[first]:
            yield Chunk(chunk.data[first:stop], chunk.start + first, chunk.model_version)
        else:
            yield Gap(chunk.start + first, stop - first, "range")


def _make_separator(
    settings: ModelSettings, n_channels: int, model: StreamModel | None, cleaning: Cleaning | None
) -> Separator:
    """Return what separates first; it is not prepared yet, unless there is a model."""
    if settings.has_products:
        raise ParameterError(
            f"order = {settings.order} with a learned structure is for recordings: products of sources "
            "cannot be learned anew and matched while a stream runs. Use order = 1."
        )
    if model is None:
        return Separator(settings, n_channels, cleaning=cleaning)
    if cleaning is not None and model.separator.cleaner is None:
        raise ParameterError("the model does not say which sources are taken out of the channels.")
    return model.separator


def _make_stream_separator(
    separator: Separator, window: tuple[int, int] | None, learning: LearningPlan | None
) -> SampleSeparator | WindowSeparator:
    if separator.by_sample:
        return SampleSeparator(0 if learning is None else learning.schedule.fade)
    if window is None:
        raise ParameterError(
            f"solver '{separator.solver}' fits samples in windows: give the length and hop of one."
        )
    return WindowSeparator(*window)
