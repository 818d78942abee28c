"""Serve the page on this machine until a stop is requested."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from tornado.ioloop import PeriodicCallback

from igbss_stream.pages.view.feed import Feed
from igbss_stream.pages.view.page import Page
from igbss_stream.pages.view.port import HOST, find_free_port
from igbss_stream.pages.view.web_server import create_server

_CHECK_INTERVAL = 200  # ms between checks for a stop request
_QUIET_LOGGERS = ("bokeh", "tornado")  # loggers whose messages are not useful to viewers


def serve(
    feed: Feed,
    port: int,
    on_ready: Callable[[str], None],
    should_stop: Callable[[], bool],
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve pages that show a feed.

    Parameters
    ----------
    feed : Feed
    port : int
        Port on this machine; 0 selects a free one.
    on_ready : callable
        Called with the address of the page once it can be opened.
    should_stop : callable
        Returns whether to stop; called a few times a second.
    allowed_hosts : sequence of str
        Names at which browsers may open the page, such as that of a reverse proxy. IP addresses and
        ``localhost`` are always allowed.

    Raises
    ------
    FeedError
        If the port is in use.
    """
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    port = find_free_port(port)
    application = Application(FunctionHandler(partial(_open, feed)))
    server = create_server(application, port, allowed_hosts)
    server.start()

    def check() -> None:
        if should_stop():
            server.io_loop.stop()

    checks = PeriodicCallback(check, _CHECK_INTERVAL)
    checks.start()
    server.io_loop.add_callback(on_ready, f"http://{HOST}:{port}/")
    try:
        server.io_loop.start()
    finally:
        checks.stop()  # the thread shares its loop: a pending check would also stop the next page
        server.stop()


def _open(feed: Feed, document: Document) -> None:
    Page(document, feed)
