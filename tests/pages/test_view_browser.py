"""Test the page in a real browser, served by a real daemon that receives live data."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests import browser
from tests.commands import COMMAND
from tests.daemons import DaemonProcess, free_port
from tests.waiting import DEADLINE, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.jit,  # the daemon loads its kernels; coverage does not see it
    pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING),
]

RATE, NAMES = 250.0, ("Fp1", "Fp2", "C3", "C4", "O1", "O2")
N_SPARSE = 4  # channels whose noise is not Gaussian, so that their sources are reliable
BLOCK = 5  # samples: 50 messages a second


class Sender(threading.Thread):
    """Publishes noise at the sampling rate, and gaps on request."""

    def __init__(self, sink: ZmqPublisher) -> None:
        super().__init__(daemon=True)
        self.at = self.lost = 0
        self._sink, self._gap = sink, 0
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


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Open a page that tests share, in whatever order they come; nothing must go wrong in any of them."""
    with opened(tmp_path_factory.mktemp("page")) as shared:
        yield shared
        check_that_nothing_went_wrong(shared)


@contextmanager
def opened(folder: Path, settings: str = "model: {structure: systematic}") -> Iterator[Open]:
    """Start a sender and a daemon, and open its page."""
    with ExitStack() as ends:
        sink = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
        health, port, out = free_port(), free_port(), free_port()
        config = folder / "run.yaml"
        config.write_text(
            f"streams:\n"
            f"  - name: s\n"
            f"    source: {{kind: zmq, address: '{sink.address}'}}\n"
            f"    {settings}\n"
            f"    sinks: [{{kind: zmq, address: 'tcp://127.0.0.1:{out}'}}]\n"
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
        until(
            lambda: open_page.js("window.igbssView && igbssView.state.columns > 100"),
            describe=lambda: str(driver.get_log("browser")),
        )
        yield open_page


def answers(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_traces_move_and_a_pause_stops_them(page: Open) -> None:
    before = page.js("igbssView.state.frames")
    first = page.picture()
    until(lambda: page.js("igbssView.state.frames") >= before + 20)
    assert page.picture() != first
    page.press(" ")
    assert page.text("#pause") == "Resume"
    until(lambda: page.js("igbssView.state.paused"))
    sent = page.sender.at
    until(lambda: page.sender.at > sent + 100)  # what was on its way has come
    still, sent = page.picture(), page.sender.at
    until(lambda: page.sender.at > sent + 200)
    assert page.picture() == still
    page.click("#pause")
    until(lambda: page.picture() != still)


def test_a_source_can_be_chosen_hidden_and_moved(page: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    def rows() -> list[str]:
        return [
            str(name)
            for name in page.js(
                "[...document.querySelectorAll('#panel-0 li')].map(l => l.firstChild.textContent)"
            )
        ]

    every = [f"source-{n}" for n in range(len(NAMES))]
    assert rows() == every
    page.click("#source-row-2")
    assert page.text("#chosen") == "source-2"
    weights = "[...Bokeh.documents[0].get_model_by_name('weights').renderers[0].data_source.get('w')]"
    until(
        lambda: page.js(weights) == [1, 1, 0, 1, 1, 1], describe=lambda: str(page.js(weights))
    )  # all but its own
    page.press(Keys.ARROW_DOWN)
    assert page.text("#chosen") == "source-3"
    page.press("h")
    assert rows() == [name for name in every if name != "source-3"]
    page.click("#panel-0 .head button")
    assert rows() == every
    page.js("igbssView.panels[0].move(0, 1)")
    assert rows()[:2] == ["source-1", "source-0"]
    page.js("igbssView.panels[0].showAll()")
    assert rows() == every


def test_a_gap_shows(page: Open) -> None:
    assert page.figures()["missing"] == "0"
    page.sender.lose(300)
    band = (
        "(() => { const c = igbssView.panels[0].canvas, d = c.getContext('2d').getImageData(0, 60, c.width, 1).data;"
        "let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] === 254 && d[i + 1] === 226 && d[i + 2] === 226;"
        "return n })()"
    )
    wanted = page.js(
        "300 / 250 / 10 * igbssView.panels[0].canvas.width"
    )  # pixels: 1.2 s of 10, less lines of the grid
    until(
        lambda: abs(page.js(band) - wanted) < 0.2 * wanted, describe=lambda: f"{page.js(band)} of {wanted}"
    )
    until(lambda: page.figures()["lost"] == "300")
    assert page.figures()["missing"] == "0"


def test_figures_are_those_of_the_daemon_and_silence_is_reported(page: Open) -> None:
    with page.sender.paused():
        until(
            lambda: page.text("#sentence").startswith(
                "The feed is silent: no sample has arrived from tcp://127.0.0.1:"
            )
        )

        def metric(fate: str) -> int:
            start = f'igbss_samples_total{{fate="{fate}",stream="s"}} '
            lines = page.daemon.get("metrics").splitlines()
            return int(float(next(line for line in lines if line.startswith(start)).removeprefix(start)))

        def agreed() -> bool:
            figures, expected = (
                page.figures(),
                [
                    f"{name} {metric(fate):,}".replace(",", " ")
                    for name, fate in (("in", "in"), ("out", "out"), ("without sources", "gap"))
                ],
            )
            return figures["daemon"].startswith(" · ".join(expected)) and int(
                figures["sample"].replace(" ", "")
            ) == metric("out") + metric("gap")

        until(agreed, describe=lambda: str((page.figures(), page.daemon.get("metrics")[:2000])))
        assert metric("in") == metric("out") == page.sender.at - page.sender.lost
        assert page.figures()["drops"] == "0"
        assert page.figures()["model"] == "1"


def read_learning(port: int) -> dict[str, Any]:
    """Return what the daemon states of its model, as the page of the wire format describes it."""
    with zmq.Context() as context, context.socket(zmq.SUB) as socket:
        socket.connect(f"tcp://127.0.0.1:{port}")
        socket.subscribe(b"")
        while True:
            header = json.loads(socket.recv_multipart()[1])
            if header.get("learning"):
                return dict(header["learning"])


@pytest.mark.parametrize("width", [1500, 480])
def test_the_reliability_stands_beside_the_name_of_each_source(tmp_path: Path, width: int) -> None:
    with opened(tmp_path, "learning: {first: 4, window: 4, every: null}") as page:
        page.driver.set_window_size(width, 1000)
        learning = read_learning(page.out)
        rows = [f"source-{n} · {round(value)} dB" for n, value in enumerate(learning["reliability"])]
        until(lambda: page.labels() == rows, describe=lambda: f"{page.labels()} of {rows}")
        low = [n for n, value in enumerate(learning["reliability"]) if round(value) < 0]
        assert page.js("[...document.querySelectorAll('li .low')].map(e => e.parentElement.id)") == [
            f"source-row-{n}" for n in low
        ]
        page.js("igbssView.panels[0].choose(1)")
        assert page.text("#chosen") == rows[1]
        view = "innovations" if learning["view"] == 0 else f"view {learning['view']:g}"
        assert page.figures()["learned from"].startswith(view)
        cut = "[...document.querySelectorAll('#panel-0 li, #figures dd')].filter(e => e.scrollWidth > e.clientWidth + 1)"
        assert page.js(f"{cut}.map(e => e.textContent)") == []
        assert page.js("igbssView.panels[0].canvas.clientWidth") > 0.5 * page.js(
            "document.querySelector('#panel-0').clientWidth"
        )
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        page.driver.save_screenshot(str(tmp_path / f"{width}.png"))
        check_that_nothing_went_wrong(page)


def check_that_nothing_went_wrong(page: Open) -> None:
    """Check that the console has no complaint, and that all that was loaded came from the daemon."""
    sources = page.js("performance.getEntriesByType('resource').map(e => e.name)")
    assert sources
    assert all(name.startswith((page.url, "data:")) for name in sources)
    said = page.driver.get_log("browser")
    ours = "Multiple readback operations"  # of these tests, which look at what is drawn
    assert [one for one in said if one["level"] != "INFO" and ours not in one["message"]] == []


def test_the_end_of_the_daemon_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        check_that_nothing_went_wrong(page)
        page.daemon.process.terminate()
        until(lambda: page.text("#sentence").startswith("The page has lost its server"))
        assert page.daemon.process.wait(DEADLINE) == 0
