"""The port of a page."""

import socket

from igbss_stream.errors import FeedError

HOST = "127.0.0.1"


def free_port(port: int) -> int:
    """Return a port of this machine that can be bound.

    Parameters
    ----------
    port : int
        The one that is wanted; 0 finds one.

    Raises
    ------
    FeedError
        If it is taken, or not allowed.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise FeedError(
                f"the page cannot be served at port {port}: {error.strerror}; choose another port"
            ) from None
        return int(probe.getsockname()[1])
