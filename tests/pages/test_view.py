"""Test the page without a browser: the data it receives, its sentences, and how it is served."""

import json
import os
import re
import threading
import time
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli import main
from igbss_stream.daemon.config.schema import Config, StreamSection
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.config.web_sections import ViewSection
from igbss_stream.daemon.viewer import ViewerProcess
from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.events import Events
from igbss_stream.feeds.model_facts import LearningFacts, Mixing
from igbss_stream.feeds.wire import MetaMessage
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import Command, Refusal
from tests.daemons import free_port
from tests.doc_pages import blocks, text_of
from tests.waiting import DEADLINE, until

pytest.importorskip("bokeh")

from bokeh.document import Document
from bokeh.server.callbacks import PeriodicCallback

from igbss_stream.pages.view.feed import DaemonMetrics, Feed, parse_metrics
from igbss_stream.pages.view.page import Page
from igbss_stream.pages.view.serve import serve
from igbss_stream.pages.view.state import ViewState
from igbss_stream.pages.view.status import describe_state, list_figures

RATE, NAMES = 250.0, ("Fp1", "Fp2", "C3", "C4", "O2")
STREAM = Stream("s", RATE, ("source-0", "source-1"), None, t0=1000.0)
MATRIX = np.arange(10.0).reshape(5, 2) - 3
MIXING = Mixing(
    version=1, channels=NAMES, unit="uV", matrix=tuple(map(tuple, MATRIX.tolist())), mean=(5.0,) * 5
)


def samples(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, 2)).astype(np.float32)


class Browser:
    """What the script of the page does, without a screen: keeps the columns it is sent, and says so.

    Parameters
    ----------
    document : Document
        The page, as Bokeh would serve it.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.live = self.plot("live")
        self.strips = 0
        self.heads: list[tuple[int, int]] = []  # first column and columns of each strip of this layout
        self.columns: list[dict[int, tuple[NDArray[np.float32], NDArray[np.float32]]]] = []
        self.answers = True
        self._number = 0
        self.live.on_change("strip", self._take)

    @property
    def layout(self) -> dict[str, Any]:
        return dict(json.loads(self.live.layout))

    @property
    def marks(self) -> list[tuple[str, int, int, str]]:
        return [
            (mark["kind"], mark["start"], mark["stop"], mark["text"])
            for mark in json.loads(self.live.marks)
        ]

    @property
    def stop(self) -> int:
        """The sample after the last one that is drawn."""
        return sum(self.heads[-1]) * self.layout["width"] if self.heads else 0

    def plot(self, name: str) -> Any:
        return self.document.get_model_by_name(name)

    def drawn(self, name: str) -> dict[str, Any]:
        """Return the data of a plot beside the traces, by its name and that of its columns."""
        return {
            key: value for each in self.plot(name).renderers for key, value in each.data_source.data.items()
        }

    def shown(self, panel: int, start: int, stop: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the lows and highs of columns that are drawn in a panel, all of which must be there."""
        low, high = zip(*(self.columns[panel][column] for column in range(start, stop)), strict=True)
        return np.array(low), np.array(high)

    def call(self, *periods: int) -> None:
        """Let pass what the server does again and again, of periods in ms."""
        for callback in self.document.session_callbacks:
            if isinstance(callback, PeriodicCallback) and callback.period in periods:
                callback.callback()

    def frame(self) -> None:
        self.call(min(self._periods))

    def tick(self) -> None:
        self.call(max(self._periods))

    @property
    def _periods(self) -> list[int]:
        return [
            callback.period
            for callback in self.document.session_callbacks
            if isinstance(callback, PeriodicCallback)
        ]

    def _take(self, name: str, before: str, strip: str) -> None:
        """Take a strip apart: its head; lows and highs of the sources, and of the channels."""
        self.strips += 1
        if self.answers:
            self.live.seen = self.strips
        data, panels = b64decode(strip), self.layout["panels"]
        head, rest = np.frombuffer(data, "<f8", 4), np.frombuffer(data, "<f4", offset=32)
        number, first, count = (int(value) for value in head[:3])
        if number != self._number:  # all is drawn anew
            assert number == self.layout["number"]
            self._number, self.heads, self.columns = number, [], [{} for _ in panels]
        elif self.heads:
            assert first >= sum(self.heads[-1])
        self.heads.append((first, count))
        sizes = [len(panel["names"]) * count for panel in panels for _ in range(2)]
        parts = [part.reshape(count, -1) for part in np.split(rest, np.cumsum(sizes)[:-1])]
        for kept, low, high in zip(self.columns, parts[::2], parts[1::2], strict=True):
            kept.update((first + k, (low[k], high[k])) for k in range(count))


