"""Test the page in a real browser, served by a real daemon that receives live data."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq

from tests import browser
from tests.pages.live_page import NAMES, Open, check_that_nothing_went_wrong, opened
from tests.waiting import DEADLINE, until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.jit,  # the daemon loads its kernels; coverage does not see it
    pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Open a page that tests share, in whatever order they come; nothing must go wrong in any of them."""
    with opened(tmp_path_factory.mktemp("page")) as shared:
        yield shared
        check_that_nothing_went_wrong(shared)


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


@pytest.mark.parametrize("width", [pytest.param(1500, marks=pytest.mark.slow), 480])
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


def test_the_end_of_the_daemon_is_reported(tmp_path: Path) -> None:
    with opened(tmp_path) as page:
        check_that_nothing_went_wrong(page)
        page.daemon.process.terminate()
        until(lambda: page.text("#sentence").startswith("The page has lost its server"))
        assert page.daemon.process.wait(DEADLINE) == 0
