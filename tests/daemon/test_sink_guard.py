"""A sink that fails stops neither its stream nor the others, and says when it has recovered."""

import json
import logging
import resource
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import generate_latest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon import sink_guard
from igbss_stream.daemon.delay_histogram import DelayHistogram
from igbss_stream.daemon.health import get_status
from igbss_stream.daemon.metrics import create_registry
from igbss_stream.daemon.sink_guard import GuardedSink
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.feeds.model_facts import LearningFacts, Mixing
from tests.commands import Spawn
from tests.daemon.test_daemon import Running, collect, connect
from tests.stream_runners import CollectingSink
from tests.waiting import until

CHUNK, GAP = Chunk(np.zeros((2, 3), np.float32), 0), Gap(2, 1, "lost")


class FragileSink(CollectingSink):
    """A sink that fails while its disk is full."""

    is_full = False

    def __init__(self) -> None:
        super().__init__()
        self.publish = self._fail_or_collect

    def _fail_or_collect(self, item: Chunk | Gap) -> None:
        self._fail()
        self.items.append(item)

    def _fail(self) -> None:
        if self.is_full:
            raise RecordingError("the disk is full")

    def start(self, stream: Stream) -> None:
        self._fail()

    def set_model(self, mixing: Mixing | None, learning: LearningFacts | None) -> None:
        self._fail()

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        self._fail()

    def publish_events(self, events: Events) -> None:
        self._fail()

    def serve(self) -> None:
        self._fail()

    def close(self) -> None:
        self._fail()


@pytest.fixture
def sleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock of the guard."""
    now = [100.0]
    monkeypatch.setattr(sink_guard, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


@pytest.mark.parametrize(
    "call", ["start", "set_model", "set_bad_channels", "publish", "publish_events", "serve", "close"]
)
def test_no_failure_is_raised(call: str) -> None:
    sink = FragileSink()
    guarded = GuardedSink("s", "sinks[0]", sink)
    sink.is_full = True
    arguments = {
        "start": (Stream("s", 1.0, ("a",)),),
        "set_model": (None, None),
        "set_bad_channels": (("T8",),),
        "publish": (CHUNK,),
        "publish_events": (Events(),),
    }
    getattr(guarded, call)(*arguments.get(call, ()))
    assert (guarded.failures, guarded.is_failing) == (1, True)


def test_faults_of_the_program_are_logged_with_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    sink = CollectingSink()
    sink.publish = lambda item: 1 / 0  # type: ignore[assignment]
    guarded = GuardedSink("s", "sinks[0]", sink)
    for _ in range(2):
        guarded.publish(CHUNK)
    assert caplog.text.count("ZeroDivisionError") == 1
    assert (guarded.failures, guarded.is_failing) == (2, True)


def test_one_line_for_a_failure_and_one_for_the_recovery(
    sleep: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sink = FragileSink()
    guarded = GuardedSink("s", "sinks[0]", sink)
    for n_failures in (3, 2):
        sink.is_full = True
        for _ in range(n_failures):
            guarded.publish(CHUNK)
        sink.is_full = False
        guarded.publish(CHUNK)
        guarded.serve()
        assert guarded.is_failing  # it may fail again at once
        sleep(5.1)
        guarded.publish(GAP)  # which a file may hold back
        guarded.serve()
        assert guarded.is_failing
        guarded.publish(CHUNK)
        assert not guarded.is_failing
    assert [record.getMessage() for record in caplog.records] == [
        "stream s: sinks[0] fails: the disk is full",
        "stream s: sinks[0] has recovered after 3 failures",
        "stream s: sinks[0] fails: the disk is full",
        "stream s: sinks[0] has recovered after 2 failures",
    ]


def as_runner(**facts: Any) -> StreamRunner:
    usual: dict[str, Any] = {"name": "s", "status": "ok", "model": None, "is_silent": False, "sinks": []}
    counts = {
        "samples_in": 0,
        "samples_out": 0,
        "samples_gap": 0,
        "delays": DelayHistogram(),
        "failures": 0,
    }
    stages = {
        "events": SimpleNamespace(n_in=0, n_out=0, n_dropped=0),
        "source": SimpleNamespace(get_counts=dict),
        "repair": None,
        "pipeline": None,
        "is_refused": False,
        "bad_channels": SimpleNamespace(bad=(), get_counts=dict),
    }
    return cast("StreamRunner", SimpleNamespace(**usual | counts | stages | facts))


@pytest.mark.parametrize(
    ("status", "is_healthy"),
    [
        *((well, True) for well in ("ok", "learning", "waiting", "ended")),
        *((ill, False) for ill in ("silent", "refused", "failed", "a status of a later version")),
    ],
)
def test_the_status_of_a_stream_decides_on_health(status: str, is_healthy: bool) -> None:
    health = get_status([as_runner(), as_runner(name="t", status=status)])
    assert health["status"] == ("ok" if is_healthy else "degraded")
    assert health["streams"]["t"]["status"] == status


def test_a_failing_sink_shows_in_health_and_metrics() -> None:
    sink = FragileSink()
    sinks = [GuardedSink("s", "sinks[0]", CollectingSink()), GuardedSink("s", "sinks[1]", sink)]
    runner = as_runner(sinks=sinks)
    for is_full in (False, True):
        sink.is_full = is_full
        for one in sinks:
            one.publish(CHUNK)
        health = get_status([runner])
        assert health["status"] == ("degraded" if is_full else "ok")
        assert health["streams"]["s"]["failing_sinks"] == (["sinks[1]"] if is_full else [])
        text = generate_latest(create_registry([runner])).decode()
        assert 'igbss_sink_failing{sink="sinks[0]",stream="s"} 0.0' in text
        assert f'igbss_sink_failing{{sink="sinks[1]",stream="s"}} {float(is_full)}' in text


@pytest.mark.jit  # a separate process
@pytest.mark.skipif(sys.platform != "linux", reason="prlimit limits the files of another process")
def test_a_full_disk_degrades_health_until_there_is_space(spawn: Spawn, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk; the other sink loses nothing."""
    with ExitStack() as ends:
        path = tmp_path / "out.h5"
        sink = f"      - {{kind: hdf5, path: {path}, flush: 0.1}}\n"
        running = Running(spawn, tmp_path, ends, "    model: {structure: systematic}", sinks=sink)
        sender, subscriber = connect(running, Stream("s", 500.0, ("a", "b", "c"), "uV"))
        rows = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
        sent, items = 0, list[Chunk | Gap]()

        def send() -> None:
            nonlocal sent
            sender.publish(Chunk(rows, sent))
            sent += len(rows)
            items.extend(subscriber.receive(0.01))

        def is_health(word: str) -> bool:
            return bool(json.loads(running.get("health"))["status"] == word)

        until(lambda: running.count("recorded") > 0, send)
        unlimited = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE)
        used = 512 * path.stat().st_blocks  # a growing recording ends in a hole
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (used, unlimited[1]))
        until(lambda: is_health("degraded"), send)
        assert running.state()["failing_sinks"] == ["sinks[1]"]
        assert 'igbss_sink_failing{sink="sinks[1]",stream="s"} 1.0' in running.get("metrics")
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, unlimited)
        until(lambda: is_health("ok"), send)
        running.wait_for_line("stream s: sinks[1] has recovered after")
        levels = [line["message"] for line in running.lines if line["level"] == "error"]
        assert len(levels) == 1
        assert levels[0].startswith("stream s: sinks[1] fails: ")
        items += [] if items[-1].stop == sent else collect(iter(subscriber), sent)
        assert sum(len(item.data) for item in items if isinstance(item, Chunk)) == sent