class Published:
    """A publisher, a feed that reads it, a page that shows it and a browser that has it open."""

    def __init__(self, sink: ZmqPublisher, **options: Any) -> None:
        self.sink = sink
        self.feed = Feed(sink.address, **options)
        document = Document()
        Page(document, self.feed)
        self.browser = Browser(document)
        self.browser.frame()
        assert self.browser.strips == 0  # nothing is sent to a browser that does not listen yet
        self.browser.live.ready = True
        sink.start(STREAM)
        until(lambda: sink.subscriptions, sink.serve)

    def publish(self, *items: Chunk | Gap) -> None:
        for item in items:
            self.sink.publish(item)
        until(lambda: self.stop == items[-1].stop, self.sink.serve)

    @property
    def stop(self) -> int | None:
        with self.feed.lock:
            sources = self.feed.state.sources
            return None if sources is None else sources.ring.stop

    def draw(self, stop: int) -> None:
        """Let frames pass until a sample is drawn: the right edge glides."""
        until(lambda: self.browser.stop >= stop, self.browser.frame)

    @property
    def status(self) -> dict[str, Any]:
        self.browser.tick()
        return dict(json.loads(self.browser.live.status))


@pytest.fixture
def published() -> Iterator[Published]:
    with ZmqPublisher("tcp://127.0.0.1:*") as sink:
        made = Published(sink)
        yield made
        made.feed.close()


def test_volts_are_read_as_microvolts(published: Published) -> None:
    volts = msgspec.structs.replace(
        MIXING, unit="V", matrix=tuple(map(tuple, (1e-6 * MATRIX).tolist())), mean=None
    )
    published.sink.publish_model(volts)
    published.publish(Chunk(samples(2000), 0, 1))
    browser = published.browser
    browser.frame()
    sources, channels = browser.layout["panels"]
    assert (sources["unit"], sources["factor"]) == ("SD", 1.0)
    assert (channels["unit"], channels["factor"]) == ("µV", 1e6)
    assert 1 <= 1e6 * channels["spacing"] <= 1000
    browser.tick()
    assert browser.plot("weights").yaxis.axis_label == "µV"
    np.testing.assert_allclose(browser.drawn("weights")["w"], MATRIX[:, 0])
    assert browser.plot("scalp").title.text == "Scalp map, from above (µV)"


def test_what_is_drawn_is_the_least_and_the_largest_of_all_samples(published: Published) -> None:
    x, browser = samples(5000), published.browser
    browser.live.span, browser.live.columns = 20.0, 500  # 10 samples a column
    published.sink.publish_model(MIXING)
    published.publish(Chunk(x[:4600], 0, 1))
    published.draw(4600)
    published.publish(Chunk(x[4600:], 4600, 1))  # what is new goes on where the last strip ended
    published.draw(5000)
    assert browser.layout["width"] == 10
    assert [panel["unit"] for panel in browser.layout["panels"]] == ["SD", "µV"]
    columns = x.reshape(500, 10, 2)
    low, high = browser.shown(0, 0, 500)
    np.testing.assert_array_equal(low, columns.min(axis=1))
    np.testing.assert_array_equal(high, columns.max(axis=1))
    made_up = (columns @ MATRIX.T + 5.0).astype(np.float32)
    low, high = browser.shown(1, 0, 500)
    np.testing.assert_allclose(low, made_up.min(axis=1), rtol=1e-5)
    np.testing.assert_allclose(high, made_up.max(axis=1), rtol=1e-5)
    assert len(browser.heads) > 2  # the edge glided
    assert all(sum(before) == after[0] for before, after in pairwise(browser.heads))


