"""Opens the feeds and sinks that a configuration names; each kind is imported only where it is used."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.chunk import Stream as Description
from igbss_stream.daemon.config.schema import Stream
from igbss_stream.daemon.config.sinks import Hdf5Output, Sink, ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, LslFeed
from igbss_stream.daemon.sources import Feed, SocketFeed, curve
from igbss_stream.daemon.viewer_keys import Guest
from igbss_stream.errors import RecordingError
from igbss_stream.feeds.keys import ServerKeys

if TYPE_CHECKING:
    from igbss_stream.daemon.stream_runner import Lane
    from igbss_stream.daemon.stream_runner import Sink as OpenSink
    from igbss_stream.feeds.lsl_publisher import LslPublisher
    from igbss_stream.feeds.wire import Mixing
    from igbss_stream.files.writers.stream_recording import RecordingSink

log = logging.getLogger(__name__)

_OTHERS = 0.002  # seconds between looks at feeds that no poll covers


def open_feed(stream: Stream) -> Feed:
    """Open where a stream comes from.

    Raises
    ------
    FeedError, RecordingError
        If it cannot be opened.
    """
    source = stream.source
    if isinstance(source, FileInput):
        from igbss_stream.daemon.file_source import FileFeed

        return FileFeed(stream.name, source)
    if isinstance(source, LslFeed):
        from igbss_stream.daemon.lsl_source import LslStreamFeed

        return LslStreamFeed(stream.name, source)
    return SocketFeed(stream.name, source)


def open_sink(stream: Stream, sink: Sink, guest: Guest | None = None) -> "OpenSink":
    """Open where sources go.

    Parameters
    ----------
    stream : Stream
    sink : Sink
    guest : Guest, optional
        Is let in as well, if it is a guest of this sink.

    Raises
    ------
    FeedError, RecordingError
        If it cannot be opened.
    """
    if isinstance(sink, ZmqOutput):
        return _Socket(sink if guest is None else guest.let_in(sink))
    if isinstance(sink, Hdf5Output):
        from igbss_stream.files.writers.stream_recording import RecordingSink

        if sink.if_exists == "refuse" and sink.path.exists():
            raise RecordingError(
                f"'{sink.path}' exists; choose if_exists: append or overwrite, or another path."
            )
        return _Recording(RecordingSink(sink.path, flush_every=sink.flush, existing=sink.if_exists))
    from igbss_stream.feeds.lsl_publisher import LslPublisher

    return _Outlet(LslPublisher(sink.type), sink.name)


class _Socket:
    """A ZeroMQ publisher."""

    def __init__(self, sink: ZmqOutput) -> None:
        from igbss_stream.feeds.zmq_publisher import ZmqPublisher

        keys = None if sink.curve is None else curve(sink.curve)
        if keys is not None and not isinstance(keys, ServerKeys):
            raise TypeError("a sink is the server of its keys")
        self.sink = ZmqPublisher(sink.address, high_water_mark=sink.queue, keys=keys)
        self.start, self.publish, self.close = self.sink.start, self.sink.publish, self.sink.close
        self.mix = self.sink.publish_mixing
        self._told: set[str] = set()

    def serve(self) -> None:
        """Do what is due, and tell of peers that miss something."""
        self.sink.serve()
        self._tell(self.sink.overflows, "a subscriber of %s is too slow and misses messages")
        self._tell(self.sink.denied, "a subscriber of %s was turned away: its key is not allowed")

    def counts(self) -> dict[str, int]:
        """Return counters by name."""
        sink = self.sink
        return {
            "published": sink.sent,
            "overflows": sink.overflows,
            "subscriptions": sink.subscriptions,
            "denied": sink.denied,
        }

    def _tell(self, count: int, text: str) -> None:
        """Log once that something was counted; the metrics tell how often."""
        if count and text not in self._told:
            self._told.add(text)
            log.warning(text, self.sink.address)


class _WithoutMixing:
    """A sink that has no place for what the channels are made of."""

    def mix(self, mixing: "Mixing | None") -> None:
        """Pass over it."""


class _Recording(_WithoutMixing):
    """A recording beside the stream; it begins with the first samples, whose number is certain."""

    def __init__(self, sink: "RecordingSink") -> None:
        self._sink = sink
        self._awaited: Description | None = None
        self.serve, self.close = sink.serve, sink.close

    def start(self, stream: Description) -> None:
        """Begin a run of a stream."""
        self._awaited = stream

    def publish(self, item: Chunk | Gap) -> None:
        """Write samples, or a gap between samples."""
        if self._awaited is not None:
            if isinstance(item, Gap):
                return
            self._sink.start(self._awaited)
            self._awaited = None
        self._sink.write(item)

    def counts(self) -> dict[str, int]:
        """Return counters by name."""
        return {"recorded": self._sink.n_samples}


class _Outlet(_WithoutMixing):
    """An LSL outlet, under a name of its own."""

    def __init__(self, sink: "LslPublisher", name: str) -> None:
        self._sink, self._name = sink, name
        self.publish, self.serve, self.close = sink.publish, sink.serve, sink.close

    def start(self, stream: Description) -> None:
        """Begin a run of a stream."""
        self._sink.start(replace(stream, name=self._name))

    def counts(self) -> dict[str, int]:
        """Return counters by name."""
        return {"published_lsl": self._sink.sent}


def wait_for(lanes: "Sequence[Lane]", timeout: float) -> "list[Lane]":
    """Wait up to so many seconds until something comes; return the lanes to look at.

    Those are the ones where something came, or all of them if nothing did: a feed that is silent has to be
    looked at as well.
    """
    polled = [lane for lane in lanes if isinstance(lane.feed, SocketFeed)]
    others = [lane for lane in lanes if not isinstance(lane.feed, SocketFeed) and not lane.feed.ended]
    if not polled:
        time.sleep(_OTHERS)
        return others
    from igbss_stream.feeds.zmq_receiver import wait_for_any

    wait = _OTHERS if others else timeout
    came = wait_for_any([lane.feed.source for lane in polled if isinstance(lane.feed, SocketFeed)], wait)
    return [polled[i] for i in came] + others or list(lanes)
