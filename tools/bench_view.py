#!/usr/bin/env python
"""Measure what an open page costs: the daemon's delay from socket to socket with it and without it.

    .venv/bin/python tools/bench_view.py                    64 channels, 1 kHz
    .venv/bin/python tools/bench_view.py --channels 8 --rate 250 --rounds 9
    .venv/bin/python tools/bench_view.py --realtime         the daemon has real-time priority

`igbss-stream run` with a structure that is known stands between a sender and a receiver, as in
`bench_live.py`. In turn, several times, blocks are sent at the rate with no page; with the page open in
Chromium, which has no window and so draws without a graphics card; and with the same browser "aside": it
runs when nothing else wants to (SCHED_IDLE of Linux), which comes near to a browser on another machine.
Figures are of all rounds together. Also reported: frames per second of the page, and the share of a
core that its server and the browser take. Nothing is asserted: load on the machine shows.
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import zmq
from bench_live import Array, Ends, around, delays
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[1]))

from igbss_stream.pages.view.port import find_free_port
from tests.browser import MISSING, browser, is_there

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def page(address: str, idle: bool) -> Iterator[tuple[Any, list[int]]]:
    """Open the page of what is published at an address; return the browser, and the processes of both."""
    command = [str(Path(sys.executable).parent / "igbss-stream"), "view", address, "--port", "0"]
    command += ["--parent", str(os.getpid())]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[4].rstrip(";")
            with browser(Path(folder), idle=idle) as driver:
                driver.get(url)
                yield driver, [server.pid, driver.service.process.pid]
        finally:
            server.terminate()
            server.wait(10)


def cpu(pids: list[int]) -> float:
    """Return the seconds of a core that processes and all their children have taken."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(place.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS)
    wanted = set(pids)
    while more := {pid for pid, (parent, _) in parents.items() if parent in wanted} - wanted:
        wanted |= more
    return sum(parents[pid][1] for pid in wanted if pid in parents)


class Delays:
    """Delays of all rounds of one kind: from socket to socket, and as the daemon counts them.

    Parameters
    ----------
    port : int
        Of the daemon's metrics.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._spent: list[Array] = []
        self._counted: list[Array] = []
        self._bounds = np.empty(0)

    def measure(self, ends: Ends, rate: float, seconds: float) -> None:
        """Measure another round."""
        before = counted(self._port)
        self._spent.append(delays(ends, rate, seconds))
        after = counted(self._port)
        self._bounds = after[:, 0]
        self._counted.append(after[:, 1] - before[:, 1])

    def quantiles(self) -> Array:
        """Return p50 and p99 in ms of all rounds: from socket to socket, then the daemon's own."""
        own = [quantile(self._bounds, np.sum(self._counted, axis=0), share) for share in (0.5, 0.99)]
        return np.array([*np.percentile(np.concatenate(self._spent), [50, 99]), *own])

    def spread(self) -> tuple[float, float]:
        """Return the least and the largest of the rounds' own p99 from socket to socket, in ms."""
        most = [float(np.percentile(spent, 99)) for spent in self._spent]
        return min(most), max(most)


def with_page(
    found: Delays, ends: Ends, rate: float, seconds: float, idle: bool, took: list[tuple[float, float]]
) -> None:
    """Measure a round while the page is open; the frames it drew and what it took go into `took`."""
    address = bytes(ends.receiver.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
    with page(address, idle) as (driver, pids):
        delays(ends, rate, 3.0)  # until the page has begun
        frames, spent, began = "return igbssView.state.frames", cpu(pids), time.perf_counter()
        before = driver.execute_script(frames)
        found.measure(ends, rate, seconds)
        passed = time.perf_counter() - began
        took.append(((driver.execute_script(frames) - before) / passed, (cpu(pids) - spent) / passed))


def counted(port: int) -> Array:
    """Return the bounds of the daemon's own histogram of delays, in ms, and the counts up to each."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = [
        (1000 * float(one.labels["le"]), one.value)
        for family in families
        for one in family.samples
        if one.name == "igbss_delay_seconds_bucket"
    ]
    return np.array(sorted(found))


def quantile(bounds: Array, counts: Array, share: float) -> float:
    """Return a quantile of what a histogram counted up to each bound, linear within its steps."""
    within = np.concatenate([[0.0], bounds[:-1], bounds[-2:-1]])  # beyond the last bound: at it
    return float(np.interp(share * counts[-1], np.concatenate([[0.0], counts]), within))


@click.command()
@click.option("--channels", default=64, show_default=True)
@click.option("--rate", default=1000.0, show_default=True, help="Hz.")
@click.option("--block", default=20, show_default=True, help="Samples a message.")
@click.option("--rounds", default=7, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each round, with and without.")
@click.option("--realtime", is_flag=True, help="Run the daemon under SCHED_RR, as root may.")
def main(channels: int, rate: float, block: int, rounds: int, seconds: float, realtime: bool) -> None:
    """Measure the delay of a daemon whose page is open, and of the same one without."""
    if not is_there():
        raise click.ClickException(MISSING)
    port = find_free_port(0)
    alone, idle, opened = Delays(port), Delays(port), Delays(port)
    took: list[tuple[float, float]] = []
    under = ["chrt", "--rr", "1"] if realtime else []
    with around("daemon", channels, rate, block, f"health: {{port: {port}}}\n", under) as ends:
        for _ in range(rounds):
            alone.measure(ends, rate, seconds)
            with_page(idle, ends, rate, seconds, True, [])
            with_page(opened, ends, rate, seconds, False, took)
    click.echo(f"{channels} channels, {rate:g} Hz, blocks of {block}; {rounds} rounds of {seconds:g} s; ms")
    click.echo(f"{'':22} socket to socket                      as the daemon counts it")
    for name, found in (("no page", alone), ("page, browser aside", idle), ("page open", opened)):
        half, most, own_half, own_most = found.quantiles()
        low, high = found.spread()
        click.echo(
            f"{name:22} p50 {half:5.2f}  p99 {most:5.2f} ({low:5.2f} to {high:5.2f})   "
            f"p50 {own_half:5.2f}  p99 {own_most:5.2f}"
        )
    for name, found in (("browser aside", idle), ("page open", opened)):
        ratios = found.quantiles() / alone.quantiles()
        click.echo(f"{name} over no page: p99 {ratios[1]:.2f}, the daemon's own {ratios[3]:.2f}")
    frames, cores = np.median(took, axis=0)
    click.echo(f"the page draws {frames:.1f} frames a second")
    click.echo(f"its server and the browser take {100 * cores:.0f} % of a core")


if __name__ == "__main__":
    main()
