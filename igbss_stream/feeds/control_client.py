"""Ask a daemon to take sources out of the channels of its streams; docs/live.md defines the requests."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from igbss_stream.errors import FeedError, ParameterError, printable

_PATH = "/choice"
_TIMEOUT = 5.0  # seconds
_MAX_RESPONSE = 1 << 22  # bytes
_KINDS = {"http": HTTPConnection, "https": HTTPSConnection}
WRONG_TOKEN = (
    "the daemon does not accept the token: copy it from the line 'control at' of the daemon's log, or from "
    "the file in control.token_file"
)


class ControlClient:
    """Sends requests to the control server of a daemon, past any proxy: they contain the token.

    Parameters
    ----------
    url : str
        Address of the server, such as ``"http://127.0.0.1:9465"``.

    Raises
    ------
    ParameterError
        If it is not an address.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            host, port, kind = parts.hostname, parts.port, _KINDS.get(parts.scheme)
        except ValueError:
            host = port = kind = None
        if host is None or kind is None or parts.query or parts.username:
            raise ParameterError(
                "the address of the control server must be like http://127.0.0.1:9465. "
                f"Got {printable(url)!r} instead."
            )
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(_PATH)}"
        self._host, self._port, self._kind = host, port, kind
        self._path = urlsplit(self.url).path + _PATH

    def send(self, request: Mapping[str, Any], token: str) -> dict[str, Any]:
        """Send a request, and return what applies then.

        Parameters
        ----------
        request : mapping
        token : str

        Raises
        ------
        FeedError
            If the daemon does not answer, or refuses the request.
        """
        body = json.dumps(dict(request)).encode()
        if not token.isascii() or not token.isprintable():
            raise FeedError(WRONG_TOKEN)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection = self._kind(self._host, self._port, timeout=_TIMEOUT)
        try:
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read(_MAX_RESPONSE).decode()
            found = json.loads(text) if status == HTTPStatus.OK else None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise FeedError(
                f"the control server of the daemon does not answer at {self.url}: {printable(reason)}"
            ) from None
        finally:
            connection.close()
        if isinstance(found, dict):
            return found
        if status == HTTPStatus.UNAUTHORIZED:
            raise FeedError(WRONG_TOKEN)
        raise FeedError(printable(text.strip()) or f"the daemon refuses the request with code {status}")
