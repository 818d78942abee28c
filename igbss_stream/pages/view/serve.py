"""Serves the page on this machine, until told to stop."""

import logging
from collections.abc import Callable
from functools import partial

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import Server
from tornado.ioloop import PeriodicCallback

from igbss_stream.pages.view.feed import Feed
from igbss_stream.pages.view.page import Page
from igbss_stream.pages.view.port import HOST, free_port

_LOOK = 200  # ms between looks whether a stop is wanted
_QUIET = ("bokeh", "tornado")  # what they tell is of no use to who looks at a stream


def serve(feed: Feed, port: int, told: Callable[[str], None], stopping: Callable[[], bool]) -> None:
    """Serve pages that show a feed.

    Parameters
    ----------
    feed : Feed
    port : int
        On this machine; 0 takes a free one.
    told : callable
        Is told the address of the page, once it can be opened.
    stopping : callable
        Whether to stop; asked a few times a second.

    Raises
    ------
    FeedError
        If the port is taken.
    """
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.ERROR)
    port = free_port(port)
    application = Application(FunctionHandler(partial(_open, feed)))
    origins = [f"{host}:{port}" for host in (HOST, "localhost")]
    server = Server({"/": application}, address=HOST, port=port, allow_websocket_origin=origins)
    server.start()

    def look() -> None:
        if stopping():
            server.io_loop.stop()

    looking = PeriodicCallback(look, _LOOK)
    looking.start()
    server.io_loop.add_callback(told, f"http://{HOST}:{port}/")
    try:
        server.io_loop.start()
    finally:
        looking.stop()  # the loop is that of the thread: another page in it would be stopped as well
        server.stop()


def _open(feed: Feed, document: Document) -> None:
    Page(document, feed)
