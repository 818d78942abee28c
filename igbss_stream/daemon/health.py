"""Serve metrics for Prometheus at /metrics, and the state of the daemon at /health, over HTTP.

The server reads the numbers from the streams on request, so counting costs a stream nothing.
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
from igbss_stream.daemon.stream_runner import DELAY_BOUNDS, StreamRunner
from igbss_stream.errors import FeedError

_STREAM = ["stream"]
_HEALTHY = ("ok", "learning", "waiting", "ended")


class StreamCollector(Collector):
    """Collect the metrics of streams.

    Parameters
    ----------
    runners : sequence of StreamRunner
    """

    def __init__(self, runners: Sequence[StreamRunner]) -> None:
        self._runners = runners

    def describe(self) -> Iterable[Metric]:
        """Return nothing: names are known when metrics are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric of every stream."""
        samples = CounterMetricFamily(
            "igbss_samples",
            "Samples received, published, and published as gaps.",
            labels=["stream", "fate"],
        )
        events = CounterMetricFamily("igbss_events", "Events by kind.", labels=["stream", "kind"])
        version = GaugeMetricFamily("igbss_model_version", "Version of the active model.", labels=_STREAM)
        silent = GaugeMetricFamily("igbss_silent", "1 while no data arrive.", labels=_STREAM)
        delay = HistogramMetricFamily(
            "igbss_delay_seconds", "Time from the arrival of samples to their publication.", labels=_STREAM
        )
        for runner in self._runners:
            for fate in ("in", "out", "gap"):
                samples.add_metric([runner.name, fate], getattr(runner, f"samples_{fate}"))
            for kind, count in runner.get_events().items():
                events.add_metric([runner.name, kind], count)
            version.add_metric([runner.name], _get_version(runner))
            silent.add_metric([runner.name], runner.is_silent)
            delay.add_metric([runner.name], _accumulate(runner.delays), runner.delay_sum)
        yield from (samples, events, version, silent, delay)


def _get_version(runner: StreamRunner) -> int:
    model = runner.model
    return 0 if model is None else model.version


def _accumulate(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the cumulative buckets of a histogram, as Prometheus expects them."""
    total, buckets = 0, []
    for bound, count in zip((*DELAY_BOUNDS, float("inf")), counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    return buckets


def get_status(runners: Sequence[StreamRunner]) -> dict[str, Any]:
    """Return the state of all streams; ``status`` is "ok" if none is silent or refused."""
    streams = {
        runner.name: {
            "status": runner.status,
            "model": _get_version(runner),
            "samples_in": runner.samples_in,
            "samples_out": runner.samples_out,
            "samples_gap": runner.samples_gap,
        }
        for runner in runners
    }
    is_healthy = all(stream["status"] in _HEALTHY for stream in streams.values())
    return {"status": "ok" if is_healthy else "degraded", "streams": streams}


class HealthServer:
    """Serve metrics and state from a separate thread.

    Parameters
    ----------
    host : str
    port : int
        0 selects a free one.
    runners : sequence of StreamRunner

    Attributes
    ----------
    port : int

    Raises
    ------
    FeedError
        If the address cannot be bound.
    """

    def __init__(self, host: str, port: int, runners: Sequence[StreamRunner]) -> None:
        registry = CollectorRegistry()
        registry.register(StreamCollector(runners))

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the base class calls this name
                if self.path == "/metrics":
                    self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
                elif self.path == "/health":
                    status = get_status(runners)
                    code = 200 if status["status"] == "ok" else 503
                    self._answer(code, "application/json", json.dumps(status).encode())
                else:
                    self._answer(404, "text/plain", b"not found; there are /metrics and /health\n")

            def _answer(self, code: int, kind: str, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: requests every few seconds are normal."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except OSError as error:
            raise FeedError(
                f"health cannot be served at {host}:{port}: {error.strerror}. Set another health.host or "
                "health.port."
            ) from None
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