def test_gaps_and_models_are_marked_and_a_page_that_waits_gets_all_at_once(published: Published) -> None:
    x, browser = samples(3000), published.browser
    browser.live.columns = 2500  # a sample a column
    published.sink.publish_model(MIXING)
    published.publish(
        Chunk(x[:500], 0, 1), Gap(500, 30, "lost"), Gap(530, 70, "lost"), Chunk(x[600:1000], 600, 2)
    )
    published.draw(1000)
    assert browser.marks == [("gap", 500, 600, "lost"), ("model", 600, 600, "model 2")]
    published.sink.publish_events(Events([900.4, 700.0, 650.0], ["square", "rt", "x" * 30]))
    until(lambda: len(browser.marks) == 5, browser.frame)
    assert browser.marks[2:] == [
        ("event", 650, 650, "x" * 23 + "…"),
        ("event", 700, 700, "rt"),
        ("event", 900, 900, "square"),
    ]
    low, _ = browser.shown(0, 0, 1000)
    np.testing.assert_array_equal(low, np.concatenate([x[:500], np.full((100, 2), np.nan), x[600:1000]]))
    low, _ = browser.shown(1, 0, 1000)
    assert np.isfinite(low[:500]).all()
    assert np.isnan(low[500:]).all()  # the mixing of model 2 was not published
    browser.live.paused = True
    before = browser.strips
    published.publish(Chunk(x[1000:1500], 1000, 2))
    browser.frame()
    assert browser.strips == before
    browser.live.paused = False
    published.draw(1500)
    low, _ = browser.shown(0, 1000, 1500)
    np.testing.assert_array_equal(low, x[1000:1500])


def test_frames_wait_for_a_browser_that_falls_behind_and_then_come_in_one(published: Published) -> None:
    x, browser = samples(5000), published.browser
    browser.live.columns = 2500  # a sample a column
    browser.answers = False
    published.publish(Chunk(x[:10], 0))
    at = iter(range(10, 5000, 10))

    def go_on() -> None:
        start = next(at)
        published.publish(Chunk(x[start : start + 10], start))
        browser.frame()

    until(lambda: browser.strips >= 60, go_on)
    for _ in range(20):
        go_on()
    waits, there = browser.strips, published.stop
    assert there is not None
    assert 60 <= waits <= 70
    assert browser.stop < there - 150  # nothing of what came since
    browser.live.seen = browser.strips
    browser.frame()
    assert browser.strips == waits + 1
    assert browser.heads[-1][0] == sum(browser.heads[-2])
    assert browser.heads[-1][1] > 20  # what had waited
    browser.answers = True
    published.draw(there)
    first = browser.heads[0][0]
    np.testing.assert_array_equal(browser.shown(0, first, there)[0], x[first:there])


def test_the_chosen_source_is_shown_beside(published: Published) -> None:
    browser = published.browser
    published.sink.publish_model(MIXING)
    t = np.arange(2000) / RATE
    x = np.column_stack([np.sin(2 * np.pi * 10 * t), np.sin(2 * np.pi * 30 * t)]).astype(np.float32)
    published.publish(Chunk(x, 0, 1))
    browser.frame()
    for source, hertz in ((0, 10.0), (1, 30.0), (99, 30.0)):
        browser.live.chosen = source
        assert published.status["note"] == ""
        spectrum = browser.drawn("spectrum")
        assert spectrum["f"][int(np.argmax(spectrum["p"]))] == hertz
        np.testing.assert_array_equal(browser.drawn("weights")["w"], MATRIX[:, min(source, 1)])
    assert browser.plot("scalp").visible
    named = ("Fp1", "a", "b", "c", "d")
    published.sink.publish_model(Mixing(version=2, channels=named, matrix=MIXING.matrix))
    published.publish(Chunk(x[:10], 2000, 2))
    until(lambda: published.status["note"].startswith("No map of the scalp"))
    assert not browser.plot("scalp").visible


