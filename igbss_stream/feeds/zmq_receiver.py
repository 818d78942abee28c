"""Receive and check messages from a ZeroMQ socket; invalid ones are counted and dropped."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import zmq

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import ParameterError, WireError
from igbss_stream.feeds.endpoint import ZmqEndpoint
from igbss_stream.feeds.keys import CurveKeys
from igbss_stream.feeds.openephys import OpenEphysDecoder
from igbss_stream.feeds.socket_monitor import HandshakeFailure
from igbss_stream.feeds.sockets import SUBSCRIPTION_BYTES, is_readable, wait_readable
from igbss_stream.feeds.wire import Frames, Message, WireLimits, decode

_MAX_MESSAGES = 256  # read at once, which bounds the time until the caller continues
_MAX_FRAMES = 4  # kept of a message: one more than any valid one has
_BUFFER = 2  # position of the frame of samples
_COPIED_BYTES = 8192  # up to which samples are copied: libzmq would keep 8 KB for each small message
_SERVE_INTERVAL = 20  # ms that a handshake may wait while no message arrives

_DEFAULT_LIMITS = WireLimits()


class ZmqReceiver(Closeable):
    """Receive messages in the format of docs/wire.md, or of Open Ephys.

    A context manager, which closes the socket. `receive` does not raise, whatever arrives.

    Parameters
    ----------
    address : str
        Such as ``"tcp://127.0.0.1:5556"``; ``"5556"`` is the same.
    topic : str
        Prefix of the names of the streams to receive; for a SUB socket only.
    socket : {"sub", "pull"}
        SUB reads from PUB and XPUB, PULL from PUSH.
    bind : bool
        Whether the receiver binds and its senders connect, or the other way round.
    format : {"igbss", "openephys"}
    high_water_mark : int
        Largest number of queued messages; a publisher drops messages beyond it.
    limits : WireLimits
    keys : ServerKeys or ClientKeys, optional
    watch_handshakes : bool
        Whether to record why a handshake fails, see `handshake_failure`; only if the receiver connects.
        `receive` must then be called regularly.

    Attributes
    ----------
    received : int
        Number of messages received.
    rejected : Counter
        Number of messages rejected, by reason.
    address : str
        The complete address, with the port that was bound.

    Raises
    ------
    ParameterError
        If an option is not valid.
    FeedError
        If the socket cannot be opened.
    """

    def __init__(
        self,
        address: str,
        topic: str = "",
        *,
        socket: Literal["sub", "pull"] = "sub",
        bind: bool = False,
        format: Literal["igbss", "openephys"] = "igbss",
        high_water_mark: int = 1000,
        limits: WireLimits = _DEFAULT_LIMITS,
        keys: CurveKeys | None = None,
        watch_handshakes: bool = False,
    ) -> None:
        if socket not in _SOCKETS:
            raise ParameterError(f"socket must be one of {', '.join(_SOCKETS)}. Got {socket!r} instead.")
        self.received = 0
        self.rejected: Counter[str] = Counter()
        self._parse = _make_parser(format, limits)
        options = {
            zmq.RCVHWM: high_water_mark,
            zmq.MAXMSGSIZE: max(limits.message_bytes, limits.header_bytes),
        }
        self._endpoint = ZmqEndpoint(
            _SOCKETS[socket],
            address,
            bind=bind,
            keys=keys,
            options=options,
            watch_handshakes=watch_handshakes,
        )
        self._socket = self._endpoint.socket
        self._wait: int | None = None  # current value of RCVTIMEO
        self.address = self._endpoint.address
        if socket == "sub":
            # with Open Ephys the topic is the kind of a message, not the stream
            prefix = topic.encode()[:SUBSCRIPTION_BYTES]  # longer ones are refused; readers compare names
            self._socket.subscribe(b"DATA" if format == "openephys" else prefix)

    def close(self) -> None:
        """Close the socket. Closing it twice is allowed."""
        self._endpoint.close()

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return self._endpoint.denied

    @property
    def handshake_failure(self) -> HandshakeFailure | None:
        """Why the peer refuses the connection; None if it does not or if handshakes are not watched."""
        monitor = self._endpoint.monitor
        return None if monitor is None else monitor.failure

    def receive(self, timeout: float) -> list[Message]:
        """Wait for a message, then return all that have arrived, up to a limit.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds; 0 does not wait.

        Returns
        -------
        list of DataMessage, MetaMessage, GapMessage, EndMessage and EventsMessage
            In the order of arrival; empty if no valid message arrived.
        """
        messages: list[Message] = []
        frames = self._wait_for_frames(timeout)
        if frames is None and self._endpoint.monitor is not None:
            self._endpoint.monitor.poll()
        for i in range(_MAX_MESSAGES):
            if i:
                frames = self._read_frames() if is_readable(self._socket) else None
            if frames is None:
                break
            self.received += 1
            try:
                messages += self._parse(frames)
            except WireError as error:
                self.rejected[error.reason] += 1
        return messages

    def _wait_for_frames(self, timeout: float) -> Frames | None:
        authenticator = self._endpoint.authenticator
        if authenticator is None:
            self._set_wait(round(1000 * timeout))
            return self._read_frames()
        self._set_wait(_SERVE_INTERVAL)
        deadline = time.monotonic() + timeout
        while True:  # no handshake completes unless the authenticator is served
            authenticator.serve()
            frames = self._read_frames(0 if time.monotonic() < deadline else zmq.DONTWAIT)
            if frames is not None or time.monotonic() >= deadline:
                return frames

    def _set_wait(self, wait: int) -> None:
        if wait != self._wait:
            self._socket.rcvtimeo = self._wait = wait

    def _read_frames(self, flags: int = 0) -> Frames | None:
        """Return the first few frames of a message; None if no message arrived."""
        try:
            frame = self._socket.recv(flags, copy=False)
        except zmq.Again:
            return None
        frames: Frames = [frame.bytes]
        while frame.more:
            frame = self._socket.recv(copy=False)
            if len(frames) < _MAX_FRAMES:
                is_large = len(frames) == _BUFFER and len(frame) > _COPIED_BYTES
                frames.append(frame.buffer.toreadonly() if is_large else frame.bytes)
        return frames


def wait_for_any(receivers: Sequence[ZmqReceiver], timeout: float) -> list[int]:
    """Wait up to `timeout` seconds for messages; return the positions of the receivers that have one.

    Handshakes are answered meanwhile at all receivers, because a new sender has no message before its own.
    """
    endpoints = [receiver._endpoint for receiver in receivers]
    authenticators = [end.authenticator for end in endpoints if end.authenticator is not None]
    sockets = [end.socket for end in endpoints] + [one.socket for one in authenticators]
    found = wait_readable(sockets, timeout)
    for authenticator in authenticators:
        authenticator.serve()
    return [position for position in found if position < len(receivers)]


_SOCKETS = {"sub": zmq.SUB, "pull": zmq.PULL}


def _make_parser(format: str, limits: WireLimits) -> Callable[[Frames], list[Message]]:
    if format == "openephys":
        return OpenEphysDecoder(limits).decode
    if format != "igbss":
        raise ParameterError(f"format must be igbss or openephys. Got {format!r} instead.")
    return lambda frames: [decode(frames, limits)]
