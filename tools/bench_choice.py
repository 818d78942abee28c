#!/usr/bin/env python
"""Measure the time from a click on the live page to the first cleaned samples at a subscriber.

    .venv/bin/python tools/bench_choice.py                   64 channels, 1 kHz, 100 clicks
    .venv/bin/python tools/bench_choice.py --channels 8 --rate 250 --clicks 300

`igbss-stream run` with a known structure serves the page, which is open in Chromium without a window.
Each click takes a source out or puts it back, at another phase of the messages. The time ends when a
subscriber of the cleaned channels has received the first samples of the choice, which are compared with
the samples that were sent. Nothing is asserted of the times: load on the machine shows.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.pages.view.port import find_free_port
from tests.browser import MISSING, browser, is_there

_PATIENCE = 30.0  # seconds
_CONFIG = """
streams:
  - name: s
    source: {{kind: zmq, address: "{source}"}}
    model: {{structure: systematic}}
    clean: {{}}
    sinks:
      - {{kind: zmq, address: "{sources}"}}
      - {{kind: zmq, address: "{cleaned}", publish: cleaned}}
state: {{path: state}}
control: {{port: {control}, token_file: control.token}}
view: {{port: {view}}}
log: {{level: error}}
"""
# The time of a click by the clock of the machine, in seconds.
_CLICK = """
const at = (performance.timeOrigin + performance.now()) / 1000
document.getElementById("take").click()
return at
"""


class Feed(threading.Thread):
    """Publishes noise in real time, and keeps what it sent."""

    def __init__(self, sink: ZmqPublisher, n_channels: int, rate: float, block: int) -> None:
        super().__init__(daemon=True)
        self._sink, self._rate, self._block = sink, rate, block
        self._shape = block, n_channels
        self.sent: dict[int, Any] = {}
        self.over = threading.Event()
        sink.start(Stream("s", rate, tuple(f"c{i}" for i in range(n_channels)), "uV", t0=time.time()))

    def run(self) -> None:
        """Publish until it is over."""
        rng, began, at = np.random.default_rng(0), time.monotonic(), 0
        while not self.over.wait(max(0.0, began + (at + self._block) / self._rate - time.monotonic())):
            self.sent[at] = rng.normal(size=self._shape).astype(np.float32)
            self._sink.publish(Chunk(self.sent[at], at))
            self.sent.pop(at - 1000 * self._block, None)
            at += self._block


@contextmanager
def open_page(feed_address: str, folder: Path) -> Iterator[tuple[Any, str]]:
    """Start a daemon, open its page with the token; yield the browser and the port of its cleaned sink."""
    ports = {name: find_free_port(0) for name in ("sources", "cleaned", "control", "view")}
    (folder / "run.yaml").write_text(_CONFIG.format(source=feed_address, **ports))
    command = [str(Path(sys.executable).parent / "igbss-stream"), "run", str(folder / "run.yaml")]
    daemon = subprocess.Popen(command)
    try:
        with browser(folder) as driver:
            url, end = f"http://127.0.0.1:{ports['view']}/", time.monotonic() + _PATIENCE
            while time.monotonic() < end:
                try:
                    driver.get(url)
                    break
                except Exception:  # the page is not served yet
                    time.sleep(0.2)
            token = (folder / "control.token").read_text().strip()
            driver.execute_script("sessionStorage.setItem('igbss-token', arguments[0])", token)
            while not driver.execute_script("return window.igbssView?.state.columns > 50"):
                time.sleep(0.1)
            yield driver, str(ports["cleaned"])
    finally:
        daemon.terminate()
        daemon.wait(10)


def measure_click(driver: Any, cleaned: Subscriber, sent: dict[int, Any], source: int) -> float:
    """Click for a source; return the seconds until the first samples of the choice have arrived."""
    driver.execute_script(f"igbssView.panels[0].choose({source})")
    before = cleaned.meta.cleaning
    found: list[float] = []

    def receive() -> None:
        end = time.monotonic() + _PATIENCE
        while not found and time.monotonic() < end:
            items, now, facts = cleaned.receive(0.05), time.time(), cleaned.meta.cleaning
            if facts is None or facts == before:
                continue
            for item in items:
                if isinstance(item, Chunk) and item.start >= facts.start and not found:
                    is_same = item.data.tobytes() == sent[item.start].tobytes()
                    assert is_same == (facts.excluded == ()), "the samples are not those of the choice"
                    found.append(now)

    thread = threading.Thread(target=receive)
    thread.start()
    clicked = float(driver.execute_script(_CLICK))
    thread.join()
    if not found:
        raise SystemExit("no cleaned samples came after a click")
    return found[0] - clicked


@click.command()
@click.option("--channels", default=64, show_default=True)
@click.option("--rate", default=1000.0, show_default=True, help="In Hz.")
@click.option("--block", default=20, show_default=True, help="Samples of a message.")
@click.option("--clicks", default=100, show_default=True)
def main(channels: int, rate: float, block: int, clicks: int) -> None:
    """Measure the time from a click on the live page to the first cleaned samples at a subscriber."""
    if not is_there():
        raise SystemExit(MISSING)
    rng = np.random.default_rng(1)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        sink = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
        feed = Feed(sink, channels, rate, block)
        ends.callback(feed.over.set)
        feed.start()
        driver, address = ends.enter_context(open_page(sink.address, folder))
        cleaned = ends.enter_context(Subscriber(address, "s", timeout=_PATIENCE))
        while not cleaned.described or cleaned.meta.cleaning is None:
            cleaned.receive(0.1)
        seconds = []
        for i in range(clicks):
            seconds.append(measure_click(driver, cleaned, feed.sent, i // 2 % channels))
            time.sleep(rng.uniform(0.1, 0.2))
    times = 1e3 * np.sort(seconds)
    median, p99 = np.quantile(times, (0.5, 0.99))
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"{channels} channels, {rate:g} Hz, {block} samples a message; {machine}")
    print(f"{clicks} clicks: median {median:.0f} ms, 99 % {p99:.0f} ms, most {times[-1]:.0f} ms")


if __name__ == "__main__":
    main()
