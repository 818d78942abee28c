"""Choice of sources on one open page: its requests, and what is taken out as the stream states it."""

import json
from functools import partial
from typing import Any

import msgspec
from bokeh.document import Document

from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.pages.view.feed import Feed

_LARGEST = 1 << 16  # characters of a request


class _Request(msgspec.Struct, frozen=True):
    number: int
    token: str
    action: dict[str, Any]


class Choosing:
    """Passes the requests of a page on, with the stream that it shows, and shows what is taken out.

    Parameters
    ----------
    document : Document
    live : Live
        Properties that the page and its script exchange.
    feed : Feed
    """

    def __init__(self, document: Document, live: Any, feed: Feed) -> None:
        self._document, self._live, self._feed = document, live, feed
        self._shown: CleaningFacts | None = None
        control = feed.control
        live.control = control is not None
        live.locked = control is not None and control.needs_token
        live.on_change("request", lambda name, old, new: self._pass_on(new))

    def show(self, facts: CleaningFacts | None) -> None:
        """Send what is taken out, if it has changed."""
        if facts is self._shown:
            return
        self._shown = facts
        self._live.taken = msgspec.json.encode(facts or CleaningFacts(start=0)).decode()

    def _pass_on(self, text: str) -> None:
        if self._feed.control is None or not 0 < len(text) <= _LARGEST:
            return
        try:
            request = msgspec.json.decode(text, type=_Request)
        except msgspec.MsgspecError:
            return
        with self._feed.lock:
            stream = self._feed.state.stream
        action = request.action | ({} if stream is None else {"stream": stream.name})
        self._feed.control.submit(action, request.token, partial(self._answer, request.number))

    def _answer(self, number: int, problem: str, wrong: bool) -> None:
        """Send the answer to the script, from the thread that serves the page."""
        answer = json.dumps({"number": number, "problem": problem, "wrong": wrong})
        self._document.add_next_tick_callback(partial(setattr, self._live, "answer", answer))
