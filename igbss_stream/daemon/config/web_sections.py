"""Sections of the configuration for what the daemon serves over HTTP: metrics, live page, and control."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from igbss_stream.daemon.config.base import HostNames, Name, Section
from igbss_stream.feeds.addresses import SocketAddress

HostName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:_-]+$", description="a host name or IP address")]


class HealthSection(Section, frozen=True, kw_only=True):
    """Metrics for Prometheus (`/metrics`) and the state of the daemon (`/health`) over HTTP.

    Parameters
    ----------
    host : str
        Address to bind to. The default is open to this machine only. There is no password.
    port : int or None
        Port; 0 selects a free one, `null` opens none.
    allowed_hosts : tuple of str
        Host names by which clients may request the pages, such as that of a reverse proxy. IP addresses,
        `localhost`, `host`, and the name of this machine if others can reach the port, are always allowed.
    """

    host: HostName = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None
    allowed_hosts: HostNames = ()

    @property
    def endpoint(self) -> SocketAddress | None:
        """The address of the server, or None if there is none."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.port is None else SocketAddress(host, str(self.port))


class ControlSection(Section, frozen=True, kw_only=True):
    """Choice of the sources to remove while the streams run, over HTTP, with a token (docs/live.md).

    Parameters
    ----------
    host : str
        Address to bind to. The default is open to this machine only. The connection is not encrypted: put a
        reverse proxy before it to open it to others.
    port : int
        Port; 0 selects a free one.
    token_file : Path or None
        File with the token, which only its owner may read; it is created with a new token if it does not
        exist. `null` makes a new token at each start and writes it to the log.
    allowed_hosts : tuple of str
        Host names by which clients may address the server, such as that of a reverse proxy. IP addresses,
        `localhost`, `host`, and the name of this machine if others can reach the port, are always allowed.
    """

    host: HostName = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 9465
    token_file: Annotated[Path, Meta(examples=["control.token"])] | None = None
    allowed_hosts: HostNames = ()

    @property
    def endpoint(self) -> SocketAddress:
        """The address of the server."""
        return SocketAddress(f"[{self.host}]" if ":" in self.host else self.host, str(self.port))


class ViewSection(Section, frozen=True, kw_only=True):
    """Live page of one stream, open to this machine only (docs/view.md).

    A separate process serves the page and reads the stream as any subscriber does (needs Bokeh).

    Parameters
    ----------
    port : int
        Port of the page; 0 selects a free one.
    stream : str or None
        Name of the stream; may be left out if there is only one. The stream needs a sink of kind `zmq` with
        a fixed port. If this sink has a section `curve`, the page is admitted with its own keys, new in
        each run.
    allowed_hosts : tuple of str
        Host names at which browsers may open the page, such as that of a reverse proxy. IP addresses and
        `localhost` are always allowed.
    """

    port: Annotated[int, Meta(ge=0, le=65535)] = 5006
    stream: Name | None = None
    allowed_hosts: HostNames = ()

    @property
    def endpoint(self) -> SocketAddress:
        """The address of the page."""
        return SocketAddress("127.0.0.1", str(self.port))
