"""Authenticate clients by their public keys (ZeroMQ Authentication Protocol, ZAP)."""

from typing import Any

import zmq
from zmq.utils import z85

from igbss_stream.feeds.sockets import ZmqSocket, is_readable


class Authenticator:
    """Decide at each handshake whether the public key of a client is allowed.

    Implements ZAP, https://rfc.zeromq.org/spec/27: requests arrive at a fixed address of the context, and
    a client waits until its request is answered. There is no thread: `serve` answers the pending requests.

    Parameters
    ----------
    context : zmq.Context
    allowed : tuple of str
        Public keys.

    Attributes
    ----------
    denied : int
        Handshakes that were refused.
    socket : zmq.Socket
        Readable while a handshake waits.
    """

    def __init__(self, context: "zmq.Context[ZmqSocket]", allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(z85.decode(key.encode("ascii")) for key in allowed)
        self.denied = 0
        self.socket: ZmqSocket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind("inproc://zeromq.zap.01")

    def serve(self) -> None:
        """Answer the pending handshakes."""
        while is_readable(self.socket):
            version, request, _domain, _address, _identity, mechanism, *credentials = (
                self.socket.recv_multipart()
            )
            is_allowed = mechanism == b"CURVE" and credentials[0] in self._allowed
            self.denied += not is_allowed
            status: Any = (b"200", b"OK") if is_allowed else (b"400", b"this key is not allowed")
            self.socket.send_multipart([version, request, *status, b"", b""])

    def close(self) -> None:
        """Close the socket and abandon the pending handshakes."""
        self.socket.close()