def test_how_the_model_of_the_samples_was_learned(published: Published) -> None:
    """The reliability belongs to the model of the last samples, not to one that comes, nor to an earlier run."""
    first = LearningFacts(version=1, view=0.1, reliability=(14.4, -0.4), contradictions=((0.01, 7.5),))
    later = LearningFacts(version=2, view=0.0, reliability=(20.0, -3.0), drift_removed=True)

    def learned() -> tuple[Any, Any]:
        status = published.status
        return status["reliability"], {one["name"]: one["value"] for one in status["figures"]}.get(
            "learned from"
        )

    published.publish(Chunk(samples(100), 0, 1))
    assert learned() == (None, None)
    published.sink.publish_model(MIXING, first)
    at = iter(range(100, 10**9, 10))
    until(
        lambda: learned() == ([14, 0], "view 0.1 (view 0.01 contradicted, 7.5)"),
        lambda: published.publish(Chunk(samples(10), next(at), 1)),
    )
    published.sink.publish_model(MIXING, later)
    published.publish(Chunk(samples(10), next(at), 1))
    assert learned()[0] == [14, 0]
    published.publish(Chunk(samples(10), next(at), 2))
    assert learned() == ([20, -3], "innovations, without drift")
    published.sink.start(STREAM)  # the daemon was restarted, and has learned nothing yet
    until(lambda: published.feed.state._learnings == {}, published.sink.serve)
    assert learned() == (None, None)


def test_states_are_described(published: Published) -> None:
    first_sentence = (
        f"Waiting for {published.sink.address}: the stream exists, but no sample has arrived yet."
    )
    until(lambda: published.status["sentence"] == first_sentence, published.sink.serve)
    assert published.status["note"].startswith("No channels, bars or map")
    published.publish(Gap(0, 100, "learning"))
    until(lambda: "learning its first model" in published.status["sentence"], published.sink.serve)
    published.publish(Chunk(samples(100), 100, 1))
    at = iter(range(200, 10**9, 10))
    until(
        lambda: published.status["sentence"] == "",
        lambda: published.publish(Chunk(samples(10), next(at), 1)),
    )
    wanted = {"stream": "s", "model": "1", "learning": "100", "missing": "0", "lost": "0", "drops": "0"}

    def figures() -> dict[str, str]:
        return {figure["name"]: figure["value"] for figure in published.status["figures"]}

    until(lambda: wanted.items() <= figures().items(), published.sink.serve, lambda: str(figures()))
    until(lambda: published.status["sentence"].startswith("The feed is silent"), published.sink.serve)
    published.sink.close()
    until(lambda: published.status["sentence"].startswith("The stream has ended"))


def test_channels_of_a_separate_feed_are_aligned_by_time() -> None:
    raw_stream = Stream("raw", RATE, ("a", "b", "c"), "mV", t0=998.0)  # 500 samples earlier
    with ZmqPublisher("tcp://127.0.0.1:*") as sink, ZmqPublisher("tcp://127.0.0.1:*") as raw:
        made = Published(sink, channels=raw.address)
        made.browser.live.columns = 2500
        made.publish(Chunk(samples(400), 0, 1))
        raw.start(raw_stream)
        until(lambda: raw.subscriptions, raw.serve)
        x = np.random.default_rng(1).normal(size=(900, 3)).astype(np.float32)
        raw.publish(Chunk(x, 0))
        state = made.feed.state
        until(lambda: state.channels is not None and state.channels.ring.stop == 400, raw.serve)
        made.draw(400)
        low, _ = made.browser.shown(1, 0, 400)
        np.testing.assert_array_equal(low, x[500:])
        raw_panel = made.browser.layout["panels"][1]
        assert (raw_panel["about"], raw_panel["unit"]) == ("as received", "mV")
        raw.start(Stream("raw", 500.0, ("a", "b", "c")))
        until(lambda: "they cannot be shown side by side" in state.problem, raw.serve)
        made.feed.close()


