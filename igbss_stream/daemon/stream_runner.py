"""One stream on its way through the daemon: feed, repair, preparation, pipeline, sinks, and its counts."""

import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import fields, replace
from threading import Event
from typing import Any, Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config import schema as settings
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.mixing import mixing_of
from igbss_stream.daemon.sources import Feed
from igbss_stream.errors import IgbssError, ParameterError
from igbss_stream.feeds.wire import Mixing
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.repair.stage import RepairStage
from igbss_stream.separation.cleaning import Cleaner
from igbss_stream.streaming.model_updates import StreamModel
from igbss_stream.streaming.pipeline import LearningPlan, Pipeline

log = logging.getLogger(__name__)

DELAYS = (
    *(0.0001, 0.0002, 0.0003, 0.0005, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.005),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
)
"""Upper bounds of the delay histogram, in seconds."""


class Sink(Protocol):
    """What the daemon needs of a sink."""

    def start(self, stream: Stream) -> None:
        """Begin a run of a stream, or tell that its description changed."""

    def mix(self, mixing: Mixing | None) -> None:
        """Take what the channels are made of from now on; None if that is not known."""

    def publish(self, item: Chunk | Gap) -> None:
        """Take samples, or a gap."""

    def serve(self) -> None:
        """Do what is due; called a few times a second."""

    def counts(self) -> dict[str, int]:
        """Return counters by name."""

    def close(self) -> None:
        """End the stream."""


def _numbers(counts: Any) -> list[tuple[str, int]]:
    """Return the counters of a dataclass that are whole numbers."""
    named = [(field.name, getattr(counts, field.name)) for field in fields(counts)]
    return [(name, count) for name, count in named if isinstance(count, int)]


