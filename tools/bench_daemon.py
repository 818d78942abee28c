#!/usr/bin/env python
"""Measure what the daemon takes: memory at rest and for each further stream, and its share of a core.

    .venv/bin/python tools/bench_daemon.py                    all of it, about three minutes
    .venv/bin/python tools/bench_daemon.py memory             some of it: memory, cpu, feeds, hours
    .venv/bin/python tools/bench_daemon.py feeds --feeds 64   N feeds in one process on one core

The daemon is `igbss-stream run` in a separate process, with real sockets and learned structures; what it
takes is read from /proc, so this is for Linux. Memory is the proportional set size: a page that several
processes share, as those of libraries, counts in parts. The code of the compiler is left out: a daemon asks
the system to release it, which it does unless another process uses it, as the tests do. Streams of `memory`
have 8 channels at 250 Hz.
Exit code 1 if a figure misses the limit that the project sets itself, or samples were lost.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zmq
from bench_figure import Figure
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.encoder import Encoder

PATIENCE = 600.0  # seconds that anything may take: 64 first models are learned one after the other
SETTLED = 3.0  # seconds after the first answer until kernels are loaded and the compiler is released
COMPILER = "llvmlite"  # in the name of its library
AHEAD = 10.0  # seconds of a feed that are on the way at most when it goes fast
TICKS = os.sysconf("SC_CLK_TCK")

STREAM = """
  - name: s{i}
    source: {{kind: zmq, address: "ipc://{folder}/in{i}", queue: 100000}}
    learning: {{{learning}}}
    sinks: [{{kind: zmq, address: "ipc://{folder}/out{i}"}}]"""
END = """
health: {{port: {port}}}
log: {{level: error}}
"""


@dataclass(frozen=True)
class Load:
    """Feeds of one kind, and how models are learned from them."""

    n_feeds: int
    n_channels: int
    rate: float
    block: int
    learning: str = "every: null"


class Measured:
    """A daemon and the senders of its feeds.

    Parameters
    ----------
    load : Load
    folder : Path
        For its configuration and sockets.
    core : int, optional
        That the daemon is kept on.
    """

    def __init__(self, load: Load, folder: Path, ends: ExitStack, core: int | None = None) -> None:
        self.load, self.sent = load, 0
        context = ends.enter_context(zmq.Context())
        self._senders = []
        for i in range(load.n_feeds):
            sender = ends.enter_context(context.socket(zmq.XPUB))
            sender.linger = 0
            sender.set_hwm(0)
            sender.bind(f"ipc://{folder}/in{i}")
            stream = Stream(f"s{i}", load.rate, tuple(f"c{n}" for n in range(load.n_channels)), "uV")
            self._senders.append((sender, Encoder(stream, 1)))
        self._samples = _samples(load)
        self._port = _free_port()
        config = folder / "run.yaml"
        text = "".join(
            STREAM.format(i=i, folder=folder, learning=load.learning) for i in range(load.n_feeds)
        )
        config.write_text(f"streams:{text}{END.format(port=self._port)}")
        command = [str(Path(sys.executable).parent / "igbss-stream"), "run", str(config)]
        self.process = subprocess.Popen(command if core is None else ["taskset", "-c", str(core), *command])
        ends.callback(self._end)
        self.until(lambda: self.health() is not None, "the daemon does not answer")
        for sender, _ in self._senders:
            self.until(lambda s=sender: bool(s.poll(0)), "a feed is not subscribed to")  # type: ignore[misc]
            sender.recv()

    def send(self) -> None:
        """Send a block of each feed."""
        at = self.sent % len(self._samples)
        chunk = Chunk(self._samples[at : at + self.load.block], self.sent)
        for sender, encoder in self._senders:
            sender.send_multipart(encoder.encode(chunk))
        self.sent += self.load.block

    def send_for(self, seconds: float) -> None:
        """Send a number of seconds of all feeds in real time."""
        period = self.load.block / self.load.rate
        began = time.perf_counter()
        for n in range(round(seconds / period)):
            time.sleep(max(0.0, began + n * period - time.perf_counter()))
            self.send()

    def send_at_once(self, seconds: float) -> None:
        """Send a number of seconds of all feeds as fast as possible, ten at a time."""
        for _ in range(round(seconds / AHEAD)):
            for _ in range(round(AHEAD * self.load.rate / self.load.block)):
                self.send()
            self.all_through()

    def learn(self) -> None:
        """Send until every feed has a model; the feeds go on at their rate meanwhile."""
        self.until(self._all_learned, "a model is not learned", lambda: self.send_for(1.0))

    def all_through(self) -> None:
        """Wait until all that was sent is accounted for, as published or as a gap."""
        self.until(self._is_through, "samples do not come out")

    @property
    def lost(self) -> int:
        """Samples that were sent and did not come in."""
        return sum(self.sent - each["samples_in"] for each in self.streams())

    def streams(self) -> list[dict[str, Any]]:
        """Return what the daemon says of each stream."""
        return list((self.health() or {"streams": {}})["streams"].values())

    def health(self) -> dict[str, Any] | None:
        """Return /health, if it is served yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5) as answer:
                return dict(json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            return dict(json.loads(error.read()))
        except OSError:
            return None

    def until(self, done: Callable[[], bool], failure: str, doing: Callable[[], object] = bool) -> None:
        """Do something until something holds, for as long as patience lasts."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            if self.process.poll() is not None:
                raise click.ClickException(f"the daemon ended with code {self.process.returncode}")
            if time.monotonic() > deadline:
                raise click.ClickException(f"{failure}; the first stream: {self.streams()[:1]}")
            doing()
            time.sleep(0.02)

    def memory(self) -> "Memory":
        """Return what it holds now."""
        found = dict.fromkeys(("Rss", "Pss", "Private_Clean", "Private_Dirty"), 0.0)
        compiler, is_compiler = dict(found), False
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            key, _, value = line.partition(":")
            if key in found:
                found[key] += int(value.split()[0]) / 1024
                compiler[key] += is_compiler * int(value.split()[0]) / 1024
            elif "-" in key:  # the addresses and the file of a mapping, which its figures follow
                is_compiler = COMPILER in line
        released = compiler["Pss"] - compiler["Private_Dirty"]
        return Memory(
            found["Rss"], found["Pss"] - released, found["Private_Clean"] + found["Private_Dirty"]
        )

    def cpu(self) -> float:
        """Return the seconds of a core that it took so far, all its threads together."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def _all_learned(self) -> bool:
        return all(each["model"] > 0 for each in self.streams())

    def _is_through(self) -> bool:
        return all(each["samples_out"] + each["samples_gap"] == self.sent for each in self.streams())

    def _end(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@dataclass(frozen=True)
class Memory:
    """Memory of a process in MB: resident, its share of what is shared, and what is its own."""

    resident: float
    proportional: float
    own: float

    def __str__(self) -> str:
        return (
            f"{self.resident:.0f} MB resident, {self.proportional:.0f} with its share of what is shared, "
            f"{self.own:.0f} its own"
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _samples(load: Load) -> NDArray[np.float32]:
    """Return ten seconds of mixed sources, a whole number of blocks."""
    rng = np.random.default_rng(0)
    n_samples = load.block * round(10 * load.rate / load.block)
    sources = rng.laplace(size=(n_samples, load.n_channels))
    mixing = rng.normal(size=(load.n_channels, load.n_channels)) + 3 * np.eye(load.n_channels)
    return np.asarray(sources @ mixing.T, np.float32)


@contextmanager
def measured(load: Load, core: int | None = None) -> Iterator[Measured]:
    """Start a daemon, and end it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        yield Measured(load, Path(folder), ends, core)


def memory(options: "Options") -> Iterator[Figure]:
    """Compare one stream with many, at rest and once each has a minute of samples and a model."""
    at_rest, busy = {}, {}
    few, many = 1, 1 + 16
    for n_feeds in (few, many):
        learning = "first: 10, window: 60, every: 20, ahead: 5"
        with measured(Load(n_feeds, 8, 250.0, 25, learning)) as daemon:
            time.sleep(SETTLED)
            at_rest[n_feeds] = daemon.memory()
            daemon.send_at_once(70.0)
            daemon.learn()
            daemon.all_through()
            busy[n_feeds] = daemon.memory()
    for when, found in ("at rest", at_rest), ("after a minute and some models", busy):
        one, all_of_them = found[few], found[many]
        yield Figure(f"memory {when}", one.proportional, "MB", 150.0, f"{one}")
        further = (all_of_them.own - one.own) / (many - few)
        yield Figure(f"a further stream, {when}", further, "MB", 5.0, f"{many} streams: {all_of_them}")


def hours(options: "Options") -> Iterator[Figure]:
    """Follow the memory over eight hours' worth of a feed that goes fast, while models are learned."""
    load = Load(1, 8, 250.0, 25, "first: 10, window: 60, every: 60, ahead: 10")
    with measured(load) as daemon:
        daemon.send_at_once(1800.0)
        held = [daemon.memory().proportional]
        for _ in range(15):
            daemon.send_at_once(1800.0)
            held.append(daemon.memory().proportional)
        grown = float(np.median(held[-5:]) - np.median(held[:5]))  # what a model needs comes and goes
        detail = f"{held[0]:.1f} MB after half an hour, {held[-1]:.1f} after eight, {daemon.streams()}"
        yield Figure("memory that 7.5 hours more take", grown, "MB", 5.0, detail)
        yield Figure("samples lost on the way", daemon.lost, "", 0.0, f"of {daemon.sent}")


def cpu(options: "Options") -> Iterator[Figure]:
    """Measure the share of a core while nothing is learned."""
    load = Load(1, 64, 1000.0, 20, "first: 5, window: 5, every: null, ahead: 0, fade: 0")
    with measured(load) as daemon:
        daemon.learn()
        share = _share(daemon, options.seconds)
        detail = f"{load.block} samples a message, {daemon.lost} samples lost"
        yield Figure("share of a core, 64 channels x 1 kHz", 100 * share, "%", 10.0, detail)
        yield Figure("samples lost on the way", daemon.lost, "", 0.0)


def feeds(options: "Options") -> Iterator[Figure]:
    """Measure many feeds in one process on one core."""
    load = Load(options.feeds, 8, 250.0, 10, "first: 10, window: 10, every: null, ahead: 2")
    with measured(load, core=0) as daemon:
        daemon.learn()
        share = _share(daemon, options.seconds)
        what = f"{load.n_feeds} feeds of 8 channels x 250 Hz on one core"
        yield Figure(f"{what}: share of it", 100 * share, "%", 100.0, f"{load.block} samples a message")
        yield Figure(f"{what}: samples lost", daemon.lost, "", 0.0, f"of {load.n_feeds * daemon.sent}")
        found = daemon.memory()
        yield Figure(f"{what}: memory", found.proportional, "MB", 145.0 + 5.0 * load.n_feeds, f"{found}")


def _share(daemon: Measured, seconds: float) -> float:
    """Return the share of a core during a number of seconds of feeds in real time."""
    before, began = daemon.cpu(), time.perf_counter()
    daemon.send_for(seconds)
    share = (daemon.cpu() - before) / (time.perf_counter() - began)
    daemon.all_through()
    return share


@dataclass(frozen=True)
class Options:
    """What the command line says."""

    feeds: int
    seconds: float


PARTS: dict[str, Callable[[Options], Iterator[Figure]]] = {
    "memory": memory,
    "cpu": cpu,
    "feeds": feeds,
    "hours": hours,
}


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--feeds", default=64, show_default=True, help="In one process.")
@click.option("--seconds", default=20.0, show_default=True, help="That a share of a core is measured over.")
def main(parts: tuple[str, ...], feeds: int, seconds: float) -> None:
    """Measure PARTS, or everything."""
    missed = False
    for part in (part for part in PARTS if part in (parts or PARTS)):
        for figure in PARTS[part](Options(feeds, seconds)):
            missed |= not figure.within
            click.echo(
                f"{figure.name:60}{figure.value:9.2f} {figure.unit:3}<= {figure.limit:<6g}"
                f"{'' if figure.within else 'MISSED'}   {figure.detail}"
            )
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
