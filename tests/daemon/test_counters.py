"""Counters that the thread of the streams changes can be read by another thread at any time."""

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from igbss_stream.chunk import Stream
from igbss_stream.daemon import lsl_source
from igbss_stream.daemon.config.sources import LslInput, ZmqInput
from igbss_stream.daemon.health import get_status
from igbss_stream.daemon.lsl_source import LslStreamSource
from igbss_stream.daemon.metrics import StreamCollector
from igbss_stream.daemon.sources import SocketSource, count_rejections
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.feeds.sequencer import Sequencer
from tests.stream_runners import CollectingSink, create_runner

N_READS = 300
REASONS = [f"reason{i}" for i in range(200)]


@contextmanager
def hammer(*counters: "Counter[str]") -> Iterator[None]:
    """Add and remove reasons in a thread, and switch threads as often as possible."""
    over = threading.Event()
    interval = sys.getswitchinterval()

    def change() -> None:
        while not over.is_set():
            for counter in counters:
                for reason in REASONS:
                    counter[reason] += 1
                counter.clear()

    thread = threading.Thread(target=change)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)


def read_often(read: Callable[[], Any]) -> None:
    for _ in range(N_READS):
        read()


def test_a_plain_iteration_would_fail() -> None:
    """The hammering finds the fault that a snapshot avoids."""
    rejected: Counter[str] = Counter()

    def iterate() -> None:
        while True:
            _ = {f"rejected_{reason}": count for reason, count in rejected.items()}

    with hammer(rejected), pytest.raises(RuntimeError, match="changed size"):
        iterate()


def test_rejections_are_counted_from_a_snapshot() -> None:
    rejected = Counter(size=2)
    assert count_rejections(rejected) == {"rejected_size": 2}
    with hammer(rejected):
        read_often(lambda: count_rejections(rejected))


def test_metrics_and_health_of_a_socket() -> None:
    config = ZmqInput(address="tcp://127.0.0.1:*", socket="pull", bind=True)
    source = SocketSource("s", config)
    try:
        source._sequencer = Sequencer()
        runner = create_runner(source, config, CollectingSink())
        registry = CollectorRegistry()
        registry.register(StreamCollector([runner]))
        with hammer(source.receiver.rejected, source._sequencer.counts.rejected):
            read_often(lambda: generate_latest(registry))
            read_often(lambda: get_status([runner]))
            read_often(lambda: collect_counts(runner))
    finally:
        source.close()


def test_counters_of_an_lsl_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    indexer = SimpleNamespace(samples_in=0, samples_lost=0, restarts=0, measured_rate=None)
    inlet = SimpleNamespace(
        stream=Stream("s", 100.0, ("a",)), rejected=Counter(), received=0, indexer=indexer
    )
    monkeypatch.setattr(lsl_source, "LslInlet", lambda *names, **options: inlet)
    source = LslStreamSource("s", LslInput(name="s"))
    with hammer(cast("Counter[str]", inlet.rejected)):
        read_often(source.get_counts)
