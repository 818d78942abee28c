"""`igbss-stream run` as a process of its own, between real sockets."""

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.demo import mixing_matrix
from igbss_stream.publish.zmq import ZmqSink
from tests import published
from tests.integration.conftest import Spawn
from tests.recordings import write_recording

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels; coverage does not see it

RATE = 500.0
DEADLINE = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """A daemon, a sender into it and subscribers to it, which are closed at the end of the test."""

    def __init__(
        self, spawn: Spawn, folder: Path, ends: ExitStack, more: str, source: str = "", sinks: str = ""
    ) -> None:
        self.out, self.health = free_port(), free_port()
        self.sender: ZmqSink | None = None
        self._ends = ends
        if not source:
            self.sender = ends.enter_context(ZmqSink("tcp://127.0.0.1:*"))
            source = f"{{kind: zmq, address: '{self.sender.address}', silence: 0.5}}"
        config = folder / "run.yaml"
        config.write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {source}\n"
            f"    sinks:\n"
            f"      - {{kind: zmq, address: 'tcp://127.0.0.1:{self.out}'}}\n"
            f"{sinks}"
            f"{more}\n"
            f"health: {{port: {self.health}}}\n"
            f"log: {{format: json}}\n"
        )
        self.process: Popen[str] = spawn("run", config)
        self.lines: list[dict[str, Any]] = []
        self.wait_for_line("running")

    def wait_for_line(self, words: str) -> dict[str, Any]:
        """Read the log until a message holds the words."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            line = self.process.stderr.readline()
            if not line:
                break
            self.lines.append(json.loads(line))
            if words in self.lines[-1]["message"]:
                return self.lines[-1]
        raise AssertionError(f"no {words!r} in {self.lines}")

    def get(self, page: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/{page}", timeout=5) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())

    def subscribe(self) -> Subscriber:
        return self._ends.enter_context(Subscriber(f"tcp://127.0.0.1:{self.out}", timeout=DEADLINE))

    def until(self, sink: ZmqSink, name: str, count: int) -> None:
        """Serve a sender until it has so many subscribers."""
        deadline = time.monotonic() + DEADLINE
        while getattr(sink, name) < count:
            assert time.monotonic() < deadline
            sink.serve()
            time.sleep(0.01)


Start = Callable[..., Running]


@pytest.fixture
def start(spawn: Spawn, tmp_path: Path) -> Iterator[Start]:
    """Start a daemon with one stream; what is given is added to its configuration."""
    with ExitStack() as ends:
        yield partial(Running, spawn, tmp_path, ends)


def collect(items: Iterator[Chunk | Gap], stop: int) -> list[Chunk | Gap]:
    """Return what comes up to an index."""
    got: list[Chunk | Gap] = []
    for item in items:
        got.append(item)
        if item.stop >= stop:
            return got
    raise AssertionError("the stream ended")


def connected(running: Running, stream: Stream) -> tuple[ZmqSink, Subscriber]:
    """Start the sender's stream, and wait until both connections are there."""
    sender = running.sender
    assert sender is not None
    sender.start(stream)
    running.until(sender, "subscriptions", 1)
    subscriber = running.subscribe()
    deadline = time.monotonic() + DEADLINE
    while 'kind="subscriptions",stream="s"} 1.0' not in running.get("metrics"):
        assert time.monotonic() < deadline, running.get("metrics")
        time.sleep(0.02)
    return sender, subscriber


STREAM = Stream("s", RATE, ("a", "b", "c"), "uV")
SYSTEMATIC = "    model: {structure: systematic}"