def test_figures_of_the_daemon_are_those_of_its_metrics() -> None:
    text = (
        "# TYPE igbss_samples counter\n"
        'igbss_samples_total{fate="in",stream="s"} 12000.0\n'
        'igbss_samples_total{fate="in",stream="other"} 7.0\n'
        "# TYPE igbss_delay_seconds histogram\n"
        'igbss_delay_seconds_bucket{le="0.001",stream="s"} 98.0\n'
        'igbss_delay_seconds_bucket{le="0.002",stream="s"} 99.0\n'
        'igbss_delay_seconds_bucket{le="+Inf",stream="s"} 100.0\n'
    )
    found = parse_metrics(text, "s")
    assert (found.samples, found.delay) == ({"in": 12000}, 0.002)
    assert list_figures(None, found)[0].value == "in 12 000 · out 0 · without sources 0 · p99 < 2 ms"
    assert parse_metrics("", "s").delay is None


def test_a_page_is_not_stopped_as_the_one_before_it_was(published: Published) -> None:
    asked: list[int] = []

    def is_over() -> bool:
        asked.append(0)
        return len(asked) == 3

    serve(published.feed, 0, lambda url: None, lambda: True)
    serve(published.feed, 0, lambda url: None, is_over)
    assert len(asked) == 3


def test_the_page_is_served_completely_and_locally(published: Published) -> None:
    urls: list[str] = []
    got: list[str] = []

    def fetch() -> None:
        with urllib.request.urlopen(urls[0], timeout=DEADLINE) as answer:
            got.append(answer.read().decode())

    def on_ready(url: str) -> None:
        urls.append(url)
        threading.Thread(target=fetch, daemon=True).start()

    serve(published.feed, 0, on_ready, lambda: bool(got))
    assert urls[0].startswith("http://127.0.0.1:")
    assert "window.igbssView" in got[0]
    assert 'id="panel-1"' in got[0]
    for word in ("src=", "href="):  # nothing is fetched from elsewhere
        for link in got[0].split(word)[1:]:
            assert link[1:].startswith(("static/", "data:", "/static/")), link[:80]
    with ZmqPublisher("tcp://127.0.0.1:*") as taken, pytest.raises(FeedError, match="choose another port"):
        serve(published.feed, int(taken.address.rpartition(":")[2]), on_ready, lambda: True)


def test_the_command_serves_and_refuses(igbss: Command, refused: Refusal) -> None:
    done = igbss("view", "5560", "--port", 0, "--parent", os.getpid())  # whose parent that is not
    assert (done.exit_code, done.output[:28]) == (0, "The page is at http://127.0.")
    assert "--port must be 0 to 65535. Got 65536 instead." in refused("view", "5560", "--port", 65536)
    assert "address must be tcp://HOST:PORT" in refused("view", "nonsense")
    assert "address must name a host and a port" in refused("view", "5560", "--channels", "*")
    assert "--metrics must be an address such as" in refused("view", "5560", "--metrics", "localhost:1")


def test_bokeh_that_is_missing_is_named(refused: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "igbss_stream.pages.view.serve")
    monkeypatch.setitem(sys.modules, "bokeh.application", None)
    assert "pip install 'igbss-stream[view]'" in refused("view", "5560")


def config(port: int, address: str, *allowed_hosts: str) -> Config:
    stream = StreamSection(name="s", source=ZmqInput(address="1"), sinks=(ZmqOutput(address=address),))
    return Config(streams=(stream,), view=ViewSection(port=port, allowed_hosts=allowed_hosts))


def test_the_page_of_a_daemon_is_a_process_that_ends_with_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, published: Published
) -> None:
    viewer = ViewerProcess(config(0, published.sink.address, "eeg.example.org"), None)
    place = Path(f"/proc/{viewer.pid}/cmdline")
    until(lambda: published.sink.address in place.read_text())  # before that it is a copy of this process
    assert "--allowed-host\0eeg.example.org\0" in place.read_text()
    viewer.close()
    viewer.close()
    assert not place.exists()
    with (
        ZmqPublisher("tcp://127.0.0.1:*") as taken,
        pytest.raises(FeedError, match="choose another port"),
    ):
        ViewerProcess(config(int(taken.address.rpartition(":")[2]), "1"), None)
    viewer = ViewerProcess(config(free_port(), published.sink.address), 9464)
    os.kill(viewer.pid, 9)
    until(lambda: "it gave no reason" in caplog.text, viewer.check)
    viewer.check()
    viewer.close()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ParameterError, match=r"igbss-stream\[view\]"):
        ViewerProcess(config(0, "1"), None)


