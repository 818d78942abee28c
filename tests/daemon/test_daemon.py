"""`igbss-stream run` as a separate process, between real sockets."""

import json
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests import published
from tests.commands import Spawn
from tests.daemons import DaemonProcess, free_port
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels; coverage does not see it

RATE = 500.0


class Running(DaemonProcess):
    """A daemon with a sender and subscribers, which are closed at the end of the test."""

    def __init__(
        self,
        spawn: Spawn,
        folder: Path,
        ends: ExitStack,
        more: str,
        source: str = "",
        sinks: str = "",
        queue: int = 1000,
    ) -> None:
        self.out, health = free_port(), free_port()
        self.sender: ZmqPublisher | None = None
        self._ends = ends
        if not source:
            self.sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
            source = f"{{kind: zmq, address: '{self.sender.address}', silence: 0.5}}"
        config = folder / "run.yaml"
        config.write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {source}\n"
            f"    sinks:\n"
            f"      - {{kind: zmq, address: 'tcp://127.0.0.1:{self.out}', queue: {queue}}}\n"
            f"{sinks}"
            f"{more}\n"
            f"health: {{port: {health}}}\n"
            f"log: {{format: json}}\n"
        )
        super().__init__(spawn("run", config), health)
        self.wait_for_line("running")

    def subscribe(self, **options: Any) -> Subscriber:
        return self._ends.enter_context(
            Subscriber(f"tcp://127.0.0.1:{self.out}", timeout=DEADLINE, **options)
        )


Start = Callable[..., Running]


@pytest.fixture
def start(spawn: Spawn, tmp_path: Path) -> Iterator[Start]:
    """Start a daemon with one stream and additional configuration."""
    with ExitStack() as ends:
        yield partial(Running, spawn, tmp_path, ends)


def collect(items: Iterator[Chunk | Gap], stop: int) -> list[Chunk | Gap]:
    """Return the items up to an index."""
    got: list[Chunk | Gap] = []
    for item in items:
        got.append(item)
        if item.stop >= stop:
            return got
    raise AssertionError("the stream ended")


def connect(running: Running, stream: Stream) -> tuple[ZmqPublisher, Subscriber]:
    """Start the stream of the sender, and wait until both connections are open."""
    sender = running.sender
    assert sender is not None
    sender.start(stream)
    until(lambda: sender.subscriptions == 1, sender.serve)
    subscriber = running.subscribe()
    until(lambda: running.count("subscriptions") == 1, describe=lambda: running.get("metrics"))
    return sender, subscriber


STREAM = Stream("s", RATE, ("a", "b", "c"), "uV")
SYSTEMATIC = "    model: {structure: systematic}"


def test_samples_pass_bit_by_bit_and_each_is_accounted_for(start: Start) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    running = start(SYSTEMATIC)
    sender, subscriber = connect(running, STREAM)
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
    mixing = subscriber.meta.mixing
    assert mixing is not None
    assert (mixing.version, mixing.channels, mixing.unit) == (1, STREAM.channels, "uV")
    np.testing.assert_allclose(want @ np.array(mixing.matrix).T, x, rtol=1e-4, atol=1e-4)
    counts = {"model": 1, "samples_in": 950, "samples_out": 950, "samples_gap": 50}
    until(lambda: counts.items() <= running.state().items(), describe=running.state)
    metrics = running.get("metrics")
    assert 'igbss_samples_total{fate="out",stream="s"} 950.0' in metrics
    assert 'igbss_delay_seconds_count{stream="s"}' in metrics
    running.wait_for_line("silent for 0.5 s")
    until(lambda: json.loads(running.get("health"))["status"] == "degraded")
    more = iter(range(1000, 10**9, 5))
    until(lambda: running.state()["status"] == "ok", lambda: sender.publish(Chunk(x[:5], next(more))))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_run_in_order(start: Start, number: int) -> None:
    running = start(SYSTEMATIC)
    sender, subscriber = connect(running, STREAM)
    sender.publish(Chunk(np.ones((5, 3), np.float32), 0))
    collect(iter(subscriber), 5)
    running.end(number)
    assert list(subscriber) == []  # the end was told


