"""Pass the requests of open pages to choose sources on to the daemon, in another thread than theirs."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import FeedError
from igbss_stream.feeds.control_client import WRONG_TOKEN, ControlClient

_MOST_WAITING = 64  # requests of all pages

OnDone = Callable[[str, bool], None]
"""Called with the reason of a refusal, empty if there is none, and whether the token is wrong."""


class ControlAccess(Closeable):
    """Sends requests to the control server of a daemon.

    Parameters
    ----------
    client : ControlClient
    token : str, optional
        Token of all pages; otherwise each request needs one.
    """

    def __init__(self, client: ControlClient, token: str | None = None) -> None:
        self._client, self._token = client, token
        self._pool = ThreadPoolExecutor(
            1, "control"
        )  # one after the other: an undo must not overtake a choice
        self._free = threading.Semaphore(_MOST_WAITING)

    @property
    def needs_token(self) -> bool:
        """Whether requests need a token."""
        return self._token is None

    def close(self) -> None:
        """Forget the requests that wait. Closing twice is allowed."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, request: Mapping[str, Any], token: str, on_done: OnDone) -> None:
        """Send a request in another thread, which calls `on_done` at the end.

        Parameters
        ----------
        request : mapping
        token : str
            Of the page; not needed if there is one for all pages.
        on_done : callable
        """
        if not self._free.acquire(blocking=False):
            on_done("too many requests wait for the daemon; try again", False)
            return
        self._pool.submit(self._send, request, self._token or token, on_done)

    def _send(self, request: Mapping[str, Any], token: str, on_done: OnDone) -> None:
        try:
            self._client.send(request, token)
        except FeedError as error:
            on_done(str(error), str(error) == WRONG_TOKEN)
        else:
            on_done("", False)
        finally:
            self._free.release()
