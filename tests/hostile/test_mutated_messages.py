"""Mutated messages for one stream of a daemon: the daemon stays, and another stream loses nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import numpy as np
import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.subscriber import Subscriber
from tests.commands import COMMAND
from tests.daemons import DaemonProcess, free_port
from tests.hostile.messages import HostileSender
from tests.waiting import until

pytestmark = pytest.mark.jit  # the daemon loads the kernels, and learns

CONFIG = """\
streams:
  - name: hostile
    source: {{kind: zmq, socket: pull, bind: true, address: "tcp://127.0.0.1:{hostile}"}}
    learning: {{first: 1, window: 1, every: 1, ahead: 0.5, fade: 0.1}}
    sinks:
      - {{kind: zmq, address: "tcp://127.0.0.1:{published}"}}
      - {{kind: hdf5, path: hostile.h5, flush: 0.2}}
  - name: innocent
    source: {{kind: zmq, socket: pull, bind: true, address: "tcp://127.0.0.1:{innocent}"}}
    model: {{structure: systematic}}
    sinks:
      - {{kind: zmq, address: "tcp://127.0.0.1:{sources}", queue: 100000}}
health: {{port: {health}}}
log: {{format: json}}
"""
STREAM = Stream("calm", 1000.0, ("a", "b"), "uV")
X = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)


class Besieged:
    """A daemon with a hostile and an innocent stream, and their senders."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        ports = {name: free_port() for name in ("hostile", "innocent", "published", "sources", "health")}
        config = folder / "run.yaml"
        config.write_text(CONFIG.format(**ports))
        self._log_path = folder / "log"
        log = ends.enter_context(self._log_path.open("w"))
        command = [sys.executable, "-c", COMMAND, "run", str(config)]
        environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
        process = subprocess.Popen(command, cwd=folder, stderr=log, text=True, env=environment)
        ends.callback(process.wait)
        ends.callback(process.kill)
        self.daemon = DaemonProcess(process, ports["health"])
        context = ends.enter_context(zmq.Context())
        self._hostile, self._innocent = (ends.enter_context(context.socket(zmq.PUSH)) for _ in range(2))
        for socket, name in (self._hostile, "hostile"), (self._innocent, "innocent"):
            socket.set(zmq.LINGER, 0)
            socket.set(zmq.SNDTIMEO, 30_000)
            socket.connect(f"tcp://127.0.0.1:{ports[name]}")
        self._subscriber = ends.enter_context(Subscriber(f"tcp://127.0.0.1:{ports['sources']}"))
        self._encoder = Encoder(STREAM, 1)
        self.n_sent = self.n_arrived = 0
        until(self._send_calm, lambda: self._subscriber.receive(0.05), lambda: self.log)
        until(lambda: self.count("samples_in") == self.n_sent)
        self._subscriber.receive(0.5)
        self.n_arrived = self.n_sent
        self._last = self._first_memory = self.memory

    def _send_calm(self) -> bool:
        """Send samples of the innocent stream; return whether its sources are known."""
        self._innocent.send_multipart(self._encoder.encode_meta())
        self._innocent.send_multipart(self._encoder.encode(Chunk(X, self.n_sent)))
        self.n_sent += len(X)
        return self._subscriber.described

    def attack(self, sender: HostileSender, n_messages: int) -> None:
        """Send hostile messages, with those of the innocent stream between them."""
        for i in range(n_messages):
            try:
                self._hostile.send_multipart(sender.make())
            except zmq.Again:
                self.daemon.process.send_signal(signal.SIGABRT)  # the log then shows where it hangs
                self.daemon.process.wait()
                raise AssertionError(f"the daemon reads nothing: {self.log[-4000:]}") from None
            if i % 20 == 0:
                self._send_calm()
                self.receive()

    def receive(self, timeout: float = 0.0) -> None:
        for item in self._subscriber.receive(timeout):
            assert isinstance(item, Chunk), item
            assert item.start == self.n_arrived
            self.n_arrived = item.stop

    def check(self) -> None:
        """Check that the daemon lives, answers and has lost nothing of the innocent stream."""
        until(lambda: self.n_arrived == self.n_sent, lambda: self.receive(0.05), lambda: self.log[-2000:])
        assert self.daemon.process.poll() is None, self.log[-2000:]
        assert self.daemon.state("innocent")["status"] == "ok"
        assert self.daemon.state("hostile")["status"] != "ended"

    def count(self, kind: str, stream: str = "innocent") -> int:
        return self.daemon.count(kind, stream)

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def memory(self) -> float:
        """Resident memory in MB."""
        status = Path(f"/proc/{self.daemon.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1000.0

    def check_log(self) -> None:
        """Check that each line of the log is a JSON object without a traceback."""
        lines = [line for line in self.log.splitlines() if line.startswith("{")]
        assert lines
        for line in lines:
            record = json.loads(line)
            assert "Traceback" not in line, record
        assert "Traceback" not in self.log


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    with ExitStack() as ends:
        one = Besieged(tmp_path_factory.mktemp("besieged"), ends)
        yield one
        one.check_log()


@given(st.randoms(use_true_random=False), st.integers(1, 40))
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_any_messages_in_any_order(besieged: Besieged, random: Random, n_messages: int) -> None:
    besieged.attack(HostileSender(random), n_messages)
    besieged.check()


def test_thousands_of_messages_of_one_sender(besieged: Besieged) -> None:
    besieged.attack(HostileSender(Random(1)), 4000)
    besieged.check()
    assert besieged.count("messages", "hostile") > 4000


@pytest.mark.slow
def test_a_million_messages(besieged: Besieged) -> None:
    besieged.attack(HostileSender(Random(2)), 50_000)
    besieged.check()
    before, began = besieged.memory, time.monotonic()
    for seed in range(95):
        besieged.attack(HostileSender(Random(100 + seed)), 10_000)
        besieged.check()
        print(
            f"{10_000 * (seed + 1):,} messages, {time.monotonic() - began:.0f} s, {besieged.memory:.0f} MB"
        )
    assert besieged.memory - before < 20.0
