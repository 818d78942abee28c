"""Create the web server of the page: Bokeh's, behind checks of names and within limits.

Bokeh checks only the origin of WebSocket connections. A page of another site whose name resolves to this
machine could therefore fetch the page, and every request makes Bokeh build one.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from bokeh.application import Application
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders, HTTPServerRequest, ResponseStartLine
from tornado.ioloop import IOLoop
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets
from tornado.routing import AnyMatches, Matcher, Rule, RuleRouter

from igbss_stream._util.web_hosts import AllowedHosts
from igbss_stream.errors import printable
from igbss_stream.pages.view.port import HOST

_REMEDY = "add its name with --allowed-host or view.allowed_hosts"
_MAX_CONNECTIONS = 256
_MAX_PAGES = 32
_IDLE_TIMEOUT = 10.0  # seconds that a connection may take for its next headers; WebSockets may be idle
_MAX_HEADERS = 1 << 16  # bytes; the token of a page is one, and contains the cookies
_MAX_MESSAGE = 1 << 20  # bytes, of a browser


def create_server(application: Application, port: int, allowed_hosts: Sequence[str]) -> BaseServer:
    """Create a server of an application on this machine, without starting it.

    Parameters
    ----------
    application : bokeh.application.Application
    port : int
    allowed_hosts : sequence of str
        Names at which browsers may open the page, besides those of `AllowedHosts`.

    Returns
    -------
    bokeh.server.server.BaseServer
    """
    pages = BokehTornado(
        {"/": application},
        extra_websocket_origins=["*"],  # `_Refusals` has checked the origin, with its port
        websocket_max_message_size_bytes=_MAX_MESSAGE,
    )
    router = RuleRouter(
        [
            Rule(_Refusals(AllowedHosts(HOST, allowed_hosts)), _refuse),
            Rule(_Excess(pages), _refuse),
            Rule(AnyMatches(), pages),
        ]
    )
    server = _LimitedServer(
        router,
        max_header_size=_MAX_HEADERS,
        max_body_size=_MAX_MESSAGE,
        idle_connection_timeout=_IDLE_TIMEOUT,
        body_timeout=_IDLE_TIMEOUT,
    )
    server.add_sockets(bind_sockets(port, address=HOST))
    return BaseServer(IOLoop.current(), pages, server)


class _Refusals(Matcher):
    """Match requests for another name, and of pages of other sites."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return the arguments of `_refuse`, or None."""
        hosts, origins = (request.headers.get_list(name) for name in ("Host", "Origin"))
        if len(hosts) > 1 or len(origins) > 1:
            return {"status": HTTPStatus.BAD_REQUEST, "text": "Host or Origin occurs more than once"}
        refused = self._allowed.find_refused(next(iter(hosts), None), next(iter(origins), None))
        if refused is None:
            return None
        text = (
            f"{printable(refused)} is not allowed; add its name with --allowed-host or view.allowed_hosts"
        )
        return {"status": HTTPStatus.FORBIDDEN, "text": text}


class _Excess(Matcher):
    """Match requests that would make Bokeh build another page when there are too many."""

    def __init__(self, pages: BokehTornado) -> None:
        self._pages = pages

    def match(self, request: HTTPServerRequest) -> dict[str, Any] | None:
        """Return the arguments of `_refuse`, or None."""
        if request.path.startswith("/static/"):
            return None
        # a page that was built with the last place left still has to open its WebSocket
        most = _MAX_PAGES if request.path != "/ws" else 2 * _MAX_PAGES
        if len(self._pages.get_sessions("/")) < most:
            return None
        text = f"{_MAX_PAGES} pages are open; close some, and try again in half a minute"
        return {"status": HTTPStatus.SERVICE_UNAVAILABLE, "text": text}


class _LimitedServer(HTTPServer):
    """Close new connections at once while there are too many."""

    def initialize(self, *arguments: Any, **options: Any) -> None:
        super().initialize(*arguments, **options)
        self._streams: list[IOStream] = []

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        self._streams = [one for one in self._streams if not one.closed()]
        if len(self._streams) >= _MAX_CONNECTIONS:
            stream.close()
            return
        self._streams.append(stream)
        super().handle_stream(stream, address)


def _refuse(request: HTTPServerRequest, status: HTTPStatus, text: str) -> None:
    body = f"{text}\n".encode()
    headers = {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    connection = request.connection
    if connection is not None:
        start = ResponseStartLine("HTTP/1.1", status.value, status.phrase)
        connection.write_headers(start, HTTPHeaders(headers), body)
        connection.finish()
