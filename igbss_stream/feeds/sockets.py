"""What all ZeroMQ ends share: addresses, options, errors in plain words, and keys.

Each end has a context of its own, so that closing one never waits for another, and so that the keys allowed
at one say nothing about the next.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import zmq
from zmq.utils import z85

from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.feeds.addresses import check_address, endpoint
from igbss_stream.feeds.socket_monitor import Handshakes

ZmqSocket = zmq.Socket[bytes]
Options = dict[zmq.SocketOption, int]

_POLLIN = int(zmq.POLLIN)  # flags of an enum are slow to combine
_AT_ONCE = int(zmq.DONTWAIT)
_MORE_AT_ONCE = int(zmq.DONTWAIT | zmq.SNDMORE)
HEARTBEAT = 2000  # ms between pings to a peer
PATIENCE = 10_000  # ms until a peer that does not answer counts as gone
_SUBSCRIPTION_BYTES = 1024  # longest message a subscriber may send to a publisher

_REMEDIES = {
    errno.EADDRINUSE: "the address is in use; stop what uses it or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; use one of its own, or * for all of them",
    errno.EACCES: "permission is denied; choose a port above 1023 or a path that you may write to",
    errno.ENODEV: "this machine has no such address; use one of its own, or * for all of them",
    errno.ENOENT: "there is no such folder; make it or choose another path",
    errno.EINVAL: "it is not an address; write tcp://HOST:PORT, ipc://PATH or just a port",
}


@dataclass(frozen=True, slots=True)
class CurveServer:
    """Keys of the end that others must prove themselves to.

    Parameters
    ----------
    secret_key : str
        Its own, 40 characters (Z85).
    allowed : tuple of str or None
        Public keys that are let in; None lets in everybody who knows the server's public key.

    Raises
    ------
    ParameterError
        If a key is not one.
    """

    secret_key: str = field(repr=False)
    allowed: tuple[str, ...] | None

    def __post_init__(self) -> None:
        _check_key("secret_key", self.secret_key, secret=True)
        for key in self.allowed or ():
            _check_key("allowed", key)


@dataclass(frozen=True, slots=True)
class CurveClient:
    """Keys of the end that proves itself.

    Parameters
    ----------
    server_key : str
        Public key of the server, 40 characters (Z85).
    secret_key : str, optional
        Its own; left out, a new one, which is enough for a server that lets in everybody.

    Raises
    ------
    ParameterError
        If a key is not one.
    """

    server_key: str
    secret_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_key("server_key", self.server_key)
        if self.secret_key is not None:
            _check_key("secret_key", self.secret_key, secret=True)


Keys = CurveServer | CurveClient


def _check_key(name: str, key: str, *, secret: bool = False) -> None:
    if not is_key(key):
        given = f"one of {len(key)} characters that is none" if secret else repr(key)
        raise ParameterError(f"{name} must be a key of 40 characters (Z85). Got {given} instead.")


def is_key(text: str) -> bool:
    """Return whether a text is a key of CURVE, public or secret."""
    try:
        zmq.curve_public(text.encode("ascii"))
    except (ValueError, UnicodeError, zmq.ZMQError):
        return False
    return True


def public_key(secret_key: str) -> str:
    """Return the public key that belongs to a secret one."""
    return zmq.curve_public(secret_key.encode("ascii")).decode("ascii")


def new_secret_key() -> str:
    """Return a secret key that nobody has."""
    return zmq.curve_keypair()[1].decode("ascii")


def full_address(address: str) -> str:
    """Return an address with what may be left out: ``tcp://``, and this machine as the host.

    Raises
    ------
    ParameterError
        If it is not an address.
    """
    check_address(address, bind=True)
    return str(endpoint(address))


def readable(socket: ZmqSocket) -> bool:
    """Return whether a message waits; cheaper than to ask for it in vain."""
    return bool(int(socket.get(zmq.EVENTS)) & _POLLIN)


def readable_of(sockets: Sequence[ZmqSocket], timeout: float) -> list[int]:
    """Wait up to so many seconds until messages wait; return the positions of the sockets where they do."""
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    found = dict(poller.poll(round(1000 * timeout)))
    return [i for i, socket in enumerate(sockets) if socket in found]


def send_at_once(socket: ZmqSocket, frames: Sequence[Any]) -> None:
    """Send a message without waiting; a third of the cost of `send_multipart`.

    Raises
    ------
    zmq.Again
        If a queue is full; nothing is sent then.
    """
    for frame in frames[:-1]:
        socket.send(frame, _MORE_AT_ONCE)
    socket.send(frames[-1], _AT_ONCE)


class Endpoint:
    """A socket with its context, opened with the options that every end needs.

    Parameters
    ----------
    kind : int
        Type of the socket, e.g. ``zmq.SUB``.
    address : str
    bind : bool
        Whether to bind to the address or to connect to it.
    keys : CurveServer or CurveClient, optional
    options : dict
        More options, set before the socket is opened.
    watched : bool
        Whether to take note, for a socket that connects, of how it is received; see `handshakes`.

    Raises
    ------
    ParameterError
        If the address is not one.
    FeedError
        If the socket cannot be opened there.
    """

    def __init__(
        self,
        kind: int,
        address: str,
        *,
        bind: bool,
        keys: Keys | None,
        options: Options,
        watched: bool = False,
    ) -> None:
        address = full_address(address)
        self._context: zmq.Context[ZmqSocket] = zmq.Context()
        self.socket: ZmqSocket = self._context.socket(kind)
        self.gate: Gate | None = None
        self.handshakes: Handshakes | None = None
        try:
            for option, value in (_common_options(address) | options).items():
                self.socket.set(option, value)
            if keys is not None:
                self._use_keys(keys)
            if watched and not bind:
                self.handshakes = Handshakes(self._context, self.socket, address)
            self.address = self._open(address, bind)
        except BaseException:
            self.close()
            raise

    def _use_keys(self, keys: Keys) -> None:
        secret_key = keys.secret_key or new_secret_key()
        self.socket.curve_secretkey = secret_key.encode("ascii")
        self.socket.curve_publickey = public_key(secret_key).encode("ascii")
        if isinstance(keys, CurveClient):
            self.socket.curve_serverkey = keys.server_key.encode("ascii")
            return
        self.socket.curve_server = True
        if keys.allowed is not None:
            self.gate = Gate(self._context, keys.allowed)

    def _open(self, address: str, bind: bool) -> str:
        try:
            (self.socket.bind if bind else self.socket.connect)(address)
        except zmq.ZMQError as error:
            doing = "bind to" if bind else "connect to"
            why = _REMEDIES.get(error.errno or 0, error.strerror)
            raise FeedError(f"cannot {doing} '{address}': {why}") from None
        return self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0") if bind else address

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return 0 if self.gate is None else self.gate.denied

    def close(self, linger: float = 0.0) -> None:
        """Close the socket, waiting at most `linger` seconds for what is not sent yet."""
        if self.gate is not None:
            self.gate.close()
        if self.handshakes is not None:
            self.handshakes.close()
        self.socket.close(linger=round(1000 * linger))
        self._context.term()


def _common_options(address: str) -> Options:
    return {
        zmq.LINGER: 0,
        zmq.HEARTBEAT_IVL: HEARTBEAT,
        zmq.HEARTBEAT_TIMEOUT: PATIENCE,
        zmq.HEARTBEAT_TTL: PATIENCE,
        zmq.HANDSHAKE_IVL: PATIENCE,
        zmq.RECONNECT_IVL: 100,
        zmq.RECONNECT_IVL_MAX: 2000,
        zmq.IPV6: int("[" in address),
    }


def publisher_options(high_water_mark: int) -> Options:
    """Return the options of a publishing socket, which hears of each subscription."""
    return {
        zmq.SNDHWM: high_water_mark,
        zmq.XPUB_VERBOSER: 1,
        zmq.XPUB_NODROP: 1,
        zmq.MAXMSGSIZE: _SUBSCRIPTION_BYTES,
    }


class Gate:
    """Answers ZeroMQ's question, at each handshake, whether a public key is allowed.

    That is ZAP, https://rfc.zeromq.org/spec/27: requests come to a fixed address of the context, and a
    peer waits until its request is answered. No thread of its own: `serve` answers what has come.

    Parameters
    ----------
    context : zmq.Context
    allowed : tuple of str
        Public keys.
    """

    def __init__(self, context: "zmq.Context[ZmqSocket]", allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(z85.decode(key.encode("ascii")) for key in allowed)
        self.denied = 0
        self._socket: ZmqSocket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind("inproc://zeromq.zap.01")

    def serve(self) -> None:
        """Answer the handshakes that wait."""
        while readable(self._socket):
            version, request, _domain, _address, _identity, mechanism, *credentials = (
                self._socket.recv_multipart()
            )
            welcome = mechanism == b"CURVE" and credentials[0] in self._allowed
            self.denied += not welcome
            status: Any = (b"200", b"OK") if welcome else (b"400", b"this key is not allowed")
            self._socket.send_multipart([version, request, *status, b"", b""])

    def close(self) -> None:
        """Close; handshakes that wait are given up."""
        self._socket.close()
