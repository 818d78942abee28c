"""Publish a stream on a ZeroMQ socket, to any number of subscribers, in the format of docs/wire.md.

Publishing never waits, unless it is told to. For each subscriber ZeroMQ holds up to `high_water_mark`
messages; a subscriber that falls further behind misses messages, the others miss none, and memory stays
bounded by that many messages a subscriber. ZeroMQ does not tell who missed which message. What it can be
made to tell is when a queue is found full, that is when a subscriber begins to miss messages; it then
misses all until it has read about half of its queue. `overflows` counts these times. Which messages were
missed, a subscriber sees from `seq`.
"""

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

_META_INTERVAL = 1.0  # seconds
_LINGER = 0.5  # seconds that closing waits for the last messages to go out


def _never() -> bool:
    return False


class ZmqPublisher(Closeable):
    """Publishes one stream; a context manager, which says that the stream ends and closes the socket.

    Parameters
    ----------
    address : str
        Where to bind, such as ``"tcp://127.0.0.1:5556"``. A port alone is this machine only;
        ``tcp://*:5556`` is open to the network. Port ``*`` takes a free one, see `address`.
    high_water_mark : int
        Messages held for each subscriber.
    keys : ServerKeys, optional
        Encrypts, and lets in only the subscribers whose keys are allowed.

    Attributes
    ----------
    address : str
        The address in full.
    sent : int
        Messages of samples and gaps that were published.
    overflows : int
        Times that a subscriber fell too far behind and began to miss messages.
    subscriptions : int
        Subscriptions that are in force.

    Raises
    ------
    ParameterError
        If the address is not one.
    FeedError
        If the socket cannot be bound.
    """

    def __init__(
        self, address: str, *, high_water_mark: int = 1000, keys: ServerKeys | None = None
    ) -> None:
        self.sent = 0
        self.overflows = 0
        self.subscriptions = 0
        self._encoder: Encoder | None = None
        self._next_meta = 0.0
        options = get_publisher_options(high_water_mark)
        self._endpoint = ZmqEndpoint(zmq.XPUB, address, bind=True, keys=keys, options=options)
        self._socket = self._endpoint.socket
        self.address = self._endpoint.address

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return self._endpoint.denied

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Begin a run of the stream, and describe it.

        Parameters
        ----------
        stream : Stream
        extra : mapping, optional
            What else the description tells; anything that JSON can say.
        """
        self._encoder = Encoder(stream, time.time_ns() // 1000, extra)
        self._next_meta = 0.0
        self.serve()

    def publish_mixing(self, mixing: Mixing | None) -> None:
        """Tell at once what the channels are made of from now on, and with every description.

        Parameters
        ----------
        mixing : Mixing or None
            None if it is not known. One of more than 16,384 weights is not told.

        Raises
        ------
        RuntimeError
            If no stream was started.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before telling what it is made of")
        self._encoder.set_mixing(mixing)
        self._next_meta = 0.0
        self.serve()

    def publish(self, item: Chunk | Gap, retry: Callable[[], bool] = _never) -> None:
        """Publish samples, or a gap. The array may be changed afterwards.

        Parameters
        ----------
        item : Chunk or Gap
        retry : callable, optional
            Asked each time a subscriber's queue is full: True tries again, so that nobody misses the
            message; False, the default, leaves out who fell behind. It should wait a little.

        Raises
        ------
        RuntimeError
            If no stream was started.
        """
        if self._encoder is None:
            raise RuntimeError("start a stream before publishing")
        self.serve()
        self._send(self._encoder.encode(item), retry)
        self.sent += 1

    def serve(self) -> None:
        """Do what is due: answer handshakes, and describe the stream to new subscribers and every second.

        `publish` calls it; where nothing is published it must be called in its place, a few times a second.
        """
        if self._endpoint.authenticator is not None:
            self._endpoint.authenticator.serve()
        newcomers = self._read_subscriptions()
        now = time.monotonic()
        if self._encoder is not None and (newcomers or now >= self._next_meta):
            self._next_meta = now + _META_INTERVAL
            self._send(self._encoder.encode_meta())

    def close(self, linger: float = _LINGER, retry: Callable[[], bool] = _never) -> None:
        """End the stream and close. Closing it twice is allowed.

        Parameters
        ----------
        linger : float
            Seconds that closing waits at most for what subscribers have not taken yet.
        retry : callable, optional
            See `publish`.
        """
        if self._encoder is not None:
            self._send(self._encoder.encode_end(), retry)
            self._encoder = None
        self._endpoint.close(linger)

    def _read_subscriptions(self) -> bool:
        """Read what subscribers sent; return whether one of them is new."""
        newcomers = 0
        while is_readable(self._socket):
            kind = self._socket.recv()[:1]
            newcomers += kind == b"\1"
            self.subscriptions += (kind == b"\1") - (kind == b"\0")
        return newcomers > 0

    def _send(self, frames: Frames, retry: Callable[[], bool] = _never) -> None:
        """Send to all whose queue is open."""
        while True:
            try:
                send_nowait(self._socket, frames)
                return
            except zmq.Again:
                if not retry():
                    break
        # a full queue stops a socket that must not drop, so it may, for this message
        self._socket.set(zmq.XPUB_NODROP, 0)
        send_nowait(self._socket, frames)
        self._socket.set(zmq.XPUB_NODROP, 1)
        self.overflows += 1
