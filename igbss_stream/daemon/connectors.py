"""Open the sources and sinks of a configuration, and wait for input.

Each kind is imported only where it is used.
"""

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output, Output, ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, LslInput
from igbss_stream.daemon.sources import SocketSource, Source, as_socket_keys
from igbss_stream.daemon.viewer_keys import ViewerKeys
from igbss_stream.feeds.keys import ServerKeys

if TYPE_CHECKING:
    from igbss_stream.daemon.sink_guard import Sink
    from igbss_stream.daemon.stream_runner import StreamRunner
    from igbss_stream.events import Events
    from igbss_stream.feeds.cleaning_facts import CleaningFacts
    from igbss_stream.feeds.lsl_publisher import LslPublisher
    from igbss_stream.feeds.model_facts import LearningFacts, Mixing
    from igbss_stream.files.writers.stream_recording import RecordingSink

log = logging.getLogger(__name__)

_MOST_EARLY = 1 << 12  # tables of events before the first samples of a recorded run
_POLL_INTERVAL = 0.002  # seconds between checks of sources without a socket


def open_source(stream: StreamSection) -> Source:
    """Open the source of a stream.

    Raises
    ------
    FeedError, RecordingError
        If it cannot be opened.
    """
    source = stream.source
    if isinstance(source, FileInput):
        from igbss_stream.daemon.file_source import FileSource

        return FileSource(stream.name, source)
    if isinstance(source, LslInput):
        from igbss_stream.daemon.lsl_source import LslStreamSource

        return LslStreamSource(stream.name, source)
    return SocketSource(stream.name, source)


def open_sink(sink: Output, viewer_keys: ViewerKeys | None = None) -> "Sink":
    """Open a sink.

    Parameters
    ----------
    sink : Output
    viewer_keys : ViewerKeys, optional
        Keys of the live page, which is admitted if they are for this sink.

    Raises
    ------
    FeedError, RecordingError
        If it cannot be opened.
    """
    if isinstance(sink, ZmqOutput):
        return _SocketSink(sink if viewer_keys is None else viewer_keys.add_to(sink))
    if isinstance(sink, Hdf5Output):
        return _open_file_sink(sink)
    from igbss_stream.feeds.lsl_publisher import LslPublisher

    return _OutletSink(LslPublisher(sink.type), sink.name)


def _open_file_sink(sink: Hdf5Output) -> "_FileSink":
    from igbss_stream.files.writers.recording_layout import check_recording_path
    from igbss_stream.files.writers.stream_recording import RecordingSink

    check_recording_path(sink.path, sink.if_exists, sink.rotation)
    return _FileSink(
        RecordingSink(sink.path, flush_every=sink.flush, if_exists=sink.if_exists, rotate=sink.rotation)
    )


class _SocketSink:
    """Publish through ZeroMQ."""

    def __init__(self, config: ZmqOutput) -> None:
        from igbss_stream.feeds.zmq_publisher import ZmqPublisher

        keys = None if config.curve is None else as_socket_keys(config.curve)
        if keys is not None and not isinstance(keys, ServerKeys):
            raise TypeError("a sink is the server of its keys")
        self._sink = sink = ZmqPublisher(config.address, high_water_mark=config.queue, keys=keys)
        self.start, self.publish, self.close = sink.start, sink.publish, sink.close
        self.set_model, self.publish_events = sink.publish_model, sink.publish_events
        self.set_bad_channels, self.set_cleaning = sink.publish_bad_channels, sink.publish_cleaning
        self._logged: set[str] = set()

    def serve(self) -> None:
        """Do periodic work, and log the first time that a peer misses something."""
        self._sink.serve()
        self._log_once(self._sink.overflows, "a subscriber of %s is too slow and misses messages")
        self._log_once(self._sink.denied, "a subscriber of %s was rejected: its key is not allowed")
        self._log_once(self._sink.evicted, "a subscriber of %s was disconnected: it subscribes without end")

    def get_counts(self) -> dict[str, int]:
        """Return counters by name."""
        sink = self._sink
        return {
            "published": sink.sent,
            "overflows": sink.overflows,
            "subscriptions": sink.subscriptions,
            "evicted": sink.evicted,
            "denied": sink.denied,
        }

    def _log_once(self, count: int, text: str) -> None:
        """Log the first occurrence of an event; the metrics show the number of occurrences."""
        if count and text not in self._logged:
            self._logged.add(text)
            log.warning(text, self._sink.address)


