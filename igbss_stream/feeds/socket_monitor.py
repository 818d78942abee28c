"""Monitor the handshakes of a socket that connects.

With a wrong key no messages arrive, and nothing else happens. Only the monitor of the socket reports how
each handshake ended (zmq_socket_monitor in the manual of libzmq). libzmq gives up after certain failures;
the monitor then starts the handshake again, because the publisher may return with other keys.
"""

import struct
import time
from enum import Enum, auto

import zmq

from igbss_stream.feeds.sockets import ZmqSocket

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_ADDRESS = "inproc://handshakes"  # unique within the context, which has one socket that connects
_ABORTS = 3  # consecutive aborted handshakes that are no longer considered an accident
_RETRY_INTERVAL = 5.0  # seconds until a handshake that libzmq gave up is started again


class HandshakeFailure(Enum):
    """Why a handshake fails."""

    KEY = auto()
    """The peer does not allow this public key."""
    ENCRYPTION = auto()
    """Only one end encrypts, or the public key of the peer is not the expected one."""


class HandshakeMonitor:
    """Monitor the handshakes of a socket; create it before the socket connects.

    Parameters
    ----------
    context : zmq.Context
        No other socket of it may be monitored.
    socket : zmq.Socket
    address : str
        Address that the socket will connect to.

    Attributes
    ----------
    failure : HandshakeFailure or None
        Why the last handshake failed; None if it succeeded or nobody answers.
    """

    def __init__(self, context: "zmq.Context[ZmqSocket]", socket: ZmqSocket, address: str) -> None:
        self.failure: HandshakeFailure | None = None
        self._socket, self._address = socket, address
        self._n_aborted = 0
        self._retry_time: float | None = None
        socket.monitor(_ADDRESS, int(_EVENTS))
        self._events: ZmqSocket = context.socket(zmq.PAIR)
        self._events.set(zmq.LINGER, 0)
        self._events.set(zmq.RCVHWM, 0)  # a full queue would block the I/O thread
        self._events.connect(_ADDRESS)

    def poll(self) -> None:
        """Read the pending events; restart a handshake that libzmq gave up when its time has come."""
        while int(self._events.get(zmq.EVENTS)) & zmq.POLLIN:
            event, _value = struct.unpack("=HI", self._events.recv_multipart()[0])
            self._handle_event(event)
        if self._retry_time is not None and time.monotonic() >= self._retry_time:
            self._retry_time = None
            self._socket.disconnect(self._address)
            self._socket.connect(self._address)

    def close(self) -> None:
        """Stop monitoring; call it before the socket is closed. Closing it twice is allowed."""
        if not self._events.closed:
            self._socket.disable_monitor()
            self._events.close()

    def _handle_event(self, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.failure, self._n_aborted, self._retry_time = None, 0, None
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:  # aborted by the peer; libzmq tries again
            self._n_aborted += 1
            if self._n_aborted >= _ABORTS:
                self.failure = HandshakeFailure.ENCRYPTION
        else:
            is_key = event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
            self.failure = HandshakeFailure.KEY if is_key else HandshakeFailure.ENCRYPTION
            self._retry_time = time.monotonic() + _RETRY_INTERVAL
