"""Run one stream of the daemon: source, repair, preparation, pipeline, sinks, and its counters."""

import logging
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from igbss_stream.bad_channels.memory import ChannelMemory
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.announcer import Announcer
from igbss_stream.daemon.bad_channels import WatchedChannels
from igbss_stream.daemon.choice import SourceChoice
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.delay_histogram import DelayHistogram
from igbss_stream.daemon.event_relay import EventRelay
from igbss_stream.daemon.pause import Pause
from igbss_stream.daemon.published import describe_model, pick_cleaned
from igbss_stream.daemon.sink_guard import GuardedSink, Sink
from igbss_stream.daemon.source_chooser import SourceChooser
from igbss_stream.daemon.sources import Source
from igbss_stream.daemon.stage_log import StageLog
from igbss_stream.daemon.stream_settings import StreamSettings
from igbss_stream.daemon.trigger_channels import TriggerChannels
from igbss_stream.errors import IgbssError, ParameterError
from igbss_stream.events import Events
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.repair.stage import RepairStage
from igbss_stream.streaming.pipeline import LearningPlan, Pipeline
from igbss_stream.streaming.stream_model import StreamModel

if TYPE_CHECKING:
    from igbss_stream.daemon.calibration import ChannelOrder

log = logging.getLogger(__name__)


