"""Separate a stream chunk by chunk: learn models, apply them, and account for every sample.

A `Pipeline` takes chunks and gaps in the order of their indices, and returns chunks and gaps with the same
indices. It uses no sockets and no clock. The output depends on the samples alone, not on the chunk sizes or
on the time of arrival.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.separation.cleaning import Cleaner, Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_choice import Excluded
from igbss_stream.separation.source_labels import LabelContext, locate_electrodes
from igbss_stream.streaming.model_updates import GetSpans, Learner, LearningSchedule
from igbss_stream.streaming.separators import SampleSeparator, WindowSeparator
from igbss_stream.streaming.stream_model import StreamModel

Item = Chunk | Gap


@dataclass(frozen=True)
class LearningPlan:
    """How a pipeline learns its models.

    Parameters
    ----------
    schedule : LearningSchedule
    executor : Executor
        With one thread; pipelines may share it.
    wait : bool
    stop : Event, optional
    get_excluded : callable, optional
        See `Learner`.
    """

    schedule: LearningSchedule
    executor: Executor
    wait: bool = True
    stop: Event | None = None
    get_excluded: GetSpans = list


class Pipeline:
    """Separate one stream.

    Parameters
    ----------
    stream : Stream
        Description of the input.
    settings : ModelSettings
    window : (int, int), optional
        Length and hop of the windows in samples; needed if the solver fits samples together.
    model : StreamModel, optional
        Prepared model that is active from the start.
    learning : LearningPlan, optional
        Needed if there is no model and one has to be learned from the samples.
    cleaning : Cleaning, optional
        Sources to remove from the channels. Chunks then contain cleaned channels in addition to sources.
    chosen : tuple of int, optional
        Sources to remove instead of those that `cleaning` determines, see `choose`.

    Raises
    ------
    ParameterError
        If there is neither a model nor a plan to learn one, or a window is missing.

    Notes
    -----
    Samples before the first model become a gap with the reason ``"learning"``. Samples outside the domain
    of the transform, such as 0 with "sum", become a gap with the reason ``"range"``.
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
        chosen: tuple[int, ...] | None = None,
    ) -> None:
        self._chosen = chosen
        self.settings, self._stream = settings, stream
        if cleaning is not None:
            cleaning.check_channels(stream.channels)
        _check_settings(settings, model, cleaning)
        labelling = None
        if cleaning is not None and cleaning.needs_labels:
            electrodes = locate_electrodes(stream.channels, stream.positions)
            labelling = LabelContext(stream.rate, electrodes, is_required=True)
        if model is None:
            plan = SeparationPlan(settings, stream.n_channels, None, cleaning, labelling)
            self.stream_separator = _make_stream_separator(plan, window, learning)
            if not plan.needs_survey:
                model = StreamModel(1, plan.prepare(), 0)
                learning = None  # nothing to learn
        else:
            self.stream_separator = _make_stream_separator(model.separator, window, learning)
        if model is None and learning is None:
            raise ParameterError(
                "a model that depends on the samples needs a schedule: pass learning, or a prepared model."
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
                get_excluded=learning.get_excluded,
                cleaning=cleaning,
                labelling=labelling,
            )
        self.model: StreamModel | None = None
        self._position: int | None = None
        if model is not None:
            self._activate(model)

    @property
    def output_stream(self) -> Stream:
        """Description of the sources; their number is certain once there is a model."""
        if self.model is not None:
            n_sources = self.model.separator.stage.n_sources
        else:
            n_sources = self.settings.n_sources or self._stream.n_channels
        return replace(
            self._stream,
            channels=tuple(f"source-{n}" for n in range(n_sources)),
            unit=None if self.settings.has_unit_variance else self._stream.unit,
            delay=self.stream_separator.delay,
            positions=None,  # those of channels
        )

    @property
    def cleaned_stream(self) -> Stream:
        """Description of the cleaned channels."""
        return replace(self._stream, delay=self.stream_separator.delay)

    def push(self, item: Item) -> list[Item]:
        """Process the next chunk or gap, and return the finished ones.

        Raises
        ------
        InputError
            If the item does not begin where the previous one ended, or has another number of channels.
        """
        self._check(item)
        if isinstance(item, Gap):
            if self.learner is not None:
                self.learner.record(item)
            return self._push_run(item)
        if self.learner is not None:
            self.learner.begin(item.start)
            self._activate(self.learner.take_late_model(item.start))
        return [done for part in self._split_at_boundaries(item) for done in self._separate(part)]

    def choose(self, sources: tuple[int, ...] | None) -> None:
        """Remove other sources from the channels from the next samples on, whatever model is active.

        Windows that were fitted before are still joined to the next ones.

        Parameters
        ----------
        sources : tuple of int or None
            Numbers of sources, sorted; None for those that the model determines.

        Raises
        ------
        IgbssError
            If a source does not exist, or none would remain. The earlier ones are removed then.
        """
        if self.model is not None:
            Cleaner(self.model.separator.stage, tuple(map(Excluded, sources or ())))
            self.model = self.model.choose(sources)
        self._chosen = sources
        self.stream_separator.choose(sources)

    def flush(self) -> list[Item]:
        """Return the remaining items at the end of the stream."""
        return [*self.stream_separator.flush()]

    def _check(self, item: Item) -> None:
        if self._position not in (None, item.start):
            raise InputError(
                f"samples must be consecutive: {item.start} came after {self._position}. "
                "Pass a Gap for missing samples."
            )
        self._position = item.stop
        if isinstance(item, Chunk) and item.data.shape[1] != self._stream.n_channels:
            raise InputError(
                f"stream {self._stream.name!r} has {self._stream.n_channels} channels. "
                f"Got a chunk of {item.data.shape[1]} instead."
            )

    def _split_at_boundaries(self, chunk: Chunk) -> Iterator[Chunk]:
        """Split a chunk where models are learned or activated, and do so there."""
        if self.learner is None:
            yield chunk
            return
        at = chunk.start
        while at < chunk.stop:
            boundary = self.learner.boundary
            if boundary is not None and boundary <= at:
                self._activate(self.learner.handle_boundary(at))
                continue
            stop = chunk.stop if boundary is None else min(boundary, chunk.stop)
            part = Chunk(chunk.data[at - chunk.start : stop - chunk.start], at)
            self.learner.record(part)
            yield part
            at = stop

    def _separate(self, chunk: Chunk) -> list[Item]:
        if self.model is None:
            return [Gap(chunk.start, len(chunk.data), "learning")]
        separator = self.model.separator
        if separator.transform.linear or (in_domain := separator.has_log(chunk.data)).all():
            return [*self.stream_separator.push(chunk)]
        return [done for run in split_by_domain(chunk, in_domain) for done in self._push_run(run)]

    def _push_run(self, run: Item) -> list[Item]:
        return (
            [*self.stream_separator.flush(), run]
            if isinstance(run, Gap)
            else [*self.stream_separator.push(run)]
        )

    def _activate(self, model: StreamModel | None) -> None:
        if model is not None:
            self.model = model.choose(self._chosen)
            self.stream_separator.activate(self.model)


