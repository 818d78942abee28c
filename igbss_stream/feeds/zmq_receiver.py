"""Messages from a ZeroMQ socket, checked; what is not a message is counted and dropped."""

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
from igbss_stream.feeds.sockets import is_readable, wait_readable
from igbss_stream.feeds.wire import Message, WireLimits, decode

_DRAIN = 256  # messages taken at once, so that the caller gets its turn
_FRAMES = 4  # kept of a message: one more than any good one has
_GATE_PATIENCE = 20  # ms that a handshake may wait while no message comes

_DEFAULT_LIMITS = WireLimits()


class ZmqReceiver(Closeable):
    """Receives messages in the format of docs/wire.md, or of Open Ephys.

    A context manager, which closes the socket. Whatever comes in, `receive` does not raise.

    Parameters
    ----------
    address : str
        Such as ``"tcp://127.0.0.1:5556"``; ``"5556"`` is the same.
    topic : str
        Beginning of the names of the streams to take; for a SUB socket only.
    socket : {"sub", "pull"}
        SUB reads from PUB and XPUB, PULL from PUSH.
    bind : bool
        Whether the source binds and its senders connect, or the other way round.
    format : {"igbss", "openephys"}
    high_water_mark : int
        Messages held while the caller is busy; beyond it a publisher drops.
    limits : WireLimits
    keys : ServerKeys or ClientKeys, optional
    watch_handshakes : bool
        Whether to take note of how it is received where it connects, for `refusal`. `receive` must then be
        called again and again.

    Attributes
    ----------
    received : int
        Number of messages that came in.
    rejected : Counter
        Number of messages that were refused, by reason.
    address : str
        The address in full, with the port that was bound.

    Raises
    ------
    ParameterError
        If an option cannot be used.
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
        self._wait: int | None = None  # RCVTIMEO as it is set
        self.address = self._endpoint.address
        if socket == "sub":
            # Open Ephys names the kind of a message there, not the stream
            self._socket.subscribe("DATA" if format == "openephys" else topic)

    def close(self) -> None:
        """Close the socket. Closing it twice is allowed."""
        self._endpoint.close()

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return self._endpoint.denied

    @property
    def handshake_failure(self) -> HandshakeFailure | None:
        """Why the peer does not let this end in, as far as it is `watch_handshakes`; None if it does."""
        handshakes = self._endpoint.monitor
        return None if handshakes is None else handshakes.failure

    def receive(self, timeout: float) -> list[Message]:
        """Wait until something comes in, then take all that is there, up to a limit.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds; 0 takes what is there.

        Returns
        -------
        list of DataMessage, MetaMessage, GapMessage and EndMessage
            In the order of their arrival; empty if nothing came, or nothing that is a message.
        """
        messages: list[Message] = []
        frames = self._wait_for_frames(timeout)
        if frames is None and self._endpoint.monitor is not None:
            self._endpoint.monitor.poll()
        for count in range(_DRAIN):
            if count:
                frames = self._frames() if is_readable(self._socket) else None
            if frames is None:
                break
            self.received += 1
            try:
                messages += self._parse(frames)
            except WireError as error:
                self.rejected[error.reason] += 1
        return messages

    def _wait_for_frames(self, timeout: float) -> list[bytes] | None:
        authenticator = self._endpoint.authenticator
        if authenticator is None:
            self._set_wait(round(1000 * timeout))
            return self._frames()
        self._set_wait(_GATE_PATIENCE)
        deadline = time.monotonic() + timeout
        while True:  # no handshake completes unless the authenticator is served
            authenticator.serve()
            frames = self._frames(0 if time.monotonic() < deadline else zmq.DONTWAIT)
            if frames is not None or time.monotonic() >= deadline:
                return frames

    def _set_wait(self, wait: int) -> None:
        if wait != self._wait:
            self._socket.rcvtimeo = self._wait = wait

    def _frames(self, flags: int = 0) -> list[bytes] | None:
        """Return the frames of a message, but no more than the first few, or None."""
        try:
            frames = [self._socket.recv(flags)]
        except zmq.Again:
            return None
        while self._socket.get(zmq.RCVMORE):
            frame = self._socket.recv()
            if len(frames) < _FRAMES:
                frames.append(frame)
        return frames


def wait_for_any(sources: Sequence[ZmqReceiver], timeout: float) -> list[int]:
    """Wait up to so many seconds until a source has something; return the positions of those that have."""
    return wait_readable([source._socket for source in sources], timeout)


_SOCKETS = {"sub": zmq.SUB, "pull": zmq.PULL}


def _make_parser(format: str, limits: WireLimits) -> Callable[[list[bytes]], list[Message]]:
    if format == "openephys":
        return OpenEphysDecoder(limits).decode
    if format != "igbss":
        raise ParameterError(f"format must be igbss or openephys. Got {format!r} instead.")
    return lambda frames: [decode(frames, limits)]
