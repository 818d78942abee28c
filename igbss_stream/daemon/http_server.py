"""Answer requests over HTTP from one thread, within fixed limits: pages, and actions that need a token.

The server is asyncio's, and reads no more of a request than its head, and the body of one that has the
token. Whatever clients do, it needs one thread, and no more than `_MAX_CONNECTIONS` connections of
`_MAX_HEAD` bytes for `_TIMEOUT` seconds each.
``http.server`` starts a thread for each connection, waits for ever, and prints a traceback if a client
resets one; a web framework would be a dependency for two pages.
"""

import asyncio
import contextlib
import hmac
import logging
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

from igbss_stream._util.scheduling import use_normal_priority
from igbss_stream._util.web_hosts import AllowedHosts
from igbss_stream.errors import printable

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 64
_MAX_HEAD = 8192  # bytes of request line and headers
_BACKLOG = 512  # connections that the system holds; with fewer, a burst delays an honest client by a second
_TIMEOUT = 5.0  # seconds from the connection to the end of the answer
_MAX_READS = 16  # of a body, which is discarded: a reset would discard the answer
_MAX_BODY = 1 << 18  # bytes of the body of an action
_MAX_SHOWN = 200  # characters of a refused header in messages
_CLOSE_TIMEOUT = 1.0  # seconds that the thread may take to end
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(r"[0-9]{1,9}", re.ASCII)
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")


@dataclass(frozen=True)
class WebResponse:
    """Response to a request.

    Parameters
    ----------
    kind : str
        Content type.
    body : bytes
    status : HTTPStatus
    headers : mapping of str to str
        Further headers.
    """

    kind: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RequestHead:
    """Head of a request.

    Parameters
    ----------
    method, target, version : str
    headers : mapping of str to list of str
        Values by name in lower case.
    """

    method: str
    target: str
    version: str
    headers: Mapping[str, list[str]]

    def get_single(self, name: str) -> str | None:
        """Return the value of a header that may occur once, or None without it.

        Raises
        ------
        ValueError
            If it occurs more than once.
        """
        values = self.headers.get(name, [])
        if len(values) > 1:
            raise ValueError(f"{name} occurs {len(values)} times")
        return values[0] if values else None


@dataclass(frozen=True)
class Action:
    """What a POST request does.

    Parameters
    ----------
    act : callable
        Called with the body, in the loop of the server.
    token : str
        Without it, a request is refused.
    """

    act: Callable[[bytes], Awaitable[WebResponse]]
    token: str = field(repr=False)

    def admits(self, authorization: str | None) -> bool:
        """Return whether the header Authorization has the token; it takes as long for any other."""
        scheme, _, given = (authorization or "").partition(" ")
        is_same = hmac.compare_digest(given.strip().encode("latin-1"), self.token.encode())
        return is_same and scheme.lower() == "bearer"


def parse_head(head: bytes) -> RequestHead:
    """Parse the head of a request, up to the empty line that ends it.

    Raises
    ------
    ValueError
        If it is not well-formed.
    """
    first, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")  # another number of parts is a ValueError
    if version not in _VERSIONS:
        raise ValueError(f"version {version!r}")
    headers: dict[str, list[str]] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not (colon and _TOKEN.fullmatch(name)):
            raise ValueError(f"header {line!r}")
        headers.setdefault(name.lower(), []).append(value.strip(" \t"))
    return RequestHead(method, target, version, headers)


