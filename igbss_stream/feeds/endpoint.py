"""Open a ZeroMQ socket: address, options, keys, and errors in plain words.

Each endpoint has its own context. Closing one never waits for another, and keys allowed at one endpoint do
not apply to the next.
"""

import errno

import zmq

from igbss_stream.errors import FeedError
from igbss_stream.feeds.addresses import complete_address
from igbss_stream.feeds.authenticator import Authenticator
from igbss_stream.feeds.keys import ClientKeys, CurveKeys, derive_public_key, generate_secret_key
from igbss_stream.feeds.socket_monitor import HandshakeMonitor
from igbss_stream.feeds.sockets import Options, ZmqSocket, get_common_options

_REMEDIES = {
    errno.EADDRINUSE: "the address is in use; stop the program that uses it or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address; use one of its addresses, or * for all of them",
    errno.EACCES: "permission is denied; choose a port above 1023 or a path that you may write to",
    errno.ENODEV: "this machine has no such address; use one of its addresses, or * for all of them",
    errno.ENOENT: "there is no such folder; create it or choose another path",
    errno.EINVAL: "the address is not valid; write tcp://HOST:PORT, ipc://PATH or just a port",
}


class ZmqEndpoint:
    """A socket with its context and the options that every endpoint needs.

    Parameters
    ----------
    kind : int
        Type of the socket, e.g. ``zmq.SUB``.
    address : str
    bind : bool
        Whether to bind to the address or to connect to it.
    keys : ServerKeys or ClientKeys, optional
    options : dict
        More options, set before the socket is opened.
    watch_handshakes : bool
        Whether a socket that connects records why a handshake fails; see `monitor`.

    Attributes
    ----------
    socket : zmq.Socket
    address : str
        The complete address, with the port that was bound.
    authenticator : Authenticator or None
        Present if only certain keys are allowed; its `serve` must be called regularly.
    monitor : HandshakeMonitor or None

    Raises
    ------
    ParameterError
        If the address is not valid.
    FeedError
        If the socket cannot be opened there.
    """

    def __init__(
        self,
        kind: int,
        address: str,
        *,
        bind: bool,
        keys: CurveKeys | None,
        options: Options,
        watch_handshakes: bool = False,
    ) -> None:
        address = complete_address(address)
        self._context: zmq.Context[ZmqSocket] = zmq.Context()
        self.socket: ZmqSocket = self._context.socket(kind)
        self.authenticator: Authenticator | None = None
        self.monitor: HandshakeMonitor | None = None
        try:
            for option, value in (get_common_options(address) | options).items():
                self.socket.set(option, value)
            if keys is not None:
                self._set_keys(keys)
            if watch_handshakes and not bind:
                self.monitor = HandshakeMonitor(self._context, self.socket, address)
            self.address = self._open(address, bind)
        except BaseException:
            self.close()
            raise

    def _set_keys(self, keys: CurveKeys) -> None:
        secret_key = keys.secret_key or generate_secret_key()
        self.socket.curve_secretkey = secret_key.encode("ascii")
        self.socket.curve_publickey = derive_public_key(secret_key).encode("ascii")
        if isinstance(keys, ClientKeys):
            self.socket.curve_serverkey = keys.server_key.encode("ascii")
            return
        self.socket.curve_server = True
        if keys.allowed is not None:
            self.authenticator = Authenticator(self._context, keys.allowed)

    def _open(self, address: str, bind: bool) -> str:
        try:
            (self.socket.bind if bind else self.socket.connect)(address)
        except zmq.ZMQError as error:
            action = "bind to" if bind else "connect to"
            reason = _REMEDIES.get(error.errno or 0, error.strerror)
            raise FeedError(f"cannot {action} '{address}': {reason}") from None
        return self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0") if bind else address

    @property
    def denied(self) -> int:
        """Number of handshakes that were refused because the key is not allowed."""
        return 0 if self.authenticator is None else self.authenticator.denied

    def close(self, linger: float = 0.0) -> None:
        """Close the socket; wait at most `linger` seconds for unsent messages."""
        if self.authenticator is not None:
            self.authenticator.close()
        if self.monitor is not None:
            self.monitor.close()
        self.socket.close(linger=round(1000 * linger))
        self._context.term()