class _FileSink:
    """Record to a file. A run starts with its first samples, because their index is certain.

    While the file cannot be written, e.g. on a full disk, `publish` raises and counts the samples; later
    ones are recorded again as soon as that is possible.
    """

    def __init__(self, sink: "RecordingSink") -> None:
        self._sink = sink
        self._pending: Stream | None = None
        self._early = deque["Events"]()
        self._n_dropped = 0
        self.serve, self.close = sink.serve, sink.close

    def start(self, stream: Stream) -> None:
        """Start a run of the stream."""
        self._pending = stream

    def set_model(self, mixing: "Mixing | None", learning: "LearningFacts | None") -> None:
        """Record how the model of the next samples was learned; a recording does not contain the mixing."""
        self._sink.set_learning(learning)

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        """Ignore it: the events of a recording name them."""

    def set_cleaning(self, cleaning: "CleaningFacts | None") -> None:
        """Ignore it: a recording has the event of each choice."""

    def publish_events(self, events: "Events") -> None:
        """Write events; those of a run whose samples have not begun wait for them."""
        if self._pending is None:
            self._sink.write_events(events)
        else:
            self._early.append(events)
            if len(self._early) > _MOST_EARLY:
                self._n_dropped += len(self._early.popleft())

    def publish(self, item: Chunk | Gap) -> None:
        """Write samples, or a gap between samples."""
        if self._pending is not None:
            if isinstance(item, Gap):
                return
            self._sink.set_stream(self._pending)
            self._pending = None
        self._sink.write(item)
        while self._early:
            self._sink.write_events(self._early.popleft())

    def get_counts(self) -> dict[str, int]:
        """Return counters by name."""
        return {
            "recorded": self._sink.n_recorded,
            "unrecorded": self._sink.n_unrecorded,
            "events_unrecorded": self._sink.n_events_unrecorded + self._n_dropped,
        }


class _OutletSink:
    """Publish through an LSL outlet with its own name."""

    def __init__(self, sink: "LslPublisher", name: str) -> None:
        self._sink, self._name = sink, name
        self.publish, self.serve, self.close = sink.publish, sink.serve, sink.close
        self.publish_events = sink.publish_events

    def start(self, stream: Stream) -> None:
        """Start a run of the stream."""
        self._sink.start(replace(stream, name=self._name))

    def set_model(self, mixing: "Mixing | None", learning: "LearningFacts | None") -> None:
        """Ignore it: the description of an outlet cannot change."""

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        """Ignore it: the outlet of its events names them."""

    def set_cleaning(self, cleaning: "CleaningFacts | None") -> None:
        """Ignore it: the outlet has the event of each choice."""

    def get_counts(self) -> dict[str, int]:
        """Return counters by name."""
        return {"published_lsl": self._sink.sent}


def wait_for_input(runners: "Sequence[StreamRunner]", timeout: float) -> "list[StreamRunner]":
    """Wait up to a number of seconds for input; return the streams to process.

    These are the streams with input, or all streams if there is none: a silent source has to be processed
    as well, to detect the silence.
    """
    polled = [runner for runner in runners if isinstance(runner.source, SocketSource)]
    others = [r for r in runners if not isinstance(r.source, SocketSource) and not r.source.ended]
    if not polled:
        time.sleep(_POLL_INTERVAL)
        return others
    from igbss_stream.feeds.zmq_receiver import wait_for_any

    wait = _POLL_INTERVAL if others else timeout
    receivers = [r.source.receiver for r in polled if isinstance(r.source, SocketSource)]
    return [polled[i] for i in wait_for_any(receivers, wait)] + others or list(runners)
