"""Low-level helpers for ZeroMQ sockets: poll, send without waiting, set options."""

from collections.abc import Sequence
from typing import Any

import zmq

ZmqSocket = zmq.Socket[bytes]
Options = dict[zmq.SocketOption, int]

PATIENCE = 10_000  # ms until a peer that does not answer is considered gone
_N_PROBES = 5  # unanswered ones, after which the kernel closes the connection

_POLLIN = int(zmq.POLLIN)  # flags of an enum are slow to combine
_NO_WAIT = int(zmq.DONTWAIT)
_MORE_NO_WAIT = int(zmq.DONTWAIT | zmq.SNDMORE)
SUBSCRIPTION_BYTES = 120  # longest subscription, as each takes 50 times its length in memory
_HANDSHAKE_BYTES = 512  # longest message of a handshake with keys
_QUEUED_REQUESTS = 1  # of a subscriber; libzmq takes all that are queued, and arrive meanwhile, in one turn


def is_readable(socket: ZmqSocket) -> bool:
    """Return whether a message is waiting; cheaper than a `recv` that finds nothing."""
    return bool(int(socket.get(zmq.EVENTS)) & _POLLIN)


def wait_readable(sockets: Sequence[ZmqSocket], timeout: float) -> list[int]:
    """Wait up to `timeout` seconds for messages; return the positions of the sockets that have one."""
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    found = dict(poller.poll(round(1000 * timeout)))
    return [i for i, socket in enumerate(sockets) if socket in found]


def send_nowait(socket: ZmqSocket, frames: Sequence[Any]) -> None:
    """Send a message without waiting; a third of the cost of `send_multipart`.

    Raises
    ------
    zmq.Again
        If a queue is full; nothing is sent then.
    """
    for frame in frames[:-1]:
        socket.send(frame, _MORE_NO_WAIT)
    socket.send(frames[-1], _NO_WAIT)


def get_common_options(address: str) -> Options:
    """Return the options that every socket needs.

    The kernel probes connections, rather than libzmq: its heartbeats abort the whole process if a peer
    goes away while messages of it wait in a full queue (zeromq/libzmq#4364).
    """
    probe_interval = max(1, PATIENCE // (1000 * _N_PROBES))  # s
    return {
        zmq.LINGER: 0,
        zmq.TCP_KEEPALIVE: 1,
        zmq.TCP_KEEPALIVE_IDLE: probe_interval,
        zmq.TCP_KEEPALIVE_INTVL: probe_interval,
        zmq.TCP_KEEPALIVE_CNT: _N_PROBES,
        zmq.TCP_MAXRT: PATIENCE,
        zmq.HANDSHAKE_IVL: PATIENCE,
        zmq.RECONNECT_IVL: 100,
        zmq.RECONNECT_IVL_MAX: 2000,
        zmq.IPV6: int("[" in address),
    }


def get_publisher_options(high_water_mark: int, *, has_keys: bool) -> Options:
    """Return the options of a publishing socket, which receives every subscription.

    A peer that sends a longer message is disconnected.
    """
    return {
        zmq.SNDHWM: high_water_mark,
        zmq.RCVHWM: _QUEUED_REQUESTS,
        zmq.XPUB_VERBOSER: 1,
        zmq.XPUB_NODROP: 1,
        zmq.MAXMSGSIZE: _HANDSHAKE_BYTES if has_keys else 1 + SUBSCRIPTION_BYTES,
    }
