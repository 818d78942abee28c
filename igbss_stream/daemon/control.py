"""Let clients with a token choose the sources to take out of the channels while the streams run.

``POST /choice`` with a JSON object changes the choice of a stream and answers with what applies then, and
from which sample on. docs/live.md defines both.
"""

import asyncio
import logging
from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from igbss_stream._util.web_hosts import AllowedHosts
from igbss_stream.daemon.choice import parse_request
from igbss_stream.daemon.config.web_sections import ControlSection
from igbss_stream.daemon.control_token import make_token, open_token
from igbss_stream.daemon.http_server import Action, HttpServer, WebResponse, refuse
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.errors import FeedError, IgbssError, ParameterError

log = logging.getLogger(__name__)

PATH = "/choice"
_TIMEOUT = 3.0  # seconds within which a stream answers; it does several times a second


class ControlServer(HttpServer):
    """Serve requests to change the choices of streams from a separate thread.

    Parameters
    ----------
    host : str
    port : int
        0 selects a free one.
    runners : sequence of StreamRunner
    token : str
        Without it, a request is refused.
    allowed_hosts : sequence of str
        Names by which clients may address the server, besides its own (`AllowedHosts`).

    Raises
    ------
    FeedError
        If the address cannot be bound.
    """

    def __init__(
        self,
        host: str,
        port: int,
        runners: Sequence[StreamRunner],
        token: str,
        allowed_hosts: Sequence[str] = (),
    ) -> None:
        self._runners = {runner.name: runner for runner in runners}
        allowed = AllowedHosts(host, allowed_hosts)
        action = Action(self._choose, token)
        try:
            super().__init__(host, port, {}, allowed, "control.allowed_hosts", actions={PATH: action})
        except OSError as error:
            raise FeedError(
                f"control cannot be served at {host}:{port}: {error.strerror}. Set another control.host or "
                "control.port."
            ) from None

    async def _choose(self, body: bytes) -> WebResponse:
        try:
            request = parse_request(body)
            runner = self._find_runner(request.stream)
        except ParameterError as error:
            return refuse(HTTPStatus.BAD_REQUEST, str(error))
        answer = asyncio.wrap_future(runner.chooser.request(request))
        try:
            facts = await asyncio.wait_for(answer, _TIMEOUT)
        except IgbssError as error:
            return refuse(HTTPStatus.CONFLICT, str(error))
        except TimeoutError:
            text = f"stream {runner.name} does not answer; see the log of the daemon"
            return refuse(HTTPStatus.SERVICE_UNAVAILABLE, text)
        body = msgspec.json.encode({"stream": runner.name} | msgspec.structs.asdict(facts))
        return WebResponse("application/json", body)

    def _find_runner(self, name: str | None) -> StreamRunner:
        names = list(self._runners)
        if name is None and len(names) == 1:
            name = names[0]
        if name is None or name not in self._runners:
            raise ParameterError(f"stream must be one of {', '.join(names)}. Got {name!r} instead.")
        return self._runners[name]


def open_control(section: ControlSection, runners: Sequence[StreamRunner]) -> ControlServer:
    """Start the control server of a daemon, and log its address and the token or its file.

    Parameters
    ----------
    section : ControlSection
    runners : sequence of StreamRunner

    Raises
    ------
    IgbssError
        If the address cannot be bound, or the file of the token cannot be used.
    """
    token = make_token() if section.token_file is None else open_token(section.token_file)
    server = ControlServer(section.host, section.port, runners, token, section.allowed_hosts)
    shown = token if section.token_file is None else f"in '{section.token_file}'"
    host = f"[{section.host}]" if ":" in section.host else section.host
    log.info("control at http://%s:%d%s, token %s", host, server.port, PATH, shown)
    return server
