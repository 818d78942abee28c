#!/usr/bin/env python
"""Measure the daemon against a bare worker: the time from socket to socket, and the rate without loss.

    .venv/bin/python tools/bench_live.py                    delay and rate, 64 channels
    .venv/bin/python tools/bench_live.py --channels 8 --rate 32000 --block 320

The floor is a process that receives the same bytes with pyzmq, computes ``block @ W`` and sends the result.
The daemon is `igbss-stream run` with a structure that is known, as it is by default, and without the search
for bad channels. They stand between the same sender and receiver, in turn, several times; figures are
medians over the rounds. Nothing is asserted: load on the machine shows in the delays.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import zmq
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.encoder import Encoder

Array = NDArray[np.float64]

FLOOR = """
import sys, numpy as np, zmq
n, source, sink = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = zmq.Context()
receiver, sender = context.socket(zmq.SUB), context.socket(zmq.PUB)
for socket in (receiver, sender):
    socket.set_hwm(0)
sender.bind(sink)
receiver.connect(source)
receiver.subscribe("")
w = np.linalg.inv(np.random.default_rng(0).normal(size=(n, n))).astype(np.float32)
while True:
    topic, header, buffer = receiver.recv_multipart(copy=False)
    if len(buffer):
        block = np.frombuffer(buffer, np.float32).reshape(-1, n)
        sender.send_multipart([topic.bytes, header.bytes, block @ w], copy=False)
"""

CONFIG = """
streams:
  - name: bench
    source: {{kind: zmq, address: "{source}", queue: 1000000, reorder_window: 0}}
    model: {{structure: systematic}}
    bad_channels: {{action: {action}}}
    sinks:
      - {{kind: zmq, address: "{sink}", queue: 1000000}}
log: {{level: error}}
"""


@dataclass(frozen=True)
class Ends:
    """Sender and receiver around a worker."""

    sender: zmq.Socket[bytes]
    receiver: zmq.Socket[bytes]
    encoder: Encoder
    block: NDArray[np.float32]

    def send(self, index: int) -> None:
        """Send block number `index`."""
        self.sender.send_multipart(self.encoder.encode(Chunk(self.block, index * len(self.block))))

    def receive(self, timeout: float) -> int | None:
        """Return the number of the next block that comes out, or None after a time-out in seconds."""
        deadline = time.perf_counter() + timeout
        while (left := deadline - time.perf_counter()) > 0 or timeout == 0:
            if not self.receiver.poll(max(0, round(1000 * left))):
                return None
            header, buffer = self.receiver.recv_multipart()[1:3]
            if buffer:
                return int(json.loads(header)["start"]) // len(self.block)
        return None


@contextmanager
def around(
    kind: str, n_channels: int, rate: float, n_block: int, more: str = "", under: Sequence[str] = ()
) -> Iterator[Ends]:
    """Start a worker, and return what sends to it and receives from it once it answers.

    `kind` is ``"floor"``, ``"daemon"``, or ``"unwatched"``: a daemon that does not look for bad channels.
    `more` is added to the configuration of the daemon; `under` is a command that starts the worker.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, sink = (f"ipc://{folder}/{name}" for name in ("source", "sink"))
        context = zmq.Context()
        sender, receiver = context.socket(zmq.PUB), context.socket(zmq.SUB)
        for socket in (sender, receiver):
            socket.set_hwm(0)
        sender.bind(source)
        receiver.subscribe("")
        receiver.connect(sink)
        if kind == "floor":
            command = [sys.executable, "-c", FLOOR, str(n_channels), source, sink]
        else:
            path = Path(folder, "bench.yaml")
            action = "off" if kind == "unwatched" else "replace"
            path.write_text(CONFIG.format(source=source, sink=sink, action=action) + more)
            command = [str(Path(sys.executable).parent / "igbss-stream"), "run", str(path)]
        stream = Stream("bench", rate, tuple(f"c{i}" for i in range(n_channels)), "uV")
        block = np.random.default_rng(1).normal(size=(n_block, n_channels)).astype(np.float32)
        ends = Ends(sender, receiver, Encoder(stream, 1), block)
        # one thread for the product of the floor, as in the daemon: two would wait for each other
        process = subprocess.Popen([*under, *command], env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
        try:
            _wait_until_it_answers(ends, process)
            yield ends
        finally:
            process.terminate()
            process.wait(10)
            context.destroy(linger=0)


def _wait_until_it_answers(ends: Ends, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise click.ClickException(f"the worker ended with code {process.returncode}")
        ends.send(ends.encoder.seq)
        if ends.receive(0.1) is not None:
            while ends.receive(0.2) is not None:
                pass
            return
    raise click.ClickException("the worker does not answer")


def delays(ends: Ends, rate: float, seconds: float) -> Array:
    """Return the time from send to receipt of blocks that come at the rate, in ms."""
    period = len(ends.block) / rate
    first, count = ends.encoder.seq, round(seconds / period)
    spent, began = [], time.perf_counter()
    for n in range(count):
        time.sleep(max(0.0, began + n * period - time.perf_counter()))
        sent = time.perf_counter()
        ends.send(first + n)
        while ends.receive(1.0) != first + n:
            pass
        spent.append(1000 * (time.perf_counter() - sent))
    return np.array(spent)


def sustained(ends: Ends, count: int) -> float:
    """Return the blocks a second that come out, all of them, when they are sent as fast as they go."""
    ahead = 200  # blocks on the way at most, so that no queue decides
    first, came, sent = ends.encoder.seq, 0, 0
    began = time.perf_counter()
    while came < count:
        while sent < min(count, came + ahead):
            ends.send(first + sent)
            sent += 1
        if ends.receive(2.0) is None:
            raise click.ClickException(f"{sent - came} blocks were lost")
        came += 1
    return count / (time.perf_counter() - began)


@click.command()
@click.option("--channels", default=64, show_default=True)
@click.option("--rate", default=1000.0, show_default=True, help="Hz.")
@click.option("--block", default=20, show_default=True, help="Samples a message.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--seconds", default=4.0, show_default=True, help="Of each round's delays.")
def main(channels: int, rate: float, block: int, rounds: int, seconds: float) -> None:
    """Measure delay and sustained rate of the daemon, with and without its watch, and of the floor."""
    figures: dict[str, list[tuple[float, float, float]]] = {"floor": [], "unwatched": [], "daemon": []}
    for _ in range(rounds):
        for kind, found in figures.items():
            with around(kind, channels, rate, block) as ends:
                spent = delays(ends, rate, seconds)
                found.append(
                    (*np.percentile(spent, [50, 99]), sustained(ends, max(2000, 400_000 // block)))
                )
    medians = {kind: np.median(found, axis=0) for kind, found in figures.items()}
    click.echo(f"{channels} channels, {rate:g} Hz, blocks of {block}; medians of {rounds} rounds")
    for kind, (half, most, speed) in medians.items():
        click.echo(f"{kind:9} delay p50 {half:7.3f} ms   p99 {most:7.3f} ms   {speed:8.0f} blocks/s")
    for kind in ("unwatched", "daemon"):
        half, most, speed = medians[kind] / medians["floor"]
        click.echo(f"{kind} / floor: p50 {half:.2f}, p99 {most:.2f}, rate {speed:.2f}")


if __name__ == "__main__":
    main()
