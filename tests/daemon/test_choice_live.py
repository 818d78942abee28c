"""A choice at a running daemon: on the wire, in recordings and in the state, over a kill and a restart."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon.control_token import load_token
from igbss_stream.feeds.control_client import ControlClient
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import COMMAND, Spawn
from tests.daemons import DaemonProcess, free_port
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels

NAMES = ("Fz", "Cz", "Pz", "Oz")


class Live:
    """A daemon that publishes sources and cleaned channels, and what it is sent."""

    def __init__(self, spawn: Spawn, folder: Path, ends: ExitStack) -> None:
        self.folder, self.spawn, self.ends = folder, spawn, ends
        self.sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
        self.sender.start(Stream("s", 250.0, NAMES, "uV"))
        self.rng, self.at = np.random.default_rng(7), 0
        self.sent: dict[int, Any] = {}
        self.ports = [free_port() for _ in range(3)]

    def start(self) -> None:
        sources, cleaned, control = self.ports
        (self.folder / "run.yaml").write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {{kind: zmq, address: '{self.sender.address}'}}\n"
            f"    model: {{structure: systematic}}\n"
            f"    clean: {{}}\n"
            f"    sinks:\n"
            f"      - {{kind: zmq, address: '{sources}'}}\n"
            f"      - {{kind: zmq, address: '{cleaned}', publish: cleaned}}\n"
            f"      - {{kind: hdf5, path: out.h5, publish: cleaned, if_exists: number}}\n"
            f"state: {{path: state}}\n"
            f"control: {{port: {control}, token_file: control.token}}\n"
            f"log: {{format: json}}\n"
        )
        self.daemon = DaemonProcess(self.spawn("run", self.folder / "run.yaml"))
        self.daemon.wait_for_line("running")
        until(lambda: self.sender.subscriptions == 1, self.sender.serve)
        self.subscribers = [
            self.ends.enter_context(Subscriber(f"tcp://127.0.0.1:{port}", "s", timeout=DEADLINE))
            for port in (sources, cleaned)
        ]
        self.client = ControlClient(f"http://127.0.0.1:{control}")

    def choose(self, **request: Any) -> dict[str, Any]:
        return self.client.send(request, load_token(self.folder / "control.token"))

    def send(self) -> None:
        data = self.rng.normal(size=(5, len(NAMES))).astype(np.float32)
        self.sent[self.at] = data
        self.sender.publish(Chunk(data, self.at))
        self.at += len(data)

    def receive(self, until_index: int) -> list[tuple[int, Any, Any, Any]]:
        """Send, and return (start, samples sent, sources, cleaned channels) up to an index."""
        found: list[dict[int, Any]] = [{}, {}]
        while any(not part or max(part) < until_index for part in found):
            self.send()
            time.sleep(0.004)
            for part, subscriber in zip(found, self.subscribers, strict=True):
                items = subscriber.receive(0.0)
                part |= {item.start: item.data for item in items if isinstance(item, Chunk)}
        first, second = found
        return [(at, self.sent[at], first[at], second[at]) for at in sorted(first.keys() & second.keys())]


@pytest.fixture
def live(spawn: Spawn, tmp_path: Path) -> Iterator[Live]:
    with ExitStack() as ends:
        yield Live(spawn, tmp_path, ends)


def compute_residual(rows: list[tuple[int, Any, Any, Any]]) -> Any:
    """Return how far the cleaned channels are from the channels without the first source of the paper."""
    mixing = 1.0 - np.eye(len(NAMES))  # a source is the sum of all channels but one, up to its scale
    x, sources, cleaned = (np.concatenate(parts) for parts in list(zip(*rows, strict=True))[1:])
    gone = x - cleaned
    scale = np.linalg.lstsq(sources[:, :1], gone, rcond=None)[0]
    assert np.linalg.matrix_rank(gone, 1e-4) == 1
    assert np.count_nonzero(np.abs(scale) > 1e-4) == np.count_nonzero(mixing[:, 0])
    return np.abs(gone - sources[:, :1] @ scale).max()


def read_labels(path: Path) -> list[str]:
    with h5py.File(path) as file:
        return [row["label"].decode() for row in file["events"][()]]


def test_a_choice_from_the_request_to_the_next_run(live: Live) -> None:
    live.start()
    rows = live.receive(50)
    assert all(x.tobytes() == cleaned.tobytes() for _, x, _, cleaned in rows)
    for subscriber in live.subscribers:
        assert subscriber.meta.cleaning is not None
        assert subscriber.meta.cleaning.excluded == ()

    facts = live.choose(add=[0], names=[[0, "blink"]])
    start = facts["start"]
    rows = live.receive(start + 50)
    before = [row for row in rows if row[0] < start]
    after = [row for row in rows if row[0] >= start]
    assert all(x.tobytes() == cleaned.tobytes() for _, x, _, cleaned in before)
    assert compute_residual(after) < 1e-5
    for subscriber in live.subscribers:
        cleaning = subscriber.meta.cleaning
        assert cleaning is not None
        assert (cleaning.start, cleaning.excluded, cleaning.names) == (start, (0,), ((0, "blink"),))
        events = [(one.index, one.label, one.source) for one in subscriber.pop_events()]
        assert events == [(start, "exclude 0", "choice"), (start, "name 0 blink", "choice")]

    until(lambda: (live.folder / "state" / "s.h5").exists())  # kept at once, not only at the end
    until(lambda: read_labels(live.folder / "out.h5") == ["exclude 0", "name 0 blink"], live.send)
    live.daemon.process.kill()
    live.daemon.process.communicate()
    until(lambda: live.sender.subscriptions == 0, live.sender.serve)
    live.start()
    rows = live.receive(live.at + 50)
    assert compute_residual(rows) < 1e-5
    assert live.choose()["excluded"] == [0]
    options = ["--token-file", str(live.folder / "control.token"), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "choose", live.client.url, *options, "--undo"],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    undone = json.loads(done.stdout)
    assert (undone["excluded"], undone["chosen"], undone["names"]) == ([], False, [[0, "blink"]])
    rows = [row for row in live.receive(undone["start"] + 50) if row[0] >= undone["start"]]
    assert all(x.tobytes() == cleaned.tobytes() for _, x, _, cleaned in rows)
    live.daemon.end(2)

    labels = ["exclude 0", "name 0 blink", "exclude none (as configured)"]
    assert read_labels(live.folder / "out-2.h5") == labels
