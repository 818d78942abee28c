#!/usr/bin/env python
"""Measure where LSL markers land in the recording of a daemon, and whether any is lost.

    .venv/bin/python tools/bench_markers.py                 1000 markers, about two minutes
    .venv/bin/python tools/bench_markers.py --markers 200

An amplifier sends samples at 500.1 Hz, stated as 500 Hz and stamped up to 2.5 ms early or late. A program
marks pulses in them. `igbss-stream run` records both as a separate process. Meanwhile the amplifier is away
for 3 s, the program restarts, and the daemon is killed (SIGKILL) and started again. The recording is then
compared with itself: each pulse in its samples must have an event. Exit code 1 if a limit is missed.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np
from bench_figure import Figure
from numpy.typing import NDArray

RATE, TRUE_RATE, BLOCK = 500.0, 500.1, 10
JITTER = 0.0025  # seconds
AWAY = 3.0  # seconds without amplifier
N_KILLS = 3
PATIENCE = 60.0  # seconds until the daemon receives what is sent
_SEED = 90_420

CONFIG = """
streams:
  - name: s
    source:
      kind: lsl
      name: amplifier
      wait: 60
      markers: [{name: stimuli}]
    model: {structure: systematic}
    sinks: [{kind: hdf5, path: out.h5, flush: 0.2, if_exists: append}]
log: {level: error}
"""
LSL = """
[ports]
IPv6 = disable
[multicast]
ResolveScope = machine
[lab]
KnownPeers = {{127.0.0.1}}
SessionID = markers {number}
[log]
level = -3
"""


@dataclass
class Sender:
    """An amplifier whose samples show pulses, and a program that marks them.

    Attributes
    ----------
    shifts : dict of str to float
        Shift of each marker from its pulse in samples, by label.
    """

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(_SEED))
    shifts: dict[str, float] = field(default_factory=dict)
    index: int = 0  # of the next sample
    samples: Any = None
    markers: Any = None

    def __post_init__(self) -> None:
        import pylsl

        self.zero = pylsl.local_clock()
        self.clock = pylsl.local_clock
        self.open_samples()
        self.open_markers()

    def open_samples(self) -> None:
        """Begin to send samples."""
        self.samples = open_outlet("amplifier", "EEG", 2, RATE, "float32")

    def open_markers(self) -> None:
        """Begin to send markers."""
        self.markers = open_outlet("stimuli", "Markers", 1, 0.0, "string")

    @property
    def is_received(self) -> bool:
        """Whether both streams have a receiver."""
        return all(out is not None and out.have_consumers() for out in (self.samples, self.markers))

    def send(self, *, marked: bool) -> None:
        """Send a block of samples when it is due, with a pulse if it is marked."""
        time.sleep(max(0.0, self.zero + (self.index + BLOCK) / TRUE_RATE - self.clock()))
        x = self.rng.normal(0.0, 1.0, (BLOCK, 2)).astype(np.float32)
        first, self.index = self.index, self.index + BLOCK
        at, shift = first + int(self.rng.integers(2, 8)), float(self.rng.uniform(-0.3, 0.3))
        is_first = self.rng.random() < 0.5  # whether the marker is sent before its sample
        if marked:
            x[at - first] += [2000.0, 1500.0]
            label = f"pulse {at}"
            self.shifts[label] = shift
            if is_first:
                self.markers.push_sample([label], self.zero + (at + shift) / TRUE_RATE)
        if self.samples is not None:
            times = self.zero + np.arange(first, self.index) / TRUE_RATE
            stamps = times + self.rng.uniform(-JITTER, JITTER, BLOCK)
            self.samples.push_chunk(x, stamps.tolist())
        if marked and not is_first:
            self.markers.push_sample([label], self.zero + (at + shift) / TRUE_RATE)

    def mark(self, n: int) -> None:
        """Send a number of markers, one in every second block."""
        for k in range(2 * n):
            self.send(marked=k % 2 == 0)

    def rest(self, seconds: float) -> None:
        """Send samples without markers."""
        for _ in range(round(seconds * RATE / BLOCK)):
            self.send(marked=False)

    def wait(self, done: Callable[[], bool], failure: str) -> None:
        """Send samples without markers until something holds, and a second longer."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > deadline:
                raise click.ClickException(failure)
            self.send(marked=False)
        self.rest(1.0)


def open_outlet(name: str, kind: str, n: int, rate: float, value: str) -> Any:
    """Return an outlet of LSL."""
    import pylsl

    return pylsl.StreamOutlet(pylsl.StreamInfo(name, kind, n, rate, value, f"{name} device"))


def start_daemon(folder: Path) -> "subprocess.Popen[bytes]":
    """Start the daemon."""
    code = "from igbss_stream.cli import main; main(prog_name='igbss-stream')"
    return subprocess.Popen([sys.executable, "-c", code, "run", "run.yaml"], cwd=folder)