def test_samples_pass_to_the_bit_and_every_one_is_accounted_for(start: Start) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    running = start(SYSTEMATIC)
    sender, subscriber = connected(running, STREAM)
    sender.publish(Chunk(x[:300], 0))
    for at in range(350, 1000, 50):  # 50 are lost
        sender.publish(Chunk(x[at : at + 50], at))
    items = collect(iter(subscriber), 1000)
    want = published.separate(x).sources
    for item in items:
        if isinstance(item, Chunk):
            np.testing.assert_array_equal(item.data, want[item.start : item.stop])
    gaps = [(item.start, item.n_samples, item.reason) for item in items if isinstance(item, Gap)]
    assert gaps == [(300, 50, "lost")]
    assert (subscriber.stream.unit, subscriber.stream.channels[0]) == ("uV", "source-0")
    state = json.loads(running.get("health"))
    assert state["streams"]["s"] == {
        "status": "ok", "model": 1, "samples_in": 950, "samples_out": 950, "samples_gap": 50,
    }  # fmt: skip
    metrics = running.get("metrics")
    assert 'igbss_samples_total{fate="out",stream="s"} 950.0' in metrics
    assert 'igbss_delay_seconds_count{stream="s"}' in metrics
    running.wait_for_line("silent for 0.5 s")
    assert json.loads(running.get("health"))["status"] == "degraded"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_it_in_order(start: Start, number: int) -> None:
    running = start(SYSTEMATIC)
    sender, subscriber = connected(running, STREAM)
    sender.publish(Chunk(np.ones((5, 3), np.float32), 0))
    collect(iter(subscriber), 5)
    began = time.monotonic()
    running.process.send_signal(number)
    assert running.process.wait(10) == 0
    assert time.monotonic() - began < 2.0
    assert list(subscriber) == []  # the end was told


def test_learned_models_go_on_after_a_restart(start: Start, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = np.asarray(rng.laplace(size=(3000, 3)) @ mixing_matrix(3).T, dtype=np.float32)
    more = (
        "    learning: {first: 2, window: 2, every: null, ahead: 0, fade: 0}\n"
        f"state: {{path: {tmp_path / 'state'}, every: 60}}"
    )
    recording = tmp_path / "out.h5"
    sink = f"      - {{kind: hdf5, path: {recording}, existing: append}}\n"
    first = start(more, sinks=sink)
    sender, subscriber = connected(first, STREAM)
    sender.publish(Chunk(x[:1000], 0))
    stop, deadline = 1000, time.monotonic() + DEADLINE
    while json.loads(first.get("health"))["streams"]["s"]["model"] == 0:
        assert time.monotonic() < deadline
        sender.publish(Chunk(x[stop % 3000 : stop % 3000 + 10], stop))
        stop += 10
        time.sleep(0.01)
    sender.publish(Chunk(x[2900:], stop))
    items = collect(iter(subscriber), stop + 100)
    assert {item.reason for item in items if isinstance(item, Gap)} == {"learning"}
    before = items[-1]
    assert isinstance(before, Chunk)
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(10) == 0
    recorded = read_recorded(recording)
    chunks = [item.data for item in items if isinstance(item, Chunk)]
    np.testing.assert_array_equal(recorded, np.concatenate(chunks))

    second = start(more, sinks=sink)
    assert "model 1 of the run before is taken up" in " ".join(line["message"] for line in second.lines)
    sender, subscriber = connected(second, STREAM)
    sender.publish(Chunk(x[2900:], 0))
    (item,) = collect(iter(subscriber), 100)
    assert isinstance(item, Chunk)
    np.testing.assert_array_equal(item.data, before.data)
    assert item.model == 1
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(10) == 0
    np.testing.assert_array_equal(read_recorded(recording), np.concatenate([*chunks, item.data]))


def read_recorded(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return np.asarray(file["data"])


def test_a_recording_replayed_is_what_batch_gives(start: Start, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    path = write_recording(tmp_path / "in.h5", x, rate=RATE)
    source = f"{{kind: hdf5, path: {path}, speed: 4, loop: true}}"
    running = start(SYSTEMATIC, source)
    want = published.separate(x).sources
    for item in collect(iter(running.subscribe()), 4000):
        if isinstance(item, Chunk):
            at = np.arange(item.start, item.stop) % 2000
            np.testing.assert_array_equal(item.data, want[at])


def test_the_log_level_can_change_while_it_runs(start: Start, tmp_path: Path) -> None:
    running = start(SYSTEMATIC)
    config = tmp_path / "run.yaml"
    config.write_text(
        config.read_text().replace("log: {format: json}", "log: {format: json, level: debug}")
    )
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_line("log level is debug")
    config.write_text("streams: 5")
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_line("the configuration is kept as it was")
    assert running.process.poll() is None


def test_mistakes_end_it_with_code_2(spawn: Spawn, tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("streams: []")
    process = spawn("run", config)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "streams" in err
    assert "Traceback" not in err
    taken = ZmqSink("tcp://127.0.0.1:*")
    config.write_text(
        "streams:\n"
        "  - name: s\n"
        "    source: {kind: zmq, address: '5999'}\n"
        f"    sinks: [{{kind: zmq, address: '{taken.address}'}}]\n"
    )
    process = spawn("run", config)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "the address is in use" in err
    taken.close()