class StreamRunner:
    """Process one stream from its source to its sinks.

    Parameters
    ----------
    config : StreamSection
    source : Source
    sinks : sequence of Sink
    executor : Executor
        Where models are learned.
    settings : StreamSettings, optional
        Settings that follow from the configuration and the file that it takes a model from.
    model : StreamModel, optional
        Model of an earlier run.
    memory : ChannelMemory, optional
        What an earlier run has learned of the channels.
    choice : SourceChoice, optional
        Choice of sources of an earlier run.
    wait : bool
        Whether the source may be paused until a model is learned.
    stop : Event, optional
        Set when the daemon is to stop; ends such a pause.

    Attributes
    ----------
    samples_in, samples_out, samples_gap : int
        Number of samples received, published, and published as gaps.
    failures : int
        Number of times that a stage or the source failed.
    error : Exception or None
        What ended the stream for good.
    chooser : SourceChooser
        Applies choices of sources while the stream runs.
    settings : StreamSettings
    sinks : list of GuardedSink
        The sinks, whose failures do not stop the stream.
    is_refused : bool
        Whether the stream does not match the settings; its samples are discarded.
    events : EventRelay
        Passes events on to the sinks.
    delays : DelayHistogram
        Of the chunks, from their arrival to their publication.
    """

    def __init__(
        self,
        config: StreamSection,
        source: Source,
        sinks: Sequence[Sink],
        executor: Executor,
        *,
        settings: StreamSettings | None = None,
        model: StreamModel | None = None,
        memory: ChannelMemory | None = None,
        choice: SourceChoice | None = None,
        wait: bool = False,
        stop: Event | None = None,
    ) -> None:
        self.name = config.name
        self.source = source
        self.pipeline: Pipeline | None = None
        self.repair: RepairStage | None = None
        self.preparation: OnlinePreparation | None = None
        self.samples_in = self.samples_out = self.samples_gap = 0
        self.delays = DelayHistogram()
        self.is_refused = False
        self.sinks = [GuardedSink(config.name, f"sinks[{i}]", sink) for i, sink in enumerate(sinks)]
        self.events = EventRelay(self._publish_events)
        self.bad_channels = WatchedChannels(config, self.events.push, memory)
        self._config = config
        self.settings = StreamSettings.create(config) if settings is None else settings
        self.chooser = SourceChooser(config.name, self.settings.initial, choice)
        self._triggers: TriggerChannels | None = None
        self._order: ChannelOrder | None = None
        self._executor, self._wait, self._stop = executor, wait, stop
        self._model = model
        self.failures = 0
        self.error: Exception | None = None
        self._pause, self._has_failed, self._is_source_broken = Pause(), False, False
        self._run = 0  # of the source, which the stages belong to
        self._stop_index: int | None = None  # of the published items of this run
        self._published_kinds = [sink.publish for sink in config.sinks]
        self._announcer = Announcer(self.sinks, self._published_kinds, self.chooser, self.events)
        self._log = StageLog(config.name)

    @property
    def model(self) -> StreamModel | None:
        """The active model. Any thread may ask for it."""
        pipeline = self.pipeline  # which a failure may remove meanwhile
        return self._model if pipeline is None else pipeline.model

    @property
    def is_silent(self) -> bool:
        """Whether the source has been silent for longer than the limit."""
        return self.source.silence.is_silent

    @property
    def status(self) -> str:
        """One word: "ok", "learning", "silent", "failed", "refused", "ended", or "waiting" for samples."""
        if self.source.ended:
            return "ended" if self.error is None else "failed"
        if self.is_silent:
            return "silent"
        if self._has_failed:
            return "failed"
        if self.is_refused:
            return "refused"
        if self.pipeline is None:
            return "waiting"
        return "learning" if self.model is None else "ok"

    def step(self, timeout: float) -> None:
        """Wait up to a number of seconds for samples, and process them up to the sinks.

        Nothing that arrives ends more than this stream. If a stage fails, the samples that it had become
        a gap with the reason ``"failed"``, and after a pause the stages begin anew.
        """
        if self._is_source_broken and not self._pause.is_over:
            time.sleep(timeout)
            return
        try:
            self._is_source_broken = True
            items = self.source.receive(timeout)
            self._is_source_broken = False
            self._process(items)
            while self.source.has_pending:
                self._process(self.source.receive(0.0))
            self.bad_channels.settle()
        except Exception as error:  # any fault ends this stream at most, and it begins anew
            self._fail(error)

    def _process(self, items: Sequence[Chunk | Gap]) -> None:
        """Process items of one run of the source, and the events that arrived with them."""
        arrived = time.perf_counter()
        if self._run != self.source.run:
            self._end_stages()
        self._apply_choices()
        self._take_events()
        if not items or not self._has_triggers():
            return
        if self._triggers is not None:
            items, events = self._triggers.split(items)
            self.events.push(events)
        if not self._pause.is_over:
            self.samples_in += _count_samples(items)
            return
        if self.pipeline is None and not self._create_stages(items[0].start):
            return
        self.samples_in += _count_samples(items)
        for item in items:
            self._separate(item)
        self._has_failed = False
        self.delays.add(time.perf_counter() - arrived)
        self._log.update(self.repair, self.pipeline)

    def _fail(self, error: Exception) -> None:
        """Discard the stages; they begin anew after a pause, or never for a file, which does not change."""
        self.failures += 1
        is_expected = isinstance(error, IgbssError | ArithmeticError | np.linalg.LinAlgError)
        trace = None if is_expected else error
        if isinstance(self._config.source, FileInput):
            self.source.ended, self.error = True, error
            log.error("stream %s: %s; it has ended", self.name, error, exc_info=trace)
        else:
            seconds = self._pause.begin()
            log.error("stream %s: %s; it begins anew in %g s", self.name, error, seconds, exc_info=trace)
        self._model = None if self._has_failed else self.model  # the model may be the cause
        self._has_failed = True
        self.repair = self.preparation = self.pipeline = None

    def _end_stages(self) -> None:
        """Publish the pending samples of a run; the next one has its own model and description."""
        self._flush()
        self.events.end_run()
        self.repair = self.preparation = self.pipeline = self._model = None
        self._run, self._stop_index, self.is_refused = self.source.run, None, False
        self._triggers = None
        self._announcer.begin_run()

    def serve(self) -> None:
        """Apply choices of sources, also while no samples arrive, and do periodic work of the sinks."""
        self._apply_choices()
        for sink in self.sinks:
            sink.serve()

    def finish(self) -> None:
        """Process and publish pending samples, and close the source and the sinks."""
        self.source.close()
        try:
            self._take_events()
            self._flush()
        except Exception as error:  # the sinks must be closed all the same
            self._fail(error)
        self.events.end_run()
        for sink in self.sinks:
            sink.close()

    def _flush(self) -> None:
        """Process and publish the samples that wait in the stages."""
        if self.pipeline is None or self.repair is None or self.preparation is None:
            return
        for repaired in self.repair.flush():
            for item in self.preparation.push(repaired):
                self._publish(self.pipeline.push(item))
        for item in self.preparation.flush():
            self._publish(self.pipeline.push(item))
        self._publish(self.pipeline.flush())

    def _create_stages(self, start: int) -> bool:
        """Create the stages once the stream is described; return whether that was possible.

        The sender decides what a source provides. If this does not match the settings, the other streams
        continue.
        """
        stream = self.source.stream
        if stream is None:
            raise RuntimeError("a source without a description provided samples")
        if self.is_refused:
            return False
        try:
            stream = stream if self._triggers is None else self._triggers.stream
            self.repair, self.preparation, self.pipeline = self._build_stages(stream)
        except ParameterError as error:
            self._refuse(error)
            return False
        text = "stream %s: %d channels at %g Hz from sample %d"
        log.info(text, self.name, stream.n_channels, stream.rate, start)
        for text in self.settings.iter_notes(stream, self.preparation.output_stream):
            log.warning("stream %s: %s", self.name, text)
        self.events.prepare(self.preparation)
        self._describe()
        return True

    def _refuse(self, error: ParameterError) -> None:
        """Discard the stream, which does not match the settings; a file, which does not change, fails."""
        if isinstance(self._config.source, FileInput):
            raise error
        self.is_refused = True
        log.error("stream %s: the feed is refused: %s", self.name, error)

    def _has_triggers(self) -> bool:
        """Return whether the stream has the channels that the configuration leaves out, if any."""
        source, stream = self._config.source, self.source.stream
        if isinstance(source, FileInput) or stream is None or self._triggers:
            return True  # the reader of a file leaves them out itself
        if not (source.events or source.omit):
            return True
        if self.is_refused:
            return False
        try:
            self._triggers = TriggerChannels(stream, source.events or (), source.omit or ())
        except ParameterError as error:
            self._refuse(error)
            return False
        return True

    def _build_stages(self, source: Stream) -> tuple[RepairStage, OnlinePreparation, Pipeline]:
        config, settings = self._config, self.settings
        self._order = settings.order_channels(source)
        source = source if self._order is None else self._order.stream
        self.bad_channels.begin(source, settings.preparation.compute_rate(source.rate))
        repair = RepairStage(source, config.repair.as_settings())
        preparation = OnlinePreparation(source, settings.preparation)
        stream = preparation.output_stream
        model = self._model
        if model is not None and model.separator.n_channels != stream.n_channels:
            log.warning(
                "stream %s: the saved model is not used: it has %d channels, the stream has %d",
                self.name, model.separator.n_channels, stream.n_channels,
            )  # fmt: skip
            model = None
        if settings.calibration is not None:
            settings.calibration.check_prepared(stream)
            model = model or settings.calibration.model
        schedule = config.learning.as_schedule(stream.rate)
        plan = LearningPlan(schedule, self._executor, self._wait, self._stop, self.bad_channels.get_spans)
        pipeline = Pipeline(
            stream,
            settings.model,
            window=(round(config.window.length * stream.rate), round(config.window.hop * stream.rate)),
            model=model,
            learning=plan if settings.is_learning else None,
            cleaning=settings.cleaning,
            chosen=self.chooser.excluded,
        )
        return repair, preparation, pipeline

    def _separate(self, item: Chunk | Gap) -> None:
        if self.repair is None or self.preparation is None or self.pipeline is None:
            return
        before = self.pipeline.model
        item = item if self._order is None else self._order.select(item)
        for repaired in self.repair.push(self.bad_channels.push(item)):
            for prepared in self.preparation.push(repaired):
                self._publish(self.pipeline.push(prepared))
        model = self.pipeline.model
        if model is not None and model is not before:
            self._describe()
            log.info("stream %s: %s", self.name, describe_model(model))

    def _publish(self, items: Sequence[Chunk | Gap]) -> None:
        for item in items:
            if self._stop_index is not None and self._stop_index < item.start:
                missing = Gap(self._stop_index, item.start - self._stop_index, "failed")
                self._publish([missing])
            self._stop_index = item.stop
            if isinstance(item, Chunk):
                self.samples_out += len(item.data)
                if not self._announcer.knows(item):
                    self._describe()
                    self._announce_model(item)
                self._announcer.announce_bad_channels(self.bad_channels.bad)
            else:
                self.samples_gap += item.n_samples
            for sink, kind in zip(self.sinks, self._published_kinds, strict=True):
                sink.publish(pick_cleaned(item) if kind == "cleaned" else item)
            self.events.release(item.stop)

    def _take_events(self) -> None:
        """Take the events that arrived, and publish those of samples that were published before."""
        events = self.source.pop_events()
        if len(events):
            self.events.push(events)
            if self._stop_index is not None:
                self.events.release(self._stop_index)

    def _publish_events(self, events: Events) -> None:
        for sink in self.sinks:
            sink.publish_events(events)

    def _describe(self) -> None:
        """Send the sinks the description of the stream, if it has changed."""
        if self.pipeline is None or self.preparation is None or self.repair is None:
            return
        outputs = {"sources": self.pipeline.output_stream, "cleaned": self.pipeline.cleaned_stream}
        self._announcer.announce_streams(outputs, self.preparation.compute_delay(self.repair.delay))

    def _announce_model(self, first: Chunk) -> None:
        """Send the sinks the description of the model of the next samples, and what it removes."""
        if self.preparation is not None:
            self._announcer.announce_model(first, self.model, self.preparation.output_stream)

    def _apply_choices(self) -> None:
        """Apply the choices of sources that were requested, from the next published sample on."""
        events = self.chooser.apply(self.pipeline, self._stop_index)
        if events:
            self._announcer.announce_choice(events)


def _count_samples(items: Sequence[Chunk | Gap]) -> int:
    return sum(len(item.data) for item in items if isinstance(item, Chunk))
