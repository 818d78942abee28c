#!/usr/bin/env python
"""Take the pictures of the live page: a simulated head, a daemon, and Chromium without a window.

.venv/bin/python tools/page_pictures.py                 into docs/pictures
.venv/bin/python tools/page_pictures.py --out /tmp
"""

import io
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.feeds.control_client import ControlClient
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.playback.simulate import Simulation
from tests.browser import MISSING, browser, is_there

_BLOCK = 0.02  # seconds
_PATIENCE = 180.0  # seconds that a model may take
_WIDTH, _HEIGHT = 1500, 940
_COLOURS = 256

CONFIG = """
streams:
  - name: eeg
    source: {{kind: zmq, address: "{source}"}}
    learning: {{first: 10, window: 20, every: 10, ahead: 2}}
    clean: {{}}
    sinks: [{{kind: zmq, address: "tcp://127.0.0.1:{sink}"}}]
health: {{port: {health}}}
view: {{port: {view}}}
control: {{port: {control}, token_file: control.token}}
log: {{level: error}}
"""


@dataclass(frozen=True)
class Picture:
    """A picture and the feed that it shows: a model and a gap within the ten seconds of the page."""

    name: str
    n_channels: int
    rate: float


PICTURES = (Picture("view.png", 19, 250.0), Picture("view-64.png", 64, 1000.0))


class Head(threading.Thread):
    """Publishes a simulated head as it would come, with 0.8 s missing when it is asked to."""

    def __init__(self, sink: ZmqPublisher, picture: Picture) -> None:
        super().__init__(daemon=True)
        self._sink, self._rate = sink, picture.rate
        self._simulation = Simulation(picture.n_channels, picture.rate, seed=3, montage="10-20")
        self.lose = threading.Event()
        self.over = threading.Event()

    def run(self) -> None:
        """Publish until it is over."""
        from dataclasses import replace

        began, at, n = time.monotonic(), 0, round(_BLOCK * self._rate)
        self._sink.start(replace(self._simulation.stream("eeg"), t0=time.time()))
        while not self.over.wait(max(0.0, began + (at + n) / self._rate - time.monotonic())):
            if self.lose.is_set():
                self.lose.clear()
                missing = round(0.8 * self._rate)
                self._sink.publish(Gap(at, missing, "lost"))
                at += missing
            else:
                self._sink.publish(Chunk(self._simulation.block(at, n).astype(np.float32), at))
                at += n


@contextmanager
def daemon(sink: ZmqPublisher, folder: Path) -> Iterator[tuple[str, ControlClient]]:
    """Run a daemon behind a sink; return the address of its page, and what chooses sources."""
    ports = dict(zip(("sink", "health", "view", "control"), map(_free_port, range(4)), strict=True))
    path = folder / "picture.yaml"
    path.write_text(CONFIG.format(source=sink.address, **ports))
    process = subprocess.Popen([str(Path(sys.executable).parent / "igbss-stream"), "run", str(path)])
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(ports["view"]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException("the daemon serves no page")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{ports['view']}/", ControlClient(f"http://127.0.0.1:{ports['control']}")
    finally:
        process.terminate()
        process.wait(10)


def take(picture: Picture, out: Path) -> None:
    """Take a picture."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        ZmqPublisher("tcp://127.0.0.1:*") as sink,
        daemon(sink, Path(name)) as (url, control),
        browser(Path(name), _WIDTH, _HEIGHT) as driver,
    ):
        head = Head(sink, picture)
        head.start()
        driver.get(url)
        model = (
            "[...document.querySelectorAll('#figures div')].find(d => d.textContent.startsWith('model'))"
        )
        deadline = time.monotonic() + _PATIENCE
        while driver.execute_script(f"return ({model} || {{}}).textContent") != "model2":
            if time.monotonic() > deadline:
                raise click.ClickException(f"{picture.name}: no second model came")
            time.sleep(0.1)
        time.sleep(3.0)
        head.lose.set()
        driver.execute_script("igbssView.panels[0].choose(1)")
        time.sleep(1.0)
        token = (Path(name) / "control.token").read_text().strip()
        control.send({"add": [0, 1]}, token)
        control.send({"names": [[1, "blink"]]}, token)
        time.sleep(5.0)  # there is a blink in it
        save(driver.get_screenshot_as_png(), out / picture.name)
        head.over.set()
        head.join()


def save(png: bytes, path: Path) -> None:
    """Write a picture with few colours, a third as large."""
    with Image.open(io.BytesIO(png)) as image:
        image.convert("RGB").quantize(_COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3).save(
            path, optimize=True
        )


def _free_port(_: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


out_option = click.option(
    "--out", default="docs/pictures", show_default=True, type=click.Path(path_type=Path, file_okay=False)
)


def make_ready(out: Path) -> None:
    """Make the folder of the pictures, if there is a browser to take them with."""
    if not is_there():
        raise click.ClickException(MISSING)
    out.mkdir(parents=True, exist_ok=True)


@click.command()
@out_option
def main(out: Path) -> None:
    """Take all pictures of the live page."""
    make_ready(out)
    for picture in PICTURES:
        take(picture, out)
        click.echo(f"{out / picture.name} is taken")


if __name__ == "__main__":
    main()
