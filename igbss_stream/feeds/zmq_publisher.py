"""Publish a stream on a ZeroMQ socket, to any number of subscribers, in the format of docs/wire.md.

Publishing does not wait by default. ZeroMQ queues up to `high_water_mark` messages for each subscriber. A
subscriber that falls further behind misses messages; the others miss none, and memory is bounded by
`high_water_mark` messages per subscriber. ZeroMQ does not report who missed which message, but it reports a
full queue, which is when a subscriber begins to miss messages. It then misses all until it has read about
half of its queue. `overflows` counts these events. A subscriber recognises the missed messages by `seq`.

ZeroMQ keeps each subscription as a tree of its bytes, without a limit, and cannot disconnect a single peer.
If there are more subscriptions than any set of readers needs, the socket is closed and bound again: readers
reconnect by themselves, and find what they missed by `seq`. `floods` counts these events.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import zmq

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.endpoint import ZmqEndpoint
from igbss_stream.feeds.keys import ServerKeys
from igbss_stream.feeds.sockets import get_publisher_options, is_readable, send_nowait
from igbss_stream.feeds.wire import Encoder, Frames, Mixing

log = logging.getLogger(__name__)

_MAX_SUBSCRIPTIONS = 2000  # about 12 MB of memory
_META_INTERVAL = 1.0  # seconds between descriptions
_LINGER = 0.5  # seconds that closing waits for unsent messages


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
    subscriptions : int
        Number of active subscriptions.
    floods : int
        Number of times that all subscribers were disconnected because of too many subscriptions.

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
        self.subscriptions = 0
        self.floods = 0
        self._encoder: Encoder | None = None
        self._next_meta = 0.0
        self._keys, self._options = keys, get_publisher_options(high_water_mark, has_keys=keys is not None)
        self._endpoint = self._open(address)
        self.address = self._endpoint.address

    def _open(self, address: str) -> ZmqEndpoint:
        endpoint = ZmqEndpoint(zmq.XPUB, address, bind=True, keys=self._keys, options=self._options)
        self._socket = endpoint.socket
        return endpoint

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

    def publish_mixing(self, mixing: Mixing | None) -> None:
        """Publish a description with a new mixing, and include it in every later description.

        Parameters
        ----------
        mixing : Mixing or None
            None if it is not known. One with more than 16,384 weights is omitted.

        Raises
        ------
        RuntimeError
            If `start` was not called.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing its mixing")
        self._encoder.set_mixing(mixing)
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
        """Read the requests of subscribers; return whether one of them is new."""
        n_new = 0
        while is_readable(self._socket):
            kind = self._socket.recv()[:1]
            n_new += kind == b"\1"
            self.subscriptions += (kind == b"\1") - (kind == b"\0")
            if self.subscriptions > _MAX_SUBSCRIPTIONS:
                self._disconnect_all()
                return False
        return n_new > 0

    def _disconnect_all(self) -> None:
        """Close the socket and bind it again, which forgets all subscriptions."""
        self.floods += 1
        self.subscriptions = 0
        if self.floods == 1:
            log.error(
                "a subscriber of %s makes more than %d subscriptions: all subscribers are disconnected",
                self.address,
                _MAX_SUBSCRIPTIONS,
            )
        self._endpoint.close()
        self._endpoint = self._open(self.address)

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
