"""Collect the metrics of a daemon for Prometheus.

The numbers are read from the streams on request, so counting costs a stream nothing.
"""

import platform
from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from igbss_stream._util.version import __version__
from igbss_stream.daemon.delay_histogram import DELAY_BOUNDS
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.daemon.stream_runner import StreamRunner

_STREAM = ["stream"]


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
        failing = GaugeMetricFamily(
            "igbss_sink_failing", "1 while a sink fails, as on a full disk.", labels=["stream", "sink"]
        )
        bad = GaugeMetricFamily("igbss_bad_channels", "Channels that are bad now.", labels=_STREAM)
        delay = HistogramMetricFamily(
            "igbss_delay_seconds", "Time from the arrival of samples to their publication.", labels=_STREAM
        )
        for runner in self._runners:
            for fate in ("in", "out", "gap"):
                samples.add_metric([runner.name, fate], getattr(runner, f"samples_{fate}"))
            for kind, count in collect_counts(runner).items():
                events.add_metric([runner.name, kind], count)
            version.add_metric([runner.name], get_version(runner))
            silent.add_metric([runner.name], runner.is_silent)
            bad.add_metric([runner.name], len(runner.bad_channels.bad))
            for sink in runner.sinks:
                failing.add_metric([runner.name, sink.label], sink.is_failing)
            delay.add_metric([runner.name], _accumulate(runner.delays.counts), runner.delays.total)
        yield from (samples, events, version, silent, bad, failing, delay)


class BuildCollector(Collector):
    """Collect the versions of the package and of Python."""

    def collect(self) -> Iterator[Metric]:
        """Yield one metric with the versions as labels."""
        yield InfoMetricFamily(
            "igbss_build",
            "Versions of igbss_stream and Python.",
            value={"version": __version__, "python_version": platform.python_version()},
        )


def create_registry(runners: Sequence[StreamRunner]) -> CollectorRegistry:
    """Return a registry of all metrics: of the streams, the build and the process.

    Parameters
    ----------
    runners : sequence of StreamRunner

    Returns
    -------
    prometheus_client.CollectorRegistry
    """
    registry = CollectorRegistry()
    registry.register(StreamCollector(runners))
    registry.register(BuildCollector())
    ProcessCollector(registry=registry)  # CPU time, memory, open files, start time; Linux only
    return registry


def get_version(runner: StreamRunner) -> int:
    """Return the version of the active model of a stream; 0 before the first."""
    model = runner.model
    return 0 if model is None else model.version


def _accumulate(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the cumulative buckets of a histogram, as Prometheus expects them."""
    total, buckets = 0, []
    for bound, count in zip((*DELAY_BOUNDS, float("inf")), counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
    return buckets
