"""Publish a stream on a ZeroMQ socket, to any number of subscribers, in the format of docs/wire.md.

Publishing does not wait by default. ZeroMQ queues up to `high_water_mark` messages for each subscriber. A
subscriber that falls further behind misses messages; the others miss none, and memory is bounded by
`high_water_mark` messages per subscriber. ZeroMQ does not report who missed which message, but it reports a
full queue, which is when a subscriber begins to miss messages. It then misses all until it has read about
half of its queue. `overflows` counts these events. A subscriber recognises the missed messages by `seq`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import zmq

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.events import Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.endpoint import ZmqEndpoint
from igbss_stream.feeds.keys import ServerKeys
from igbss_stream.feeds.model_facts import LearningFacts, Mixing
from igbss_stream.feeds.sockets import get_publisher_options, is_readable, send_nowait
from igbss_stream.feeds.subscription_limits import SubscriptionLimits
from igbss_stream.feeds.wire import Frames

_META_INTERVAL = 1.0  # seconds between descriptions
_LINGER = 0.5  # seconds that closing waits for unsent messages
_MAX_REQUESTS = 512  # of subscribers that are read at once, so that the stream goes on


def _do_not_retry() -> bool:
    return False


class ZmqPublisher(Closeable):
    """Publish one stream; a context manager, which ends the stream and closes the socket.

    Parameters
    ----------
    address : str
        Address to bind to, such as ``"tcp://127.0.0.1:5556"``. With a port alone, only this machine can
        connect; ``tcp://*:5556`` is open to the network. Port ``*`` chooses a free port, see `address`.
    high_water_mark : int
        Largest number of queued messages per subscriber.
    keys : ServerKeys, optional
        Encrypt the stream, and admit only the subscribers whose keys are allowed.

    Attributes
    ----------
    address : str
        The complete address, with the port that was bound.
    sent : int
        Number of published messages of samples and gaps.
    overflows : int
        Number of times that a subscriber fell too far behind and began to miss messages.

    Raises
    ------
    ParameterError
        If the address is not valid.
    FeedError
        If the socket cannot be bound.
    """

    def __init__(
        self, address: str, *, high_water_mark: int = 1000, keys: ServerKeys | None = None
    ) -> None:
        self.sent = 0
        self.overflows = 0
        self._encoder: Encoder | None = None
        self._next_meta = 0.0
        options = get_publisher_options(high_water_mark, has_keys=keys is not None)
        self._endpoint = ZmqEndpoint(zmq.XPUB, address, bind=True, keys=keys, options=options)
        self._socket = self._endpoint.socket
        self.address = self._endpoint.address
        self._limits = SubscriptionLimits(self.address)

    @property
    def subscriptions(self) -> int:
        """Number of active subscriptions."""
        return self._limits.n_subscriptions

    @property
    def evicted(self) -> int:
        """Number of connections that were shut down because they subscribed without end."""
        return self._limits.evicted

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return self._endpoint.denied

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Begin a run of the stream, and publish its description.

        Parameters
        ----------
        stream : Stream
        extra : mapping, optional
            More items of the description, of types that JSON supports.
        """
        self._encoder = Encoder(stream, time.time_ns() // 1000, extra)
        self._next_meta = 0.0
        self.serve()

    def publish_model(self, mixing: Mixing | None, learning: LearningFacts | None = None) -> None:
        """Publish a description with a new model, and include it in every later description.

        Parameters
        ----------
        mixing : Mixing or None
            None if it is not known. One with more than 16,384 weights is omitted.
        learning : LearningFacts, optional
            How the model was learned, and how reliable its sources are.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing its model")
        self._encoder.set_model(mixing, learning)
        self._next_meta = 0.0
        self.serve()

    def publish_bad_channels(self, names: tuple[str, ...]) -> None:
        """Publish a description with the bad channels of the input, and include them in every later one.

        Parameters
        ----------
        names : tuple of str
            Empty once all are good.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing its bad channels")
        self._encoder.set_bad_channels(names)
        self._next_meta = 0.0
        self.serve()

    def publish_cleaning(self, cleaning: CleaningFacts | None) -> None:
        """Publish a description with the sources that are taken out, and include it in every later one.

        Parameters
        ----------
        cleaning : CleaningFacts or None
            None if the stream has no cleaned channels, and its sources no names.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing which sources are taken out")
        self._encoder.set_cleaning(cleaning)
        self._next_meta = 0.0
        self.serve()

    def publish(self, item: Chunk | Gap, retry: Callable[[], bool] = _do_not_retry) -> None:
        """Publish samples or a gap. The array may be modified afterwards.

        Parameters
        ----------
        item : Chunk or Gap
        retry : callable, optional
            Called each time the queue of a subscriber is full. True tries again, and nobody misses the
            message; False, the default, skips that subscriber. It should wait briefly.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing")
        self.serve()
        self._send(self._encoder.encode(item), retry)
        self.sent += 1

    def publish_events(self, events: Events, retry: Callable[[], bool] = _do_not_retry) -> None:
        """Publish events, each after the sample that it belongs to.

        Parameters
        ----------
        events : Events
            With the indices of the published samples.
        retry : callable, optional
            See `publish`.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing events")
        for frames in self._encoder.encode_events(events):
            self._send(frames, retry)

    def serve(self) -> None:
        """Answer handshakes, and describe the stream to new subscribers and every second.

        `publish` calls it. While nothing is published, call it a few times a second.
        """
        if self._endpoint.authenticator is not None:
            self._endpoint.authenticator.serve()
        has_new = self._read_subscriptions()
        now = time.monotonic()
        if self._encoder is not None and (has_new or now >= self._next_meta):
            self._next_meta = now + _META_INTERVAL
            self._send(self._encoder.encode_meta())

    def close(self, linger: float = _LINGER, retry: Callable[[], bool] = _do_not_retry) -> None:
        """End the stream and close the socket. Closing it twice is allowed.

        Parameters
        ----------
        linger : float
            Longest wait for messages that are not sent yet, in seconds.
        retry : callable, optional
            See `publish`.
        """
        if self._encoder is not None:
            self._send(self._encoder.encode_end(), retry)
            self._encoder = None
        self._endpoint.close(linger)

    def _read_subscriptions(self) -> bool:
        """Read the requests of subscribers; return whether one of them is new.

        Asking for requests also makes libzmq notice which subscribers have read their queues, which `send`
        does at most once a millisecond. Without that, a queue that is empty would count as full.
        """
        has_new = False
        for _ in range(_MAX_REQUESTS):
            if not is_readable(self._socket):
                break
            has_new |= self._limits.note(self._socket.recv(copy=False))
        self._limits.prune()
        return has_new

    def _send(self, frames: Frames, retry: Callable[[], bool] = _do_not_retry) -> None:
        """Send to all subscribers whose queue is not full."""
        while True:
            try:
                send_nowait(self._socket, frames)
                return
            except zmq.Again:
                if not retry():
                    break
        # with XPUB_NODROP a full queue blocks the socket; disable it for this message
        self._socket.set(zmq.XPUB_NODROP, 0)
        send_nowait(self._socket, frames)
        self._socket.set(zmq.XPUB_NODROP, 1)
        self.overflows += 1
