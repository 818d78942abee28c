"""Decide by which names a web server may be addressed.

A page of another site cannot read what a local server answers, unless its own host name resolves to the
address of that server (DNS rebinding): then the browser takes both for one site. The browser still sends
the name in the headers Host and Origin, so a server that knows its names can refuse all others.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence

_NETLOC = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_ORIGIN = re.compile(r"https?://(.+)", re.IGNORECASE)
_LOCAL_NAMES = ("localhost",)


class AllowedHosts:
    """Names by which a web server may be addressed.

    Always allowed are ``localhost``, the address to which the server is bound, and IP addresses, which no
    name server can redirect. If the server is open to the network, so is the name of this machine.

    Parameters
    ----------
    bound : str
        Host name or IP address to which the server is bound.
    more : sequence of str
        Further names, such as that of a reverse proxy.
    """

    def __init__(self, bound: str, more: Sequence[str] = ()) -> None:
        self._more = frozenset(map(_normalize, more))
        own = () if _is_loopback(bound) else (socket.gethostname(),)
        self._names = self._more | set(map(_normalize, (*_LOCAL_NAMES, bound, *own)))

    def find_refused(self, host: str | None, origin: str | None) -> str | None:
        """Return the part of a request for which it must be refused, or None.

        Parameters
        ----------
        host : str or None
            The header Host, a name or address with an optional port. Browsers always send it.
        origin : str or None
            The header Origin: the site of the page that sent the request.

        Returns
        -------
        str or None
            The header and its value.
        """
        if host is not None and not self._allows(split_netloc(host)):
            return f"Host {host}"
        if origin is not None and not self._allows_origin(origin, host):
            return f"Origin {origin}"
        return None

    def _allows(self, name: str | None) -> bool:
        return name is not None and (name in self._names or _is_ip_address(name))

    def _allows_origin(self, origin: str, host: str | None) -> bool:
        """Return whether a page is of this server: at the same name and port, or at a name given for it."""
        match = _ORIGIN.fullmatch(origin)
        if match is None:  # "null" of a sandbox or a file, or the page of an extension
            return False
        netloc = match[1].lower()
        return netloc == (host or "").lower() or split_netloc(netloc) in self._more


def split_netloc(netloc: str) -> str | None:
    """Return the host of ``HOST`` or ``HOST:PORT`` in lower case and without brackets; None if malformed.

    Parameters
    ----------
    netloc : str

    Returns
    -------
    str or None
    """
    match = _NETLOC.fullmatch(netloc)
    return None if match is None else _normalize(match[1])


def is_host_name(name: str) -> bool:
    """Return whether a text is a host name or IP address, without a port."""
    match = _NETLOC.fullmatch(name)
    return match is not None and match[2] is None


def _normalize(name: str) -> str:
    return name.strip("[]").lower().removesuffix(".")


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == "localhost" or (_is_ip_address(name) and ipaddress.ip_address(name).is_loopback)