def split_by_domain(chunk: Chunk, in_domain: NDArray[np.bool_]) -> Iterator[Item]:
    """Split a chunk into runs of samples inside the domain of the transform, and gaps of the others.

    Parameters
    ----------
    chunk : Chunk
    in_domain : ndarray of shape (samples,)
        Not empty.

    Returns
    -------
    iterator of Chunk and Gap
        Gaps have the reason ``"range"``.
    """
    for first, stop in split_runs(in_domain).tolist():
        if in_domain[first]:
            yield Chunk(chunk.data[first:stop], chunk.start + first, chunk.model_version)
        else:
            yield Gap(chunk.start + first, stop - first, "range")


def _check_settings(settings: ModelSettings, model: StreamModel | None, cleaning: Cleaning | None) -> None:
    if settings.has_products:
        raise ParameterError(
            f"order = {settings.order} with a learned structure is for recordings: products of sources "
            "cannot be learned again and matched in a stream. Use order = 1."
        )
    if model is not None and cleaning is not None and model.separator.cleaner is None:
        raise ParameterError(
            "the model does not define which sources to remove; learn a new model with this cleaning."
        )


def _make_stream_separator(
    separator: SeparationPlan | Separator, window: tuple[int, int] | None, learning: LearningPlan | None
) -> SampleSeparator | WindowSeparator:
    if separator.by_sample:
        return SampleSeparator(0 if learning is None else learning.schedule.fade)
    if window is None:
        raise ParameterError(
            f"solver '{separator.solver}' fits samples in windows: give the length and hop of the windows."
        )
    return WindowSeparator(*window)
