#!/usr/bin/env python
"""Measure what an open page costs: the daemon's delay from socket to socket with it and without it.

    .venv/bin/python tools/bench_view.py                    64 channels, 1 kHz
    .venv/bin/python tools/bench_view.py --channels 8 --rate 250 --rounds 9

`igbss-stream run` with a structure that is known stands between a sender and a receiver, as in
`bench_live.py`. In turn, several times, blocks are sent at the rate with no page, and with the page open in
Chromium, which has no window and so draws without a graphics card. Also told: the frames a second that the
page draws, and the share of a core that its server and the browser take. Nothing is asserted: load on the
machine shows.
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

from igbss_stream.view.port import free_port
from tests.browser import MISSING, browser, is_there

_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def page(address: str) -> Iterator[tuple[Any, list[int]]]:
    """Open the page of what is published at an address; return the browser, and the processes of both."""
    command = [str(Path(sys.executable).parent / "igbss-stream"), "view", address, "--port", "0"]
    command += ["--parent", str(os.getpid())]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[4].rstrip(";")
            with browser(Path(folder)) as driver:
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


def measured(ends: Ends, rate: float, seconds: float, port: int) -> list[float]:
    """Return p50 and p99 in ms from socket to socket, and as the daemon counts them."""
    before = counted(port)
    spent = delays(ends, rate, seconds)
    own = [quantile(before, counted(port), share) for share in (0.5, 0.99)]
    return [*map(float, np.percentile(spent, [50, 99])), *own]


def with_page(
    ends: Ends, rate: float, seconds: float, port: int, took: list[tuple[float, float]]
) -> list[float]:
    """Return the same while the page is open; the frames it drew and what it took go into `took`."""
    address = bytes(ends.receiver.get(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()
    with page(address) as (driver, pids):
        delays(ends, rate, 3.0)  # until the page has begun
        frames, spent, began = "return igbssView.state.frames", cpu(pids), time.perf_counter()
        before = driver.execute_script(frames)
        result = measured(ends, rate, seconds, port)
        passed = time.perf_counter() - began
        took.append(((driver.execute_script(frames) - before) / passed, (cpu(pids) - spent) / passed))
        return result


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


def quantile(before: Array, after: Array, share: float) -> float:
    """Return a quantile of what a histogram counted between two moments, linear within its steps."""
    counts = after[:, 1] - before[:, 1]
    bounds = np.concatenate([[0.0], after[:-1, 0], after[-2:-1, 0]])  # beyond the last bound: at it
    return float(np.interp(share * counts[-1], np.concatenate([[0.0], counts]), bounds))


@click.command()
@click.option("--channels", default=64, show_default=True)
@click.option("--rate", default=1000.0, show_default=True, help="Hz.")
@click.option("--block", default=20, show_default=True, help="Samples a message.")
@click.option("--rounds", default=7, show_default=True)
@click.option("--seconds", default=10.0, show_default=True, help="Of each round, with and without.")
def main(channels: int, rate: float, block: int, rounds: int, seconds: float) -> None:
    """Measure the delay of a daemon whose page is open, and of the same one without."""
    if not is_there():
        raise click.ClickException(MISSING)
    found: dict[str, list[list[float]]] = {"no page": [], "page open": []}
    page_took: list[tuple[float, float]] = []
    port = free_port(0)
    with around("daemon", channels, rate, block, f"health: {{port: {port}}}\n") as ends:
        for _ in range(rounds):
            found["no page"].append(measured(ends, rate, seconds, port))
            found["page open"].append(with_page(ends, rate, seconds, port, page_took))
    click.echo(f"{channels} channels, {rate:g} Hz, blocks of {block}; medians of {rounds} rounds")
    medians = {name: np.median(figures, axis=0) for name, figures in found.items()}
    medians["ratio"] = medians["page open"] / medians["no page"]
    click.echo(f"{'':10} socket to socket       as the daemon counts it")
    for name, (half, most, inner_half, inner_most) in medians.items():
        click.echo(
            f"{name:10} p50 {half:5.2f}  p99 {most:6.2f}   p50 {inner_half:5.2f}  p99 {inner_most:5.2f}"
        )
    frames, cores = np.median(page_took, axis=0)
    click.echo(f"the page draws {frames:.1f} frames a second")
    click.echo(f"its server and the browser take {100 * cores:.0f} % of a core")


if __name__ == "__main__":
    main()
