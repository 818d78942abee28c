"""Serve metrics for Prometheus at /metrics, and the state of the daemon at /health, over HTTP."""

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from igbss_stream._util.web_hosts import AllowedHosts
from igbss_stream.daemon.http_server import HttpServer, WebResponse
from igbss_stream.daemon.metrics import create_registry, get_version
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.errors import FeedError

_IS_HEALTHY = {
    "ok": True,
    "learning": True,
    "waiting": True,
    "ended": True,
    "silent": False,
    "refused": False,
    "failed": False,
}
"""Whether a stream with a status is well. A status that is missing here is not."""


def get_status(runners: Sequence[StreamRunner]) -> dict[str, Any]:
    """Return the state of all streams.

    Parameters
    ----------
    runners : sequence of StreamRunner

    Returns
    -------
    dict
        ``status`` is "ok" if all streams are well and no sink fails, otherwise "degraded".
    """
    streams = {
        runner.name: {
            "status": runner.status,
            "model": get_version(runner),
            "samples_in": runner.samples_in,
            "samples_out": runner.samples_out,
            "samples_gap": runner.samples_gap,
            "bad_channels": list(runner.bad_channels.bad),
            "failing_sinks": [sink.label for sink in runner.sinks if sink.is_failing],
        }
        for runner in runners
    }
    is_healthy = all(
        _IS_HEALTHY.get(str(stream["status"]), False) and not stream["failing_sinks"]
        for stream in streams.values()
    )
    return {"status": "ok" if is_healthy else "degraded", "streams": streams}


class HealthServer(HttpServer):
    """Serve metrics and state from a separate thread.

    Parameters
    ----------
    host : str
    port : int
        0 selects a free one.
    runners : sequence of StreamRunner
    allowed_hosts : sequence of str
        Names by which clients may address the server, besides its own (`AllowedHosts`).

    Raises
    ------
    FeedError
        If the address cannot be bound.
    """

    def __init__(
        self, host: str, port: int, runners: Sequence[StreamRunner], allowed_hosts: Sequence[str] = ()
    ) -> None:
        registry = create_registry(runners)

        def get_metrics() -> WebResponse:
            return WebResponse(CONTENT_TYPE_LATEST, generate_latest(registry))

        def get_health() -> WebResponse:
            status = get_status(runners)
            code = HTTPStatus.OK if status["status"] == "ok" else HTTPStatus.SERVICE_UNAVAILABLE
            return WebResponse("application/json", json.dumps(status).encode(), code)

        pages = {"/metrics": get_metrics, "/health": get_health}
        try:
            super().__init__(host, port, pages, AllowedHosts(host, allowed_hosts), "health.allowed_hosts")
        except OSError as error:
            raise FeedError(
                f"health cannot be served at {host}:{port}: {error.strerror}. Set another health.host or "
                "health.port."
            ) from None