class HttpServer:
    """Serve pages from a separate thread.

    Parameters
    ----------
    host : str
    port : int
        0 selects a free one.
    pages : mapping of str to callable
        For each path, a function that returns the page. It is called in the thread of the server.
    allowed : AllowedHosts
    setting : str
        Key of the configuration where further names are set, for messages.
    actions : mapping of str to Action, optional
        What POST requests do, for each path.

    Attributes
    ----------
    port : int

    Raises
    ------
    OSError
        If the address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        pages: Mapping[str, Callable[[], WebResponse]],
        allowed: AllowedHosts,
        setting: str,
        actions: Mapping[str, Action] | None = None,
    ) -> None:
        self._actions = actions or {}
        self._pages, self._allowed, self._setting = pages, allowed, setting
        self._socket = _bind(host, port)
        self.port = int(self._socket.getsockname()[1])
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._open: dict[asyncio.Task[None], None] = {}  # in the order in which they came
        self._is_refusal_logged = False
        self._thread = threading.Thread(target=self._run, name=setting.partition(".")[0], daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Closing twice is allowed."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the thread has just closed its loop
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        use_normal_priority()
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._take, sock=self._socket, limit=_MAX_HEAD, backlog=_BACKLOG
        )
        await self._stopping.wait()
        server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of a connection, and close it."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = None
        if len(self._open) > _MAX_CONNECTIONS:  # the newest may be honest, the oldest has had its time
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # reset, ended early, too slow (a TimeoutError), or one of too many
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_head = False
        try:
            head = parse_head(await reader.readuntil(b"\r\n\r\n"))
            is_head = head.method == "HEAD"
            response = self._refuse_site(head) or await self._respond(head, reader)
        except asyncio.LimitOverrunError:
            text = f"the head of a request may have {_MAX_HEAD} bytes"
            response = refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, text)
        except ValueError:
            response = refuse(HTTPStatus.BAD_REQUEST, "not an HTTP request")
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until the system has taken all of it
        writer.write(_encode(response, with_body=not is_head))
        await writer.drain()
        writer.write_eof()
        for _ in range(_MAX_READS):
            if not await reader.read(_MAX_HEAD):
                break

    def _refuse_site(self, head: RequestHead) -> WebResponse | None:
        """Return the refusal of a request for another name, or of a page of another site."""
        host = head.get_single("host")
        if host is None and head.version != "HTTP/1.0":  # no browser leaves it out
            raise ValueError("no Host")
        refused = self._allowed.find_refused(host, head.get_single("origin"))
        if refused is not None:
            refused = printable(refused[:_MAX_SHOWN])
            self._log_refusal(refused)
            text = f"{refused} is not allowed; add its name to {self._setting}"
            return refuse(HTTPStatus.FORBIDDEN, text)
        return None

    async def _respond(self, head: RequestHead, reader: asyncio.StreamReader) -> WebResponse:
        path = head.target.partition("?")[0]
        if path in self._actions:
            return await self._act(self._actions[path], head, reader)
        if head.method not in ("GET", "HEAD"):
            return _refuse_method("GET, HEAD")
        page = self._pages.get(path)
        if page is None:
            there = " and ".join((*self._pages, *self._actions))
            return refuse(HTTPStatus.NOT_FOUND, f"not found; this server has {there}")
        try:
            return page()
        except Exception:  # a fault of the program; the next request may succeed
            return _log_fault(head)

    async def _act(self, action: Action, head: RequestHead, reader: asyncio.StreamReader) -> WebResponse:
        refusal = _refuse_action(action, head)
        if refusal is not None:
            return refusal
        body = await reader.readexactly(int(head.get_single("content-length") or 0))
        try:
            return await action.act(body)
        except Exception:  # a fault of the program; the next request may succeed
            return _log_fault(head)

    def _log_refusal(self, refused: str) -> None:
        """Log the first refusal, which may be a proxy whose name is not set yet."""
        if not self._is_refusal_logged:
            self._is_refusal_logged = True
            log.warning("a request with %s was refused; %s lists further names", refused, self._setting)


def _bind(host: str, port: int) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address[:2], family=family)


def _refuse_action(action: Action, head: RequestHead) -> WebResponse | None:
    """Return the refusal of a request whose body is not to be read; None if it is."""
    if head.method != "POST":
        return _refuse_method("POST")
    if not action.admits(head.get_single("authorization")):
        headers = {"WWW-Authenticate": "Bearer"}
        return refuse(HTTPStatus.UNAUTHORIZED, "the token is wrong or missing", headers)
    kind, _, _ = (head.get_single("content-type") or "").partition(";")
    if kind.strip().lower() != "application/json":  # which pages of other sites cannot send unasked
        return refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Type must be application/json")
    length = head.get_single("content-length")
    if length is None or not _LENGTH.fullmatch(length):
        return refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length must be the number of bytes of the body")
    if int(length) > _MAX_BODY:
        text = f"the body of a request may have {_MAX_BODY} bytes"
        return refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text)
    return None


def refuse(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> WebResponse:
    """Return a response that refuses a request with a sentence."""
    return WebResponse("text/plain; charset=utf-8", f"{text}\n".encode(), status, headers or {})


def _log_fault(head: RequestHead) -> WebResponse:
    log.exception("%s cannot be served", printable(head.target))
    return refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of the program; the log has details")


def _refuse_method(allowed: str) -> WebResponse:
    text = f"only {allowed.replace(', ', ' and ')} {'are' if ',' in allowed else 'is'} allowed"
    return refuse(HTTPStatus.METHOD_NOT_ALLOWED, text, {"Allow": allowed})


def _encode(response: WebResponse, *, with_body: bool) -> bytes:
    status = response.status
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Date: {formatdate(usegmt=True)}",
        f"Content-Type: {response.kind}",
        f"Content-Length: {len(response.body)}",
        *(f"{name}: {value}" for name, value in response.headers.items()),
        "Cache-Control: no-store",
        "Cross-Origin-Resource-Policy: same-origin",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (response.body if with_body else b"")