def send_all(sender: Sender, folder: Path, n_markers: int) -> None:
    """Send all markers; restart both senders, and kill the daemon."""
    chance = random.Random(_SEED)
    parts = N_KILLS + 3
    counts = [n_markers // parts + (k < n_markers % parts) for k in range(parts)]
    daemon = start_daemon(folder)
    try:
        sender.wait(lambda: sender.is_received, "the daemon does not receive the streams")
        sender.mark(counts.pop())
        sender.samples = None  # the amplifier vanishes, and markers go on
        n_away = min(round(AWAY * RATE / BLOCK / 2), counts[-1])
        sender.mark(n_away)
        sender.open_samples()
        sender.wait(lambda: sender.is_received, "the daemon does not find the amplifier again")
        sender.mark(counts.pop() - n_away)
        sender.markers = None  # the last markers were sent just now
        sender.rest(1.0)
        sender.open_markers()
        sender.wait(lambda: sender.is_received, "the daemon does not find the markers again")
        sender.mark(counts.pop())
        while counts:
            sender.rest(chance.uniform(0.0, 0.2))
            n = counts.pop()
            n_before = chance.randrange(n // 2, n)
            sender.mark(n_before)
            daemon.kill()
            daemon.wait()
            sender.wait(lambda: not sender.is_received, "the streams of a killed daemon stay connected")
            daemon = start_daemon(folder)
            sender.wait(lambda: sender.is_received, "the daemon that was started again receives nothing")
            sender.mark(n - n_before)
        sender.rest(2.0)
        daemon.send_signal(signal.SIGINT)
        daemon.wait(PATIENCE)
    finally:
        daemon.kill()
        daemon.wait()


@dataclass(frozen=True)
class Outcome:
    """What the recording has of the markers.

    Parameters
    ----------
    errors : ndarray
        Distance in samples of each event from its pulse.
    n_lost : int
        Pulses without an event.
    n_in_gaps : int
        Events whose pulse is not in the samples.
    gaps : list of str
        Reasons.
    """

    errors: NDArray[np.float64]
    n_lost: int
    n_in_gaps: int
    gaps: list[str]


def compare(path: Path, shifts: dict[str, float]) -> Outcome:
    """Compare the pulses in a recording with its events."""
    with h5py.File(path) as file:
        size = np.linalg.norm(file["data"][()], axis=1)
        events = file["events"][()]
        gaps = [reason.decode() for reason in file["gaps"]["reason"]]
    pulses = np.flatnonzero(size > 0.3 * size.max())
    found, errors, n_in_gaps = set[int](), list[float](), 0
    for row, text in zip(events["row"].tolist(), events["label"].tolist(), strict=True):
        at = row - shifts[text.decode()]
        nearest = int(pulses[np.argmin(np.abs(pulses - at))])
        if abs(nearest - at) > BLOCK / 2 or nearest in found:
            n_in_gaps += 1
        else:
            found.add(nearest)
            errors.append(abs(nearest - at))
    return Outcome(np.array(errors), len(pulses) - len(found), n_in_gaps, gaps)


@click.command()
@click.option("--markers", "n_markers", default=1000, show_default=True, type=click.IntRange(30))
def main(n_markers: int) -> None:
    """Send markers to a daemon, and compare its recording with the pulses that they mark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.yaml").write_text(CONFIG)
        (folder / "lsl.cfg").write_text(LSL.format(number=f"{os.getpid()} {time.time_ns()}"))
        os.environ["LSLAPICFG"] = str(folder / "lsl.cfg")  # liblsl reads it when it is first used
        sender = Sender()
        send_all(sender, folder, n_markers)
        outcome = compare(folder / "out.h5", sender.shifts)
    figures = [
        Figure("error, 99th percentile", float(np.quantile(outcome.errors, 0.99)), "samples", 1.0),
        Figure("error, largest", float(outcome.errors.max()), "samples", BLOCK / 2),
        Figure("pulses without an event", outcome.n_lost, "", 0),
    ]
    n_seen = len(outcome.errors)
    click.echo(f"{len(sender.shifts)} markers: {n_seen} at their pulses, {outcome.n_in_gaps} in gaps,")
    n_rest = len(sender.shifts) - n_seen - outcome.n_in_gaps
    click.echo(f"{n_rest} with samples that were lost in {N_KILLS} kills; gaps: {', '.join(outcome.gaps)}")
    for one in figures:
        mark = "" if one.within else f"   above {one.limit:g}"
        click.echo(f"{one.name:<24} {one.value:8.3f} {one.unit}{mark}")
    sys.exit(0 if all(one.within for one in figures) else 1)


if __name__ == "__main__":
    main()