def test_nothing_is_said_of_a_daemon_that_does_not_answer() -> None:
    with Feed("5560", metrics=f"http://127.0.0.1:{free_port()}/metrics") as feed:
        feed.start()
        time.sleep(0)
        assert feed.daemon_metrics is None
        assert describe_state(feed.report, feed.state, feed.address).startswith("Waiting for 5560")
    assert list_figures(None, None) == []
    assert list_figures(None, DaemonMetrics())[0].value.endswith("p99 -")


def test_what_a_page_remembers_is_bounded_whatever_comes() -> None:
    state = ViewState()
    wide = Stream("s", 30_000.0, tuple(f"source-{n}" for n in range(512)))
    head: dict[str, Any] = {
        "version": 1,
        "stream": "s",
        "rate": wide.rate,
        "dtype": "float32",
        "channels": wide.channels,
    }
    state.update([], MetaMessage(**head))
    assert state.sources is not None
    assert state.sources.ring._data.nbytes <= 1 << 26
    assert 0 < state.seconds < 60
    for k in range(2000):  # marks of two kinds, in turn
        state.update([Gap(k, 1, f"reason-{k % 2}")], MetaMessage(**head))
    assert len(state.marks) == 500
    state.update_events(Events(np.arange(600.0), ["x"] * 600))
    assert len(state.list_marks(0)) == 1000
    state.update(
        [Chunk(np.zeros((5, 512), np.float32), 0, 1)], MetaMessage(**head)
    )  # the stream begins anew
    assert ([mark.kind for mark in state.list_marks(0)], state.sources.ring.start) == (["model"], 0)
    state.update([Chunk(np.zeros((5, 3), np.float32), 5, 1)], MetaMessage(**head))  # not what was described
    assert state.sources.ring.stop == 5
    state.update([], MetaMessage(**head | {"channels": ("a", "b")}))
    assert (state.sources.names, len(state.marks), state.seconds) == (("a", "b"), 0, 60)


def test_bad_channels_are_named_while_there_are_any() -> None:
    state, report = ViewState(), SimpleNamespace(refusal="", stream="s", index=5, ended=False, silence=0.0)
    head: dict[str, Any] = {
        "version": 1,
        "stream": "s",
        "rate": 250.0,
        "dtype": "float32",
        "channels": ("a",),
    }
    for bad, sentence in (
        ((), ""),
        (("T8", "O1"), "Bad channels now: T8, O1."),
        (tuple("abcdefghij"), "Bad channels now: a, b, c, d, e, f, g, h and 2 more."),
        ((), ""),
    ):
        state.update([], MetaMessage(**head, bad_channels=bad))
        assert describe_state(report, state, "5560") == sentence  # type: ignore[arg-type]


def test_a_model_of_another_run_is_another_model() -> None:
    """A daemon that was restarted counts its models from 1 again."""
    state = ViewState()
    doubled = msgspec.structs.replace(MIXING, matrix=tuple(map(tuple, (2 * MATRIX).tolist())))
    for run, mixing in ((7, MIXING), (8, doubled)):
        meta = MetaMessage(
            version=1,
            stream="s",
            run=run,
            rate=RATE,
            dtype="float32",
            channels=STREAM.channels,
            mixing=mixing,
        )
        state.update([Chunk(np.ones((5, 2), np.float32), 0, 1)], meta)
        assert state.channels is not None
        np.testing.assert_array_equal(
            state.channels.ring.read(0, 5), np.tile(np.array(mixing.matrix).sum(axis=1) + 5.0, (5, 1))
        )


def test_the_page_of_the_documentation_says_what_can_be_configured() -> None:
    (block,) = blocks("docs/view.md", "yaml")
    assert (
        Config(streams=config(0, "1").streams, view=ViewSection(**yaml.safe_load(block.text)["view"])).view
        == ViewSection()
    )
    known = {
        word
        for name in ("view", "simulate")
        for option in main.commands[name].params
        for word in option.opts
    }
    assert set(re.findall(r"--[a-z][a-z-]*", text_of("docs/view.md"))) <= known
