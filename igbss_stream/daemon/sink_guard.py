"""Keep the failure of a sink, as on a full disk, from stopping its stream or the other sinks."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import IgbssError
from igbss_stream.events import Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.model_facts import LearningFacts, Mixing

log = logging.getLogger(__name__)

_CALM = 5.0  # seconds without failure until a sink has recovered; a full disk may still take some samples


class Sink(Protocol):
    """Interface of a sink."""

    def start(self, stream: Stream) -> None:
        """Start a run of a stream, or change its description."""

    def set_model(self, mixing: Mixing | None, learning: LearningFacts | None) -> None:
        """Describe the model of the next samples: what is known of its mixing, and how it was learned."""

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        """State which channels of the input are bad from the next samples on."""

    def set_cleaning(self, cleaning: CleaningFacts | None) -> None:
        """Describe which sources are taken out of the channels from the next samples on."""

    def publish(self, item: Chunk | Gap) -> None:
        """Publish samples or a gap."""

    def publish_events(self, events: Events) -> None:
        """Publish events, after the samples that they belong to."""

    def serve(self) -> None:
        """Do periodic work; called a few times a second."""

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name. Any thread may call this."""

    def close(self) -> None:
        """End the stream."""


class GuardedSink:
    """A sink whose failures are counted and logged, and never raised.

    The first failure is logged, and then the recovery: the first samples that it takes after `_CALM`
    seconds without another failure.

    Parameters
    ----------
    stream : str
        Name of the stream.
    label : str
        Name of the sink in logs and metrics, such as ``sinks[1] hdf5``.
    sink : Sink

    Attributes
    ----------
    is_failing : bool
        Whether the sink has failed and not recovered.
    failures : int
        Number of failures.
    """

    def __init__(self, stream: str, label: str, sink: Sink) -> None:
        self.label = label
        self.failures = 0
        self.is_failing = False
        self._stream, self._sink = stream, sink
        self._last = 0.0  # time of the last failure
        self._before = 0  # failures before those of now
        self.get_counts = sink.get_counts

    def start(self, stream: Stream) -> None:
        """Start a run of a stream, or change its description."""
        self._try(self._sink.start, stream)

    def set_model(self, mixing: Mixing | None, learning: LearningFacts | None) -> None:
        """Describe the model of the next samples: what is known of its mixing, and how it was learned."""
        self._try(self._sink.set_model, mixing, learning)

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        """State which channels of the input are bad from the next samples on."""
        self._try(self._sink.set_bad_channels, names)

    def set_cleaning(self, cleaning: CleaningFacts | None) -> None:
        """Describe which sources are taken out of the channels from the next samples on."""
        self._try(self._sink.set_cleaning, cleaning)

    def publish(self, item: Chunk | Gap) -> None:
        """Publish samples or a gap."""
        if self._try(self._sink.publish, item) and self.is_failing and isinstance(item, Chunk):
            self._note_recovery()

    def publish_events(self, events: Events) -> None:
        """Publish events, after the samples that they belong to."""
        self._try(self._sink.publish_events, events)

    def serve(self) -> None:
        """Do periodic work; called a few times a second."""
        self._try(self._sink.serve)

    def close(self) -> None:
        """End the stream."""
        self._try(self._sink.close)

    def _try(self, call: Callable[..., None], *arguments: Any) -> bool:
        """Call the sink; return whether it succeeded."""
        try:
            call(*arguments)
        except Exception as error:  # a fault of the program in one sink is no fault of the others
            self.failures += 1
            self._last = time.monotonic()
            if not self.is_failing:
                self.is_failing = True
                trace = None if isinstance(error, IgbssError) else error
                log.error("stream %s: %s fails: %s", self._stream, self.label, error, exc_info=trace)
            return False
        return True

    def _note_recovery(self) -> None:
        if time.monotonic() < self._last + _CALM:
            return
        failed, self._before = self.failures - self._before, self.failures
        self.is_failing = False
        log.info("stream %s: %s has recovered after %d failures", self._stream, self.label, failed)
