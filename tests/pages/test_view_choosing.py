"""Choose sources on the live page: what is asked, what is shown, and how traces are drawn."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.signal

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.control_client import WRONG_TOKEN, ControlClient
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests import browser
from tests.pages.live_page import Open, check_that_nothing_went_wrong, opened
from tests.waiting import DEADLINE, until

pytest.importorskip("bokeh")

from igbss_stream.pages.view.control_access import ControlAccess
from igbss_stream.pages.view.display import DisplaySettings, parse_display
from tests.pages.test_view import MATRIX, MIXING, NAMES, RATE, Published, samples


@pytest.fixture
def shown() -> Iterator[Published]:
    with ZmqPublisher("tcp://127.0.0.1:*") as sink:
        made = Published(sink)
        made.browser.live.columns = 4000  # a sample a column
        sink.publish_model(MIXING)
        yield made
        made.feed.close()


def test_channels_are_drawn_without_the_sources_that_are_taken_out(shown: Published) -> None:
    x, browser = samples(2000), shown.browser
    shown.sink.publish_cleaning(CleaningFacts(start=0, excluded=()))
    shown.publish(Chunk(x[:1000], 0, 1))
    shown.sink.publish_cleaning(
        CleaningFacts(start=1000, excluded=(1,), names=((1, "blink"),), chosen=True)
    )
    shown.publish(Chunk(x[1000:], 1000, 1))
    shown.draw(2000)
    assert json.loads(browser.live.taken) == {
        "start": 1000, "excluded": [1], "names": [[1, "blink"]], "chosen": True, "undo": 0,
    }  # fmt: skip
    every = (x @ MATRIX.T + 5.0).astype(np.float32)
    without = (np.outer(x[:, 0], MATRIX[:, 0]) + 5.0).astype(np.float32)
    low, high = browser.shown(1, 0, 2000)
    np.testing.assert_array_equal(low, high)
    np.testing.assert_allclose(low, np.concatenate([every[:1000], without[1000:]]), rtol=1e-4, atol=1e-4)
    assert browser.layout["panels"][1]["about"] == "cleaned, as modelled"
    browser.live.display = json.dumps({"shown": "channels"})
    browser.frame()
    shown.draw(2000)
    low, _ = browser.shown(1, 0, 2000)
    np.testing.assert_allclose(low, every, rtol=1e-4, atol=1e-4)
    assert browser.layout["panels"][1]["about"] == "as modelled by the sources"


def test_samples_before_a_choice_that_arrive_late_are_drawn_as_they_were(shown: Published) -> None:
    state = shown.feed.state
    shown.publish(Chunk(samples(10), 0, 1))
    with shown.feed.lock:
        for start, excluded in ((0, ()), (100, (0,)), (200, (0, 1)), (300, (9,))):
            state._update_cleaning(CleaningFacts(start=start, excluded=excluded), 0)
        found = [state._find_removed(Chunk(samples(2), at)) for at in (0, 99, 100, 199, 200, 350)]
    assert found == [[], [], [0], [0], [0, 1], []]  # the model has no source 9


def test_filters_and_the_reference_change_only_what_is_drawn(shown: Published) -> None:
    t = np.arange(6000) / RATE
    x = np.stack([np.sin(2 * np.pi * 3 * t), np.sin(2 * np.pi * 50 * t) + 40.0], axis=1).astype("f4")
    shown.publish(*(Chunk(x[at : at + 500], at, 1) for at in range(0, 6000, 500)))
    shown.draw(6000)
    browser = shown.browser
    plain = browser.shown(1, 4000, 6000)[0]
    browser.live.display = json.dumps({"highpass": 1.0, "notch": 50.0, "reference": "average"})
    browser.frame()
    shown.draw(6000)
    sources, channels = (browser.shown(panel, 4000, 6000)[0] for panel in (0, 1))
    high = scipy.signal.butter(4, 1.0, "highpass", fs=RATE, output="sos")
    settled = scipy.signal.sosfilt(high, x[:, 0].astype("f8"))[4000:]
    assert np.abs(sources[:, 0] - settled).max() < 0.05  # the notch is far from 3 Hz
    assert np.abs(sources[:, 1]).max() < 0.01  # neither an offset nor 50 Hz
    assert np.abs(channels.mean(axis=1)).max() < 1e-3
    centred = np.outer(sources[:, 0], MATRIX[:, 0] - MATRIX[:, 0].mean())
    np.testing.assert_allclose(channels, centred, atol=0.1)
    browser.live.display = json.dumps({"reference": "C3"})
    browser.frame()
    shown.draw(6000)
    assert browser.layout["panels"][1]["names"] == [name for name in NAMES if name != "C3"]
    left = browser.shown(1, 4000, 6000)[0]
    i = NAMES.index("C3")
    np.testing.assert_allclose(left, np.delete(plain - plain[:, i : i + 1], i, axis=1), atol=1e-3)
    with shown.feed.lock:
        state = shown.feed.state
        assert state.sources is not None
        np.testing.assert_array_equal(state.sources.ring.read(4000, 6000), x[4000:])


@pytest.mark.parametrize(
    ("display", "words"),
    [
        ({"highpass": 5, "lowpass": 2}, "The traces are shown without filters: highpass must be below"),
        ({"lowpass": 125.0}, "The traces are shown without filters: lowpass must be below 125 Hz"),
        ({"reference": "Cz"}, "The traces are shown without filters: reference names Cz"),
    ],
)
def test_filters_that_do_not_fit_leave_the_traces_as_they_are(
    shown: Published, display: dict[str, Any], words: str
) -> None:
    x = samples(1000)
    shown.publish(Chunk(x, 0, 1))
    shown.browser.live.display = json.dumps(display)
    shown.browser.frame()
    shown.draw(1000)
    np.testing.assert_array_equal(shown.browser.shown(0, 0, 1000)[0], x)
    until(lambda: shown.status["sentence"].startswith(words), shown.sink.serve)
    assert shown.status["references"] == list(NAMES)


def test_settings_that_the_script_does_not_send_are_the_defaults() -> None:
    for text in ("", "[]", '{"lowpass": -1}', '{"highpass": "1"}', '{"notch": 1e99}'):
        assert parse_display(text) == DisplaySettings()


class Answering(http.server.BaseHTTPRequestHandler):
    """A control server that notes what it is sent, and answers as it is asked to."""

    got: list[tuple[str, str | None, Any]]
    status: int
    text: bytes

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append((self.path, self.headers["Authorization"], json.loads(body)))
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, format: str, *args: Any) -> None: ...


@contextmanager
def answering(status: int = 200, text: bytes = b"{}") -> Iterator[tuple[str, list[Any]]]:
    got: list[Any] = []
    handler = type("Handler", (Answering,), {"got": got, "status": status, "text": text})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", got
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("own", [None, "token-of-all-pages"])
def test_a_request_of_the_page_reaches_the_daemon_with_the_token(own: str | None) -> None:
    with ExitStack() as ends:
        url, got = ends.enter_context(answering())
        sink = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
        made = Published(sink, control=ControlAccess(ControlClient(url), own))
        ends.enter_context(closing(made.feed))
        made.publish(Chunk(samples(10), 0, 1))
        live = made.browser.live
        assert (live.control, live.locked) == (True, own is None)
        live.request = json.dumps({"number": 1, "token": "mine", "action": {"add": [1]}})
        until(lambda: made.browser.document.session_callbacks and got)
        assert got == [("/choice", f"Bearer {own or 'mine'}", {"add": [1], "stream": "s"})]
        for bad in ("", "x", "[]", json.dumps({"number": 2, "token": 1, "action": {}}), "x" * 70_000):
            live.request = bad  # not of the script: ignored
        assert len(got) == 1


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (401, b"no", WRONG_TOKEN),
        (409, b"source 9 cannot be removed\n", "source 9 cannot be removed"),
        (500, b"", "the daemon refuses the request with code 500"),
        (200, b"<html>", "the control server of the daemon does not answer at http://127.0.0.1"),
    ],
)
def test_refusals_come_back_in_words(status: int, text: bytes, words: str) -> None:
    done: list[tuple[str, bool]] = []
    with answering(status, text) as (url, _), closing(ControlAccess(ControlClient(url))) as access:
        access.submit({}, "token", lambda problem, wrong: done.append((problem, wrong)))
        until(lambda: done)
    assert done[0][0].startswith(words)
    assert done[0][1] == (status == 401)


def test_a_daemon_that_is_not_there_is_reported() -> None:
    done: list[tuple[str, bool]] = []
    with closing(ControlAccess(ControlClient("http://127.0.0.1:1"))) as access:
        access.submit({}, "token", lambda problem, wrong: done.append((problem, wrong)))
        until(lambda: done)
    assert done == [
        (
            "the control server of the daemon does not answer at http://127.0.0.1:1: Connection refused",
            False,
        )
    ]


def find_first_cleaned(cleaned: Subscriber, raw: Subscriber, source: int, began: float) -> float:
    """Return the seconds until a message of cleaned channels differs from the channels by one source."""
    sent: dict[int, Any] = {}
    while time.monotonic() < began + DEADLINE:
        sent |= {item.start: item.data for item in raw.receive(0.0) if isinstance(item, Chunk)}
        for item in cleaned.receive(0.002):
            seconds = time.monotonic() - began
            if isinstance(item, Chunk) and item.start in sent:
                gone = sent[item.start] - item.data
                facts = cleaned.meta.cleaning
                if np.abs(gone).max() > 1e-3:
                    assert facts is not None
                    assert (facts.excluded, facts.start <= item.start) == ((source,), True)
                    assert np.linalg.matrix_rank(gone, 1e-2) == 1
                    assert np.abs(gone[:, source]).max() < 1e-3  # its own channel is the one that it lacks
                    return seconds
    raise AssertionError("no cleaned channels came")


def enter_token(page: Open, token: str) -> None:
    until(lambda: page.js("!document.getElementById('token-form').hidden"))
    page.driver.find_element("id", "token").send_keys(f"{token}\n")


def wait_for_text(page: Open, selector: str, text: str) -> None:
    until(lambda: page.text(selector) == text, describe=lambda: f"{page.text(selector)!r}, not {text!r}")


@pytest.mark.browser
@pytest.mark.jit  # the daemon loads its kernels
@pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING)
def test_sources_are_taken_out_on_two_pages(tmp_path: Path) -> None:
    """A wrong token, a click, a second page, a name, and undo: the wire and both pages state the same."""
    with ExitStack() as ends:
        page = ends.enter_context(opened(tmp_path, control=True))
        raw, cleaned, sources = (
            ends.enter_context(Subscriber(address, "s", timeout=DEADLINE))
            for address in (page.sender.address, f"{page.cleaned}", f"{page.out}")
        )
        until(lambda: cleaned.described, lambda: cleaned.receive(0.1))
        wait_for_text(page, "#taken-text", "All sources are in the channels")

        page.click("#source-row-2 input")
        enter_token(page, "wrong-token-wrong-token")
        wait_for_text(page, "#choose-note", f"Not changed: {WRONG_TOKEN}.")
        assert page.js("document.querySelectorAll('#panel-0 li.out').length") == 0
        began = time.monotonic()
        enter_token(page, page.token)
        assert find_first_cleaned(cleaned, raw, 2, began) < 2.0
        wait_for_text(page, "#taken-text", "Taken out: source-2")
        assert page.text("#choose-note") == ""
        assert page.token not in page.driver.current_url

        first = page.driver.current_window_handle
        page.driver.switch_to.new_window("tab")
        page.driver.get(page.url)
        until(lambda: page.js("window.igbssView && igbssView.state.strips > 0"))
        wait_for_text(
            page, "#taken-text", "Taken out: source-2"
        )  # also what was chosen before it was opened
        page.js("igbssView.panels[0].choose(2)")
        page.driver.find_element("id", "name").send_keys("blink\n")
        enter_token(page, page.token)
        wait_for_text(page, "#taken-text", "Taken out: blink (source-2)")
        page.press("x")  # puts it back
        wait_for_text(page, "#taken-text", "All sources are in the channels")
        page.driver.switch_to.window(first)
        wait_for_text(page, "#taken-text", "All sources are in the channels")
        assert page.js("document.getElementById('source-row-2').firstChild.textContent") == "blink"
        page.click("#undo")  # without another token
        wait_for_text(page, "#taken-text", "Taken out: blink (source-2)")
        assert page.js("[...document.querySelectorAll('#panel-0 li.out')].map(e => e.id)") == [
            "source-row-2"
        ]

        labels: list[str] = []
        until(lambda: len(labels) == 4, lambda: labels.extend(list_labels(sources)), lambda: labels)
        assert labels == ["exclude 2", "name 2 blink", "exclude none", "exclude 2"]
        check_that_nothing_went_wrong(page)


def list_labels(subscriber: Subscriber) -> list[str]:
    subscriber.receive(0.1)
    return [event.label for event in subscriber.pop_events()]
