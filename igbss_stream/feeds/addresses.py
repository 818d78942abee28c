"""Parse and check socket addresses: ``tcp://HOST:PORT``, ``ipc://PATH``, ``HOST:PORT`` or a local port."""

import re
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from igbss_stream.errors import ParameterError

# also used in the JSON Schema, hence no named groups
_PATTERN = r"^(ipc://[^\s$]+|(tcp://)?((\*|\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):)?([0-9]{1,5}|\*))(?!\n)$"
_LOOPBACK = "127.0.0.1"
_WILDCARDS = {"*", "0.0.0.0", "[::]"}
_ANY_PORT = {"*", "0"}
_LARGEST_PORT = 65535

Address = Annotated[
    str,
    Meta(pattern=_PATTERN, description="an address: tcp://HOST:PORT, ipc://PATH or just a port"),
]


@dataclass(frozen=True)
class SocketAddress:
    """Host and port of an address.

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
        """Whether the port is a wildcard, chosen when the socket is bound."""
        return self.port in _ANY_PORT

    @property
    def reachable(self) -> "SocketAddress":
        """The address at which this machine can reach a socket bound to it."""
        return SocketAddress(_LOOPBACK, self.port) if self.port and self.host in _WILDCARDS else self

    def conflicts_with(self, other: "SocketAddress") -> bool:
        """Return whether sockets cannot be bound to both addresses."""
        if self.port != other.port or self.port in _ANY_PORT:
            return False
        hosts = {self.host, other.host}
        return len(hosts) == 1 or bool(self.port and hosts & _WILDCARDS)


def parse_address(address: str) -> SocketAddress:
    """Split an address into host and port; without a host, it is this machine."""
    if address.startswith("ipc://"):
        return SocketAddress(address.removeprefix("ipc://"), "")
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return SocketAddress(_LOOPBACK if host in ("", "localhost") else host, port)


def check_address(address: str, *, bind: bool) -> None:
    """Check an address, beyond the pattern that its type declares.

    Raises
    ------
    ParameterError
        If the address is not valid, its port is too large, or it is one to connect to and has a wildcard
        for host or port.
    """
    if not re.match(_PATTERN, address):
        raise ParameterError(
            f"address must be tcp://HOST:PORT, ipc://PATH or just a port. Got {address!r} instead.",
            parameter="address",
        )
    parsed = parse_address(address)
    if parsed.port.isdigit() and int(parsed.port) > _LARGEST_PORT:
        raise ParameterError(
            f"address must have a port of at most {_LARGEST_PORT}. Got {parsed.port} instead.",
            parameter="address",
        )
    if not bind and (parsed.host in _WILDCARDS or parsed.port in _ANY_PORT):
        raise ParameterError(
            f"address must name a host and a port to connect to. Got {address!r} instead; wildcards are "
            "only for sockets that bind.",
            parameter="address",
        )


def complete_address(address: str) -> str:
    """Return an address with its optional parts: ``tcp://``, and this machine as the host.

    Raises
    ------
    ParameterError
        If the address is not valid.
    """
    check_address(address, bind=True)
    return str(parse_address(address))
