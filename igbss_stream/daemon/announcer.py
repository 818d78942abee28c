"""Describe a stream to its sinks: models, bad channels, and which sources are taken out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon.event_relay import EventRelay
from igbss_stream.daemon.published import compute_mixing
from igbss_stream.daemon.sink_guard import GuardedSink
from igbss_stream.daemon.source_chooser import EVENT_SOURCE, SourceChooser
from igbss_stream.events import Event
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.streaming.stream_model import StreamModel


class Announcer:
    """Sends descriptions to the sinks of a stream before the samples that they belong to.

    Parameters
    ----------
    sinks : sequence of GuardedSink
    kinds : sequence of {"sources", "cleaned"}
        What each sink publishes.
    chooser : SourceChooser
    events : EventRelay
        Takes the events of choices.
    """

    def __init__(
        self,
        sinks: Sequence[GuardedSink],
        kinds: Sequence[str],
        chooser: SourceChooser,
        events: EventRelay,
    ) -> None:
        self._sinks, self._kinds = sinks, kinds
        self._chooser, self._events = chooser, events
        self._streams: dict[str, Stream] = {}
        self._version = self._n_sources = 0  # of the last samples, which were described
        self._bad: tuple[str, ...] = ()  # channels that the sinks know to be bad

    def begin_run(self) -> None:
        """Forget the descriptions: those of the next run are new."""
        self._streams.clear()
        self._version = self._n_sources = 0
        self._chooser.begin_run()

    def knows(self, chunk: Chunk) -> bool:
        """Return whether the model of a chunk of sources, and their number, are described."""
        return chunk.model_version == self._version and chunk.data.shape[1] == self._n_sources

    def announce_streams(self, outputs: Mapping[str, Stream], delay: int) -> None:
        """Send the descriptions that have changed.

        Parameters
        ----------
        outputs : mapping of str to Stream
            Description of each kind that sinks publish.
        delay : int
            Samples to add to the delay of each.
        """
        for kind, out in outputs.items():
            stream = replace(out, delay=out.delay + delay)
            if stream == self._streams.get(kind):
                continue
            self._streams[kind] = stream
            self._version, self._bad = 0, ()  # a new run needs its model
            for sink, published in zip(self._sinks, self._kinds, strict=True):
                if published == kind:
                    sink.start(stream)

    def announce_model(self, first: Chunk, model: StreamModel | None, channels: Stream) -> None:
        """Describe the model of a chunk, and what it removes, if it was not described.

        Parameters
        ----------
        first : Chunk
        model : StreamModel or None
            The active model.
        channels : Stream
            Description of the channels.
        """
        self._n_sources = first.data.shape[1]
        if first.model_version == self._version:
            return
        self._version = first.model_version
        if model is None:
            return
        mixing = compute_mixing(model, channels)
        learning = LearningFacts.from_learning(model.version, model.separator.learning)
        for sink, kind in zip(self._sinks, self._kinds, strict=True):
            if kind == "sources":
                sink.set_model(mixing, learning)
        is_new_run = self._chooser.facts is None
        self._chooser.describe(model, first.start)
        labels = self._chooser.list_labels() if is_new_run else []
        self.announce_choice([Event(first.start, label, 0.0, EVENT_SOURCE) for label in labels])

    def announce_choice(self, events: list[Event]) -> None:
        """Describe which sources are taken out from the next samples on, and publish events on it."""
        self._events.push_published(events)
        for sink in self._sinks:
            sink.set_cleaning(self._chooser.stated)

    def announce_bad_channels(self, names: tuple[str, ...]) -> None:
        """State which channels of the input are bad from the next samples on, if others were before."""
        if names == self._bad:
            return
        self._bad = names
        for sink in self._sinks:
            sink.set_bad_channels(names)
