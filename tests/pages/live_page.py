"""The page of a real daemon that receives live data, open in a real browser."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.control_token import load_token
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests import browser
from tests.commands import COMMAND
from tests.daemons import DaemonProcess, free_port
from tests.waiting import DEADLINE, until

RATE, NAMES = 250.0, ("Fp1", "Fp2", "C3", "C4", "O1", "O2")
N_SPARSE = 4  # channels whose noise is not Gaussian, so that their sources are reliable
BLOCK = 5  # samples: 50 messages a second


class Sender(threading.Thread):
    """Publishes noise at the sampling rate, and gaps on request."""

    def __init__(self, sink: ZmqPublisher) -> None:
        super().__init__(daemon=True)
        self.at = self.lost = 0
        self._sink, self._gap = sink, 0
        self.address = sink.address
        self._rng = np.random.default_rng(0)
        self._paused, self._over = threading.Event(), threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due = max(due, time.monotonic() - 1) + BLOCK / RATE
            if self._paused.is_set():
                self._sink.serve()
            elif self._gap:
                self._sink.publish(Gap(self.at, self._gap, "lost"))
                self.at, self.lost, self._gap = self.at + self._gap, self.lost + self._gap, 0
            else:
                x = self._rng.normal(size=(BLOCK, len(NAMES))).astype(np.float32)
                x[:, :N_SPARSE] **= 3
                self._sink.publish(Chunk(x, self.at))
                self.at += BLOCK

    def lose(self, n_samples: int) -> None:
        self._gap = n_samples

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._paused.set()
        try:
            yield
        finally:
            self._paused.clear()

    def end(self) -> None:
        self._over.set()
        self.join(DEADLINE)


class Open:
    """The page that is open, the daemon behind it and the sender before that."""

    def __init__(self, driver: Any, daemon: DaemonProcess, sender: Sender, url: str, out: int) -> None:
        self.driver, self.daemon, self.sender, self.url, self.out = driver, daemon, sender, url, out
        self.cleaned, self.token = 0, ""  # port of cleaned channels, and what allows a choice of sources

    def js(self, expression: str) -> Any:
        return self.driver.execute_script(f"return {expression}")

    def text(self, selector: str) -> str:
        return str(self.js(f"document.querySelector({selector!r}).textContent"))

    def labels(self) -> list[str]:
        """Return what is written beside the traces of the sources, without the tools."""
        found = self.js(
            "[...document.querySelectorAll('#panel-0 li')].map(l => [...l.childNodes].slice(0, -1)"
            ".map(n => n.textContent).join(''))"
        )
        return [str(one) for one in found]

    def figures(self) -> dict[str, str]:
        """Return the status line."""
        items = self.js(
            "[...document.querySelectorAll('#figures div')].map(d => [...d.children].map(e => e.textContent))"
        )
        return dict(items)

    def picture(self) -> str:
        """Return what is drawn of the sources."""
        return str(self.js("igbssView.panels[0].canvas.toDataURL()"))

    def click(self, selector: str) -> None:
        from selenium.webdriver import ActionChains

        found = self.driver.find_element("css selector", selector)
        ActionChains(self.driver).move_to_element(found).click().perform()

    def press(self, key: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(key).perform()


@contextmanager
def opened(
    folder: Path, settings: str = "model: {structure: systematic}", *, control: bool = False
) -> Iterator[Open]:
    """Start a sender and a daemon, and open its page; with control, sources can be chosen."""
    with ExitStack() as ends:
        sink = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
        health, port, out, cleaned, choice = (free_port() for _ in range(5))
        sinks = [f"{{kind: zmq, address: 'tcp://127.0.0.1:{out}'}}"]
        more = ""
        if control:
            settings += "\n    clean: {}"
            sinks.append(f"{{kind: zmq, address: 'tcp://127.0.0.1:{cleaned}', publish: cleaned}}")
            more = f"control: {{port: {choice}, token_file: control.token}}\nstate: {{path: state}}\n"
        config = folder / "run.yaml"
        config.write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {{kind: zmq, address: '{sink.address}'}}\n"
            f"    {settings}\n"
            f"    sinks: [{', '.join(sinks)}]\n"
            f"{more}"
            f"health: {{port: {health}}}\n"
            f"view: {{port: {port}}}\n"
            f"log: {{format: json}}\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", COMMAND, "run", str(config)], text=True, stderr=subprocess.PIPE
        )
        ends.callback(process.communicate)
        ends.callback(process.kill)
        daemon = DaemonProcess(process, health)
        url = daemon.wait_for_line("page of stream s at")["message"].rpartition(" ")[2]
        assert url == f"http://127.0.0.1:{port}/"
        sink.start(Stream("s", RATE, NAMES, "uV", t0=time.time()))
        sender = Sender(sink)
        sender.start()
        ends.callback(sender.end)
        driver: Any = ends.enter_context(browser.browser(folder))
        until(lambda: answers(port))
        driver.get(url)
        open_page = Open(driver, daemon, sender, url, out)
        if control:
            open_page.cleaned, open_page.token = cleaned, load_token(folder / "control.token")
        until(
            lambda: open_page.js("window.igbssView && igbssView.state.columns > 100"),
            describe=lambda: str(driver.get_log("browser")),
        )
        yield open_page


def answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def check_that_nothing_went_wrong(page: Open) -> None:
    """Check that the console has no complaint, and that all that was loaded came from the daemon."""
    sources = page.js("performance.getEntriesByType('resource').map(e => e.name)")
    assert sources
    assert all(name.startswith((page.url, "data:")) for name in sources)
    said = page.driver.get_log("browser")
    ours = "Multiple readback operations"  # of these tests, which look at what is drawn
    assert [one for one in said if one["level"] != "INFO" and ours not in one["message"]] == []
