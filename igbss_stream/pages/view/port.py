"""Find a free port for the page.

The daemon imports this module, so it must not import Bokeh.
"""

import socket

from igbss_stream.errors import FeedError

HOST = "127.0.0.1"


def find_free_port(port: int) -> int:
    """Return a port of this machine that can be used.

    Parameters
    ----------
    port : int
        The requested port; 0 selects a free one.

    Raises
    ------
    FeedError
        If the port is in use or not permitted.
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
