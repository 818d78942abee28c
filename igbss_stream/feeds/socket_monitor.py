"""Whether a publisher lets in the socket that connects to it, as far as ZeroMQ tells.

A wrong key is silence to who waits for messages. What tells is the monitor of the socket, which says how
each handshake ended (zmq_socket_monitor in the manual of libzmq). Those that fail for good are given up by
libzmq; here they are begun again, for the publisher may come back with other keys.
"""

import struct
import time
from enum import Enum, auto
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from igbss_stream.feeds.sockets import ZmqSocket

_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_PLACE = "inproc://handshakes"  # within a context, which has one socket that connects
_CHANCE = 3  # broken off so often in a row, it is no chance
_AGAIN = 5.0  # seconds until a handshake that was given up is begun again


class Refusal(Enum):
    """Why a handshake fails."""

    KEY = auto()
    """The peer does not let in this public key."""
    TERMS = auto()
    """One end encrypts and the other does not, or the peer has another key than was thought."""


class Handshakes:
    """Watches a socket, from before it connects.

    Parameters
    ----------
    context : zmq.Context
        With no other socket that is watched.
    socket : zmq.Socket
    address : str
        That it will be connected to.

    Attributes
    ----------
    refusal : Refusal or None
        Why it is not let in; None if it is, or if nobody is there.
    """

    def __init__(self, context: "zmq.Context[ZmqSocket]", socket: "ZmqSocket", address: str) -> None:
        self.refusal: Refusal | None = None
        self._socket, self._address = socket, address
        self._broken_off = 0
        self._again: float | None = None
        socket.monitor(_PLACE, int(_EVENTS))
        self._events: ZmqSocket = context.socket(zmq.PAIR)
        self._events.set(zmq.LINGER, 0)
        self._events.set(zmq.RCVHWM, 0)  # a full queue would hold up the thread that moves the messages
        self._events.connect(_PLACE)

    def look(self) -> None:
        """Take note of what happened, and begin again what was given up."""
        while int(self._events.get(zmq.EVENTS)) & zmq.POLLIN:
            event, _value = struct.unpack("=HI", self._events.recv_multipart()[0])
            self._take(event)
        if self._again is not None and time.monotonic() >= self._again:
            self._again = None
            self._socket.disconnect(self._address)
            self._socket.connect(self._address)

    def close(self) -> None:
        """Stop watching, before the socket is closed. Closing it twice is allowed."""
        if not self._events.closed:
            self._socket.disable_monitor()
            self._events.close()

    def _take(self, event: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.refusal, self._broken_off, self._again = None, 0, None
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:  # broken off by the peer; libzmq tries again
            self._broken_off += 1
            if self._broken_off >= _CHANCE:
                self.refusal = Refusal.TERMS
        else:
            is_key = event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
            self.refusal = Refusal.KEY if is_key else Refusal.TERMS
            self._again = time.monotonic() + _AGAIN
