"""CURVE keys, which encrypt ZeroMQ connections and authenticate their peers."""

from dataclasses import dataclass, field

import zmq

from igbss_stream.errors import ParameterError


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """Keys of the server, the end to which clients authenticate.

    Parameters
    ----------
    secret_key : str
        The server's secret key, 40 characters (Z85).
    allowed : tuple of str or None
        Public keys of the clients that may connect; None admits every client that knows the server's
        public key.

    Raises
    ------
    ParameterError
        If a key is not valid.
    """

    secret_key: str = field(repr=False)
    allowed: tuple[str, ...] | None

    def __post_init__(self) -> None:
        _check_key("secret_key", self.secret_key, secret=True)
        for key in self.allowed or ():
            _check_key("allowed", key)


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """Keys of a client, the end that authenticates.

    Parameters
    ----------
    server_key : str
        Public key of the server, 40 characters (Z85).
    secret_key : str, optional
        The client's secret key. By default a new one is generated, which suffices for a server that
        admits every client.

    Raises
    ------
    ParameterError
        If a key is not valid.
    """

    server_key: str
    secret_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_key("server_key", self.server_key)
        if self.secret_key is not None:
            _check_key("secret_key", self.secret_key, secret=True)


CurveKeys = ServerKeys | ClientKeys


def is_key(text: str) -> bool:
    """Return whether a text is a CURVE key, public or secret."""
    try:
        zmq.curve_public(text.encode("ascii"))
    except (ValueError, UnicodeError, zmq.ZMQError):
        return False
    return True


def derive_public_key(secret_key: str) -> str:
    """Return the public key of a secret key."""
    return zmq.curve_public(secret_key.encode("ascii")).decode("ascii")


def generate_secret_key() -> str:
    """Return a new secret key."""
    return zmq.curve_keypair()[1].decode("ascii")


def _check_key(name: str, key: str, *, secret: bool = False) -> None:
    if not is_key(key):
        given = f"an invalid key of {len(key)} characters" if secret else repr(key)
        raise ParameterError(
            f"{name} must be a key of 40 characters (Z85), as made by `igbss-stream make-keys`. "
            f"Got {given} instead."
        )