def test_learned_models_continue_after_a_restart(start: Start, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = np.asarray(rng.laplace(size=(3000, 3)) @ draw_mixing(3).T, dtype=np.float32)
    more = (
        "    learning: {first: 2, window: 2, every: null, ahead: 0, fade: 0}\n"
        f"state: {{path: {tmp_path / 'state'}, every: 60}}"
    )
    recording = tmp_path / "out.h5"
    sink = f"      - {{kind: hdf5, path: {recording}, if_exists: append}}\n"
    first = start(more, sinks=sink)
    sender, subscriber = connect(first, STREAM)
    sender.publish(Chunk(x[:1000], 0))
    stop = 1000

    def send_more() -> None:
        nonlocal stop
        sender.publish(Chunk(x[stop % 3000 : stop % 3000 + 10], stop))
        stop += 10

    until(lambda: first.state()["model"] > 0, send_more)
    sender.publish(Chunk(x[2900:], stop))
    items = collect(iter(subscriber), stop + 100)
    assert {item.reason for item in items if isinstance(item, Gap)} == {"learning"}
    before = items[-1]
    assert isinstance(before, Chunk)
    mixing = subscriber.meta.mixing
    assert mixing is not None
    made_up = before.data @ np.array(mixing.matrix).T + np.array(mixing.mean)
    np.testing.assert_allclose(made_up, x[2900:], rtol=1e-3, atol=1e-3)
    learning = subscriber.learning
    assert learning is not None
    line = first.wait_for_line("model 1 from sample")
    assert line["message"].endswith(f" s from {learning}")
    assert re.search(
        r"model 1 from sample \d+, learned in \d+\.\d\d s from .*; reliability .* dB$", line["message"]
    )
    first.end(signal.SIGTERM)
    recorded = read_recorded(recording)
    chunks = [item.data for item in items if isinstance(item, Chunk)]
    np.testing.assert_array_equal(recorded, np.concatenate(chunks))
    with h5py.File(tmp_path / "state" / "s.h5") as file:
        np.testing.assert_array_equal(learning.reliability, file["reliability"])
        assert learning.view == file.attrs["view"]
        assert list(learning.contradictions.items()) == file["contradictions"][:].tolist()

    second = start(more, sinks=sink)
    assert "continuing with model 1 of the previous run" in " ".join(
        line["message"] for line in second.lines
    )
    sender, subscriber = connect(second, STREAM)
    sender.publish(Chunk(x[2900:], 0))
    (item,) = collect(iter(subscriber), 100)
    assert isinstance(item, Chunk)
    np.testing.assert_array_equal(item.data, before.data)
    assert item.model_version == 1
    restored = subscriber.learning
    assert restored is not None
    assert str(restored) == str(learning)
    np.testing.assert_array_equal(restored.reliability, learning.reliability)
    second.end(signal.SIGTERM)
    with h5py.File(recording) as file:
        assert file["learning"]["row"].tolist() == file["models"]["row"].tolist() == [0, len(recorded)]
        for row in file["learning"]:
            assert (row["version"], row["view"]) == (1, learning.view)
            np.testing.assert_array_equal(row["reliability"], learning.reliability.astype(np.float32))
    np.testing.assert_array_equal(read_recorded(recording), np.concatenate([*chunks, item.data]))


def read_recorded(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return np.asarray(file["data"])


def test_a_replayed_recording_gives_the_result_of_batch(start: Start, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    path = write_recording(tmp_path / "in.h5", x, rate=RATE)
    source = f"{{kind: file, path: {path}, speed: 4, loop: true}}"
    running = start(SYSTEMATIC, source)
    want = published.separate(x).sources
    for item in collect(iter(running.subscribe()), 4000):
        if isinstance(item, Chunk):
            at = np.arange(item.start, item.stop) % 2000
            np.testing.assert_array_equal(item.data, want[at])


def test_reload_applies_some_changes_and_names_the_others(start: Start, tmp_path: Path) -> None:
    running = start(f"{SYSTEMATIC}\nstate: {{path: {tmp_path / 'state'}, every: 3600}}")
    sender, subscriber = connect(running, STREAM)
    config = tmp_path / "run.yaml"
    first = config.read_text()

    def reload(*changes: tuple[str, str]) -> None:
        text = first
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        config.write_text(text)
        running.process.send_signal(signal.SIGHUP)

    reload(
        ("silence: 0.5", "silence: 4e-2"), ("every: 3600", "every: 0.05"), ("json}", "json, level: debug}")
    )
    for message in (
        "streams[0].source.silence is 0.04 now",
        "state.every is 0.05 now",
        "log.level is debug now",
    ):
        running.wait_for_line(message)
    sender.publish(Chunk(np.ones((5, 3), np.float32), 0))
    collect(iter(subscriber), 5)
    running.wait_for_line("silent for 0.04 s")
    until((tmp_path / "state" / "s.h5").exists)

    reload(
        ("{structure: systematic}", "{structure: cyclic}"),
        ("/state,", "/elsewhere,"),
        ("name: s\n", "name: t\n"),
    )
    for message in ("state.every is 3600.0 now", "log.level is info now"):
        running.wait_for_line(message)
    named = running.wait_for_line("other changes need a restart: ")
    assert named["level"] == "warning"
    assert named["message"].split(": ")[1].split(", ") == [
        "streams[0].name", "streams[0].source.silence", "streams[0].model.structure", "state.path",
    ]  # fmt: skip
    reload(("every: 3600", "every: 3600.0"), ("silence: 0.5", "silence: 0.04"))
    running.wait_for_line("the configuration has not changed")

    for broken in ("streams: 5", "streams: [", ""):
        config.write_text(broken)
        running.process.send_signal(signal.SIGHUP)
        assert running.wait_for_line("the configuration was not reloaded")["level"] == "error"
    config.unlink()
    running.process.send_signal(signal.SIGHUP)
    running.wait_for_line("does not exist")
    sender.publish(Chunk(np.ones((5, 3), np.float32), 5))
    (item,) = collect(iter(subscriber), 10)
    assert (item.start, item.stop) == (5, 10)
    running.end(signal.SIGTERM)


# A fit that outlasts every test. Each call of it is a line of the log.
ENDLESS_FIT = """
import logging, time
import igbss_stream.separation.structure_fit as structure_fit
def fit_structure(*args):
    logging.getLogger("test").warning("the fit begins")
    time.sleep(3600)
structure_fit.fit_structure = fit_structure
"""


def test_a_daemon_stops_without_waiting_for_a_fit(spawn: Spawn, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    write_recording(tmp_path / "in.h5", x, rate=RATE)
    (tmp_path / "run.yaml").write_text(
        f"streams: [{{name: s, source: {{kind: file, path: in.h5}}, learning: {{first: 1}}, "
        f"sinks: [{{kind: zmq, address: '{free_port()}'}}]}}]\nlog: {{format: json}}\n"
    )
    daemon = DaemonProcess(spawn("run", tmp_path / "run.yaml", before=ENDLESS_FIT))
    daemon.wait_for_line("the fit begins")
    daemon.end(signal.SIGTERM)


def test_mistakes_end_the_daemon_with_code_2(spawn: Spawn, tmp_path: Path) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("streams: []")
    process = spawn("run", config)
    _, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 2
    assert "streams" in err
    assert "Traceback" not in err
    taken = ZmqPublisher("tcp://127.0.0.1:*")
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


def test_a_subscriber_that_stops_reading_does_not_affect_the_others(start: Start) -> None:
    n, length = 1000, 8000  # 96 MB in all
    running = start(SYSTEMATIC, queue=20)
    sender, quick = connect(running, STREAM)
    slow = running.subscribe(high_water_mark=20)
    until(lambda: running.count("subscriptions") == 2)
    data = np.random.default_rng(0).normal(size=(length, 3)).astype(np.float32)
    items = iter(quick)
    spent = []
    for i in range(n):
        if i == 10:
            before = running.peak_memory
        began = time.monotonic()
        sender.publish(Chunk(data, i * length))
        item = next(items)  # other subscribers receive each message in time
        spent.append(time.monotonic() - began)
        assert (item.start, item.stop) == (i * length, (i + 1) * length)
        assert isinstance(item, Chunk)
    assert running.peak_memory - before < 30_000  # kB
    assert np.median(spent) < 0.5  # seconds; a daemon that waits for the slow one would wait for ever
    until(lambda: running.count("overflows") >= 1)
    told = running.wait_for_line("is too slow and misses messages")
    assert (told["level"], f":{running.out} " in told["message"]) == ("warning", True)

    got = collect(iter(slow), 100_000)  # buffered for it
    assert all(isinstance(item, Chunk) for item in got)
    assert got[0].start == 0
    held: list[Chunk | Gap] = []

    def catch_up() -> None:
        nonlocal n
        sender.publish(Chunk(data, n * length))
        n += 1
        next(items)
        held.extend(slow.receive(0.01))

    until(lambda: held and held[-1].start >= 1000 * length, catch_up)
    assert {item.reason for item in held if isinstance(item, Gap)} == {"dropped"}
