"""Bound what the subscribers of a publisher can make it store.

Libzmq stores every subscription in a tree with one node, of about 50 bytes, for each byte of a prefix. It
limits neither their number nor their rate, and it offers no way to disconnect a peer. But it states from
which connection a subscription came. This module counts the subscriptions of each connection, and shuts
down a connection that exceeds the limits. Libzmq then releases all that it stored for it.
"""

import os
import socket
import time
from dataclasses import dataclass, field

import zmq

_MAX_TOPICS = 64  # of a connection; a client subscribes once for each stream that it reads
_MAX_TOTAL_BYTES = 1 << 20  # of the prefixes of all connections, about 50 MB in libzmq
_MAX_REQUESTS = 256  # of a connection in a second, with those that are withdrawn or repeated
_PRUNE_INTERVAL = 1.0  # seconds

_Identity = tuple[int, int]


@dataclass(slots=True)
class _Connection:
    identity: (
        _Identity  # device and inode, which tell a connection from a later one with the same descriptor
    )
    topics: set[bytes] = field(default_factory=set)
    n_bytes: int = 0
    n_requests: int = 0
    since: float = 0.0  # when counting of the requests began
    is_shut: bool = False


class SubscriptionLimits:
    """Count the subscriptions of each connection, and shut down those that exceed the limits.

    Parameters
    ----------
    address : str
        Address to which the publisher is bound. Connections to another one are left alone.

    Attributes
    ----------
    evicted : int
        Connections that were shut down.
    """

    def __init__(self, address: str) -> None:
        self.evicted = 0
        self._address = address
        self._connections: dict[int, _Connection] = {}
        self._next_prune = 0.0
        self._has_departures = False

    @property
    def n_subscriptions(self) -> int:
        """Number of active subscriptions."""
        return sum(len(known.topics) for known in self._connections.values())

    def note(self, request: zmq.Frame) -> bool:
        """Count a request of a subscriber; return whether it is a new subscription.

        Parameters
        ----------
        request : Frame
            As libzmq hands it over: 1 and the prefix, or 0 and the prefix that is withdrawn.
        """
        try:
            descriptor = int(request.get(int(zmq.SRCFD)))
        except zmq.ZMQError:  # libzmq withdraws the subscriptions of a connection that was closed
            self._has_departures = True
            return False
        known = self._find(descriptor)
        if known is None or known.is_shut:
            return False
        is_new = self._count(known, bytes(request.buffer))
        if len(known.topics) > _MAX_TOPICS or known.n_requests > _MAX_REQUESTS:
            self._shut(descriptor)
        elif is_new and sum(other.n_bytes for other in self._connections.values()) > _MAX_TOTAL_BYTES:
            self._shut(max(self._connections, key=lambda one: self._connections[one].n_bytes))
        return is_new

    def prune(self) -> None:
        """Forget the connections that were closed. Call it after each reading of requests."""
        now = time.monotonic()
        if not self._has_departures and now < self._next_prune:
            return
        self._has_departures, self._next_prune = False, now + _PRUNE_INTERVAL
        for descriptor, known in list(self._connections.items()):
            if _identify(descriptor) != known.identity:
                del self._connections[descriptor]

    def _find(self, descriptor: int) -> _Connection | None:
        """Return the record of an open connection to the publisher."""
        identity = _identify(descriptor)
        known = self._connections.get(descriptor)
        if identity is None or (known is not None and known.identity == identity):
            return None if identity is None else known
        if not self._is_ours(descriptor):
            return None
        self._connections[descriptor] = known = _Connection(identity)
        return known

    def _is_ours(self, descriptor: int) -> bool:
        """Return whether a descriptor is still a connection to the publisher, and not of a later file."""
        try:
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                name = connection.getsockname()
        except OSError:
            return False
        return self._address.endswith(f":{name[1]}" if isinstance(name, tuple) else os.fsdecode(name))

    def _count(self, known: _Connection, request: bytes) -> bool:
        now = time.monotonic()
        if now >= known.since + 1.0:
            known.since, known.n_requests = now, 0
        known.n_requests += 1
        kind, topic = request[:1], request[1:]
        if kind == b"\1" and topic not in known.topics:
            known.topics.add(topic)
            known.n_bytes += len(topic)
            return True
        if kind == b"\0" and topic in known.topics:
            known.topics.remove(topic)
            known.n_bytes -= len(topic)
        return False

    def _shut(self, descriptor: int) -> None:
        known = self._connections[descriptor]
        known.is_shut, known.n_bytes = True, 0
        known.topics.clear()
        try:
            copy = os.dup(descriptor)  # nothing else can take the place of the connection from here on
        except OSError:
            return
        with socket.socket(fileno=copy) as connection:
            if _identify(copy) == known.identity:
                self.evicted += 1
                connection.shutdown(socket.SHUT_RDWR)


def _identify(descriptor: int) -> _Identity | None:
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino
