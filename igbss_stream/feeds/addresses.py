"""Addresses of sockets: ``tcp://HOST:PORT``, ``ipc://PATH``, ``HOST:PORT`` or a port of this machine."""

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from igbss_stream.errors import ParameterError

# for JSON Schema as well, so without named groups
_PATTERN = r"^(ipc://[^\s$]+|(tcp://)?((\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):)?([0-9]{1,5}|\*))(?!\n)$"
_THIS_MACHINE = "127.0.0.1"
_WILDCARDS = {"*", "0.0.0.0", "[::]"}
_ANY_PORT = {"*", "0"}
_LARGEST_PORT = 65535

Address = Annotated[
    str,
    Meta(pattern=_PATTERN, description="an address: tcp://HOST:PORT, ipc://PATH or just a port"),
]


@dataclass(frozen=True)
class Endpoint:
    """An address taken apart.

    Parameters
    ----------
    host : str
        Host, or the path of an ipc address.
    port : str
        Empty for an ipc address.
    """

    host: str
    port: str

    def __str__(self) -> str:
        return f"tcp://{self.host}:{self.port}" if self.port else f"ipc://{self.host}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return not self.port or self.host.startswith("127.") or self.host == "[::1]"

    @property
    def is_any_port(self) -> bool:
        """Whether the port is left open, to be found when it is bound."""
        return self.port in _ANY_PORT

    @property
    def reachable(self) -> "Endpoint":
        """Where what is bound to it can be reached from this machine."""
        return Endpoint(_THIS_MACHINE, self.port) if self.port and self.host in _WILDCARDS else self

    def clashes(self, other: "Endpoint") -> bool:
        """Return whether two sockets cannot be bound to both."""
        if self.port != other.port or self.port in _ANY_PORT:
            return False
        hosts = {self.host, other.host}
        return len(hosts) == 1 or bool(self.port and hosts & _WILDCARDS)


def _known(host: str) -> str:
    return _THIS_MACHINE if host == "localhost" else host


def endpoint(address: str) -> Endpoint:
    """Take an address apart; this machine is the host where it names none."""
    if address.startswith("ipc://"):
        return Endpoint(address.removeprefix("ipc://"), "")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return Endpoint(_known(host or _THIS_MACHINE), port)


def check_address(address: str, *, bind: bool) -> None:
    """Check what no pattern can.

    Raises
    ------
    ParameterError
        If the address is none, its port is too large, or it leaves the host or port open and is one to
        connect to.
    """
    if not re.match(_PATTERN, address):
        raise ParameterError(
            f"address must be tcp://HOST:PORT, ipc://PATH or just a port. Got {address!r} instead.",
            parameter="address",
        )
    place = endpoint(address)
    if place.port.isdigit() and int(place.port) > _LARGEST_PORT:
        raise ParameterError(
            f"address must have a port of at most {_LARGEST_PORT}. Got {place.port} instead.",
            parameter="address",
        )
    if not bind and (place.host in _WILDCARDS or place.port in _ANY_PORT):
        raise ParameterError(
            f"address must name a host and a port to connect to. Got {address!r} instead; only what binds "
            "may leave them open.",
            parameter="address",
        )