class Lane:
    """Takes one stream from its feed to its sinks.

    Parameters
    ----------
    stream : igbss_stream.daemon.config.schema.Stream
    feed : Feed
    sinks : sequence of Sink
    executor : Executor
        In which models are learned.
    model : StreamModel, optional
        Of an earlier run.
    wait : bool
        Whether the feed may be held up until a model is learned.
    stop : Event, optional
        Set when the daemon is to stop; ends such a wait.

    Attributes
    ----------
    samples_in, samples_out, samples_gap : int
        Samples that came in, and indices that were published as samples and as gaps.
    is_refused : bool
        Whether the feed is one that the settings cannot be used with; nothing of it is taken.
    delays : list of int
        Number of chunks published within each of `DELAYS` of their arrival, and beyond the last.
    """

    def __init__(
        self,
        stream: settings.Stream,
        feed: Feed,
        sinks: Sequence[Sink],
        executor: Executor,
        *,
        model: StreamModel | None = None,
        wait: bool = False,
        stop: Event | None = None,
    ) -> None:
        self.name = stream.name
        self.feed = feed
        self.pipeline: Pipeline | None = None
        self.repair: RepairStage | None = None
        self.preparation: OnlinePreparation | None = None
        self.samples_in = self.samples_out = self.samples_gap = 0
        self.delays = [0] * (len(DELAYS) + 1)
        self.delay_sum = 0.0
        self.sink_failures = 0
        self.is_refused = False
        self._settings, self._sinks = stream, sinks
        self._executor, self._wait, self._stop = executor, wait, stop
        self._model = model
        self._publishes = [sink.publish for sink in stream.sinks]
        self._out: dict[str, Stream] = {}
        self._mixed = 0  # version of the model whose mixing the sinks were told
        self._failures = 0

    @property
    def model(self) -> StreamModel | None:
        """The model in force."""
        return self._model if self.pipeline is None else self.pipeline.model

    def step(self, timeout: float) -> None:
        """Wait up to so many seconds for samples, and take what came to the sinks."""
        items = self.feed.receive(timeout)
        if not items:
            return
        arrived = time.perf_counter()
        if self.pipeline is None and not self._open(items[0].start):
            return
        for item in items:
            self.samples_in += len(item.data) if isinstance(item, Chunk) else 0
            self._separate(item)
        spent = time.perf_counter() - arrived
        self.delays[bisect_left(DELAYS, spent)] += 1
        self.delay_sum += spent
        self._report()

    @property
    def is_silent(self) -> bool:
        """Whether the feed has been silent for longer than it may."""
        return self.feed.silence.is_silent

    @property
    def status(self) -> str:
        """One word: "ok", "learning", "waiting" for the first samples, "silent", "refused" or "ended"."""
        if self.feed.ended:
            return "ended"
        if self.is_silent:
            return "silent"
        if self.is_refused:
            return "refused"
        if self.pipeline is None:
            return "waiting"
        return "learning" if self.model is None else "ok"

    def events(self) -> dict[str, int]:
        """Return what was counted, by name."""
        counted = dict(self.feed.counts()) | {"sink_failures": self.sink_failures}
        if self.is_refused:
            counted["rejected_description"] = counted.get("rejected_description", 0) + 1
        for sink in self._sinks:
            for name, count in sink.counts().items():
                counted[name] = counted.get(name, 0) + count
        if self.repair is not None:
            counted |= {f"repair_{name}": count for name, count in _numbers(self.repair.counts)}
        if self.pipeline is not None and self.pipeline.learner is not None:
            counted |= {f"models_{name}": count for name, count in _numbers(self.pipeline.learner.counts)}
        return counted

    def serve(self) -> None:
        """Do what is due at the sinks."""
        for sink in self._sinks:
            sink.serve()

    def finish(self) -> None:
        """Take what is still inside to the sinks, and close both ends."""
        self.feed.close()
        if self.pipeline is not None and self.repair is not None and self.preparation is not None:
            for repaired in self.repair.flush():
                for item in self.preparation.push(repaired):
                    self._publish(self.pipeline.push(item))
            for item in self.preparation.flush():
                self._publish(self.pipeline.push(item))
            self._publish(self.pipeline.flush())
        for sink in self._sinks:
            sink.close()

    def _open(self, start: int) -> bool:
        """Make what samples go through, now that it is known what comes; return whether that could be done.

        What a feed sends is up to its sender: if it does not go with the settings, other streams go on.
        """
        stream = self.feed.stream
        if stream is None:
            raise RuntimeError("samples came from a feed that is not described")
        if self.is_refused:
            return False
        try:
            self.repair, self.preparation, self.pipeline = self._stages(stream)
        except ParameterError as error:
            if isinstance(self._settings.source, FileInput):
                raise  # a file stays as it is
            self.is_refused = True
            log.error("stream %s: the feed is refused: %s", self.name, error)
            return False
        log.info(
            "stream %s: %d channels at %g Hz from sample %d",
            self.name,
            stream.n_channels,
            stream.rate,
            start,
        )
        self._describe()
        return True

    def _stages(self, fed: Stream) -> tuple[RepairStage, OnlinePreparation, Pipeline]:
        own = self._settings
        repair = RepairStage(fed, own.repair.settings())
        preparation = OnlinePreparation(fed, own.prepare.settings())
        stream = preparation.output_stream
        model = self._model
        if model is not None and model.separator.n_channels != stream.n_channels:
            log.warning(
                "stream %s: the saved model is for %d channels, there are %d; it is not taken up",
                self.name, model.separator.n_channels, stream.n_channels,
            )  # fmt: skip
            model = None
        pipeline = Pipeline(
            stream,
            own.model.settings(),
            window=(round(own.window.length * stream.rate), round(own.window.hop * stream.rate)),
            model=model,
            learning=LearningPlan(
                own.learning.schedule(stream.rate), self._executor, self._wait, self._stop
            ),
            cleaning=None if own.clean is None else own.clean.cleaning(),
        )
        return repair, preparation, pipeline

    def _separate(self, item: Chunk | Gap) -> None:
        if self.repair is None or self.preparation is None or self.pipeline is None:
            return
        before = self.pipeline.model
        for repaired in self.repair.push(item):
            for prepared in self.preparation.push(repaired):
                self._publish(self.pipeline.push(prepared))
        model = self.pipeline.model
        if model is not None and model is not before:
            self._describe()
            log.info(
                "stream %s: model %d from sample %d%s",
                self.name,
                model.version,
                model.since,
                told(model.separator.cleaner),
            )

    def _publish(self, items: Sequence[Chunk | Gap]) -> None:
        for item in items:
            if isinstance(item, Chunk):
                self.samples_out += len(item.data)
                if not self._out or item.data.shape[1] != self._out["sources"].n_channels:
                    self._describe()
                if item.model_version != self._mixed:
                    self._mix(item.model_version)
            else:
                self.samples_gap += item.n_samples
            for sink, what in zip(self._sinks, self._publishes, strict=True):
                self._attempt(sink.publish, cleaned(item) if what == "cleaned" else item)

    def _attempt(self, call: Callable[[Any], None], what: Any) -> None:
        """Call a sink; one that fails, as on a full disk, does not stop the others."""
        try:
            call(what)
        except IgbssError as error:
            self.sink_failures += 1
            if self.sink_failures == 1:
                log.error("stream %s: %s", self.name, error)

    def _describe(self) -> None:
        """Tell the sinks what comes, if that changed."""
        if self.pipeline is None or self.preparation is None or self.repair is None:
            return
        for what, out in (
            ("sources", self.pipeline.output_stream),
            ("cleaned", self.pipeline.cleaned_stream),
        ):
            stream = replace(out, delay=out.delay + self.preparation.compute_delay(self.repair.delay))
            if stream == self._out.get(what):
                continue
            self._out[what] = stream
            self._mixed = 0  # whoever begins anew has to be told again
            for sink, wanted in zip(self._sinks, self._publishes, strict=True):
                if wanted == what:
                    self._attempt(sink.start, stream)

    def _mix(self, version: int) -> None:
        """Tell the sinks what the channels are made of by a model whose first samples come next."""
        self._mixed = version
        if self.model is None or self.preparation is None:
            return
        mixing = mixing_of(self.model, self.preparation.output_stream)
        for sink, what in zip(self._sinks, self._publishes, strict=True):
            if what == "sources":
                self._attempt(sink.mix, mixing)

    def _report(self) -> None:
        """Log what happened to channels and models."""
        if self.repair is None or self.pipeline is None:
            return
        for event in self.repair.pop_events():
            log.warning(
                "stream %s: %s is %s from sample %d", self.name, event.channel, event.kind, event.index
            )
        learner = self.pipeline.learner
        if learner is not None and learner.counts.failed > self._failures:
            self._failures = learner.counts.failed
            log.warning("stream %s: no model could be learned: %s", self.name, learner.failure)


def cleaned(item: Chunk | Gap) -> Chunk | Gap:
    """Return a chunk of cleaned channels in place of one of sources; a gap is one of both."""
    if isinstance(item, Gap):
        return item
    if item.cleaned is None:
        raise RuntimeError("nothing was cleaned")
    return Chunk(item.cleaned, item.start, item.model_version)


def told(cleaner: Cleaner | None) -> str:
    """Return what a model takes out of the channels, as the end of a sentence."""
    if cleaner is None:
        return ""
    return "; ".join((f", without {cleaner}", *cleaner.notices))
