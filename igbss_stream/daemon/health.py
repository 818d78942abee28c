"""Metrics for Prometheus at /metrics, and the state of the daemon at /health, by HTTP.

The numbers are read off the lanes when they are asked for, so that counting costs a stream nothing.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from igbss_stream._util.scheduling import use_normal_priority
from igbss_stream.daemon.stream_runner import DELAYS, Lane
from igbss_stream.errors import FeedError

_STREAM = ["stream"]


class _Lanes(Collector):
    """Reads the metrics off the lanes."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are known when they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of every stream."""
        samples = CounterMetricFamily(
            "igbss_samples", "Samples by what became of them.", labels=["stream", "fate"]
        )
        events = CounterMetricFamily("igbss_events", "What happened, by kind.", labels=["stream", "kind"])
        version = GaugeMetricFamily("igbss_model_version", "Version of the model in force.", labels=_STREAM)
        silent = GaugeMetricFamily("igbss_silent", "Whether nothing comes.", labels=_STREAM)
        delay = HistogramMetricFamily(
            "igbss_delay_seconds", "Time from the arrival of samples to their publication.", labels=_STREAM
        )
        for lane in self._lanes:
            for fate in ("in", "out", "gap"):
                samples.add_metric([lane.name, fate], getattr(lane, f"samples_{fate}"))
            for kind, count in lane.events().items():
                events.add_metric([lane.name, kind], count)
            version.add_metric([lane.name], 0 if lane.model is None else lane.model.version)
            silent.add_metric([lane.name], lane.is_silent)
            delay.add_metric([lane.name], _buckets(lane.delays), lane.delay_sum)
        yield from (samples, events, version, silent, delay)


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip((*DELAYS, float("inf")), counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    return buckets


def status(lanes: Sequence[Lane]) -> dict[str, Any]:
    """Return the state of all streams; ``status`` is "ok" if none is silent or failed."""
    streams = {
        lane.name: {
            "status": lane.status,
            "model": 0 if lane.model is None else lane.model.version,
            "samples_in": lane.samples_in,
            "samples_out": lane.samples_out,
            "samples_gap": lane.samples_gap,
        }
        for lane in lanes
    }
    well = all(stream["status"] in ("ok", "learning", "waiting", "ended") for stream in streams.values())
    return {"status": "ok" if well else "degraded", "streams": streams}


class HealthServer:
    """Serves metrics and state from a thread of its own.

    Parameters
    ----------
    host : str
    port : int
        0 takes a free one.
    lanes : sequence of Lane

    Attributes
    ----------
    port : int

    Raises
    ------
    FeedError
        If the address cannot be bound.
    """

    def __init__(self, host: str, port: int, lanes: Sequence[Lane]) -> None:
        registry = CollectorRegistry()
        registry.register(_Lanes(lanes))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that the base class calls
                if self.path == "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                elif self.path == "/health":
                    state = status(lanes)
                    code = 200 if state["status"] == "ok" else 503
                    self._answer(code, "application/json", json.dumps(state).encode())
                else:
                    self._answer(404, "text/plain", b"there is /metrics and /health\n")

            def _answer(self, code: int, kind: str, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: a scrape every few seconds is no news."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise FeedError(f"health cannot be served at {host}:{port}: {error.strerror}.") from None
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._serve, name="health", daemon=True).start()

    def _serve(self) -> None:
        use_normal_priority()
        self._server.serve_forever()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
