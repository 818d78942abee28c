"""The page without a browser: what it is sent, what it says, and how it is served."""

import json
import os
import re
import threading
import time
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli import main
from igbss_stream.daemon.config.schema import Config, StreamSection, ViewSection
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.viewer import ViewerProcess
from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.feeds.wire import MetaMessage, Mixing
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import Command, Refusal
from tests.daemons import free_port, until
from tests.doc_pages import blocks, text_of

pytest.importorskip("bokeh")

from bokeh.document import Document

from igbss_stream.pages.view.feed import DaemonFigures, Feed, figures_of
from igbss_stream.pages.view.page import Head, Page
from igbss_stream.pages.view.serve import serve
from igbss_stream.pages.view.state import Shown
from igbss_stream.pages.view.status import figures, sentence

RATE, NAMES = 250.0, ("Fp1", "Fp2", "C3", "C4", "O2")
STREAM = Stream("s", RATE, ("source-0", "source-1"), None, t0=1000.0)
MATRIX = np.arange(10.0).reshape(5, 2) - 3
MIXING = Mixing(
    version=1, channels=NAMES, unit="uV", matrix=tuple(map(tuple, MATRIX.tolist())), mean=(5.0,) * 5
)


def samples(n: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, 2)).astype(np.float32)


class Published:
    """A publisher, a feed that reads it and a page that shows it; frames are asked for, not waited for."""

    def __init__(self, sink: ZmqPublisher, **options: Any) -> None:
        self.sink = sink
        self.feed = Feed(sink.address, **options)
        self.page = Page(Document(), self.feed)
        self.page.frame()
        assert not self.page.live.strip  # nothing is sent to a browser that does not listen yet
        self.page.live.ready = True
        sink.start(STREAM)
        until(lambda: sink.subscriptions, sink.serve)

    def publish(self, *items: Chunk | Gap) -> None:
        for item in items:
            self.sink.publish(item)
        until(lambda: self.stop == items[-1].stop, self.sink.serve)

    @property
    def stop(self) -> int | None:
        with self.feed.lock:
            sources = self.feed.shown.sources
            return None if sources is None else sources.ring.stop

    def frame(self) -> None:
        """Ask for a frame, as a browser does that has seen all before it."""
        self.page.live.seen = self.page._sent
        self.page.frame()

    def strip(self) -> tuple[list[float], list[NDArray[np.float32]]]:
        """Return the last strip taken apart: its head; lows and highs of the sources and of the channels."""
        data = b64decode(self.page.live.strip)
        head, rest = np.frombuffer(data, "<f8", 4).tolist(), np.frombuffer(data, "<f4", offset=32)
        sizes = [len(panel["names"]) * int(head[2]) for panel in self.layout["panels"] for _ in range(2)]
        parts = np.split(rest, np.cumsum(sizes)[:-1])
        return head, [part.reshape(int(head[2]), -1) for part in parts]

    @property
    def layout(self) -> dict[str, Any]:
        return dict(json.loads(self.page.live.layout))

    @property
    def status(self) -> dict[str, Any]:
        self.page.tick()
        return dict(json.loads(self.page.live.status))


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
    published.sink.publish_mixing(volts)
    published.publish(Chunk(samples(2000), 0, 1))
    published.frame()
    sources, channels = published.layout["panels"]
    assert (sources["unit"], sources["factor"]) == ("SD", 1.0)
    assert (channels["unit"], channels["factor"]) == ("µV", 1e6)
    assert 1 <= 1e6 * channels["spacing"] <= 1000
    published.page.tick()
    bars, scalp = published.page._bars, published.page._map
    assert bars.plot.yaxis.axis_label == "µV"
    np.testing.assert_allclose(bars._data.data["w"], MATRIX[:, 0])
    assert scalp.plot.title.text == "On the scalp, from above (µV)"


def test_what_is_sent_is_the_least_and_the_largest_of_all_samples(published: Published) -> None:
    x, live = samples(5000), published.page.live
    live.span, live.columns = 20.0, 500  # 10 samples a column
    published.sink.publish_mixing(MIXING)
    published.publish(Chunk(x[:4000], 0, 1))
    published.frame()
    head, (low, high, channels_low, channels_high) = published.strip()
    stop = int(head[1] + head[2])
    assert (head[:3], published.layout["width"]) == ([1, 0, stop], 10)
    columns = x[: 10 * stop].reshape(stop, 10, 2)
    np.testing.assert_array_equal(low, columns.min(axis=1))
    np.testing.assert_array_equal(high, columns.max(axis=1))
    made_up = (columns @ MATRIX.T + 5.0).astype(np.float32)
    np.testing.assert_allclose(channels_low, made_up.min(axis=1), rtol=1e-5)
    np.testing.assert_allclose(channels_high, made_up.max(axis=1), rtol=1e-5)
    assert [panel["unit"] for panel in published.layout["panels"]] == ["SD", "µV"]

    published.publish(Chunk(x[4000:], 4000, 1))  # what is new goes on where the last strip ended
    until(lambda: published.strip()[0][1] == stop and published.strip()[0][2] > 1, published.frame)
    seen = [published.strip()[0]]
    while seen[-1][1] + seen[-1][2] < 500:
        published.frame()
        if published.strip()[0] != seen[-1]:
            assert published.strip()[0][1] == seen[-1][1] + seen[-1][2]
            seen.append(published.strip()[0])
        time.sleep(0.01)


def test_gaps_and_models_are_marked_and_a_page_that_waits_gets_all_at_once(published: Published) -> None:
    x, live = samples(3000), published.page.live
    live.columns = 2500  # a sample a column
    published.sink.publish_mixing(MIXING)
    published.publish(
        Chunk(x[:500], 0, 1), Gap(500, 30, "lost"), Gap(530, 70, "lost"), Chunk(x[600:1000], 600, 2)
    )
    published.frame()
    marks = [(mark["kind"], mark["start"], mark["stop"], mark["text"]) for mark in json.loads(live.marks)]
    assert marks == [("gap", 500, 600, "lost"), ("model", 600, 600, "model 2")]
    head, (low, _, channels_low, _) = published.strip()
    missing = slice(500 - int(head[1]), 600 - int(head[1]))
    assert np.isnan(low[missing]).all()
    assert np.isfinite(np.delete(low, np.r_[missing], axis=0)).all()
    assert np.isnan(channels_low[missing.start :]).all()  # nobody told the mixing of model 2
    live.paused = True
    before = live.strip
    published.publish(Chunk(x[1000:1500], 1000, 2))
    published.frame()
    assert live.strip == before
    live.paused = False
    until(lambda: sum(published.strip()[0][1:3]) == 1500, published.frame)


def test_frames_wait_for_a_browser_that_falls_behind_and_then_come_in_one(published: Published) -> None:
    published.publish(Chunk(samples(10), 0))
    for k in range(1, 90):
        published.publish(Chunk(samples(10), 10 * k))
        published.page._head = Head()  # shows all there is
        published.page.frame()
    waited = published.strip()[0]
    assert 60 <= published.page._sent <= 70
    published.page.live.seen = published.page._sent
    published.page.frame()
    head = published.strip()[0]
    assert head[1] == waited[1] + waited[2]
    assert (head[1] + head[2]) * published.layout["width"] > 890


def test_the_chosen_source_is_shown_beside(published: Published) -> None:
    live, plots = published.page.live, published.page
    published.sink.publish_mixing(MIXING)
    t = np.arange(2000) / RATE
    x = np.column_stack([np.sin(2 * np.pi * 10 * t), np.sin(2 * np.pi * 30 * t)]).astype(np.float32)
    published.publish(Chunk(x, 0, 1))
    published.frame()
    for source, hertz in ((0, 10.0), (1, 30.0), (99, 30.0)):
        live.chosen = source
        assert published.status["note"] == ""
        spectrum = plots._spectrum._data.data
        assert spectrum["f"][int(np.argmax(spectrum["p"]))] == hertz
        np.testing.assert_array_equal(plots._bars._data.data["w"], MATRIX[:, min(source, 1)])
    assert plots._map.plot.visible
    named = ("Fp1", "a", "b", "c", "d")
    published.sink.publish_mixing(Mixing(version=2, channels=named, matrix=MIXING.matrix))
    published.publish(Chunk(x[:10], 2000, 2))
    until(lambda: published.status["note"].startswith("No map of the scalp"))
    assert not plots._map.plot.visible


def test_states_are_told_in_words(published: Published) -> None:
    told_at_first = (
        f"Waiting for {published.sink.address}: the stream is there, but no sample has come yet."
    )
    until(lambda: published.status["sentence"] == told_at_first, published.sink.serve)
    assert published.status["note"].startswith("No channels, bars or map")
    published.publish(Gap(0, 100, "learning"))
    until(lambda: "learning its first model" in published.status["sentence"], published.sink.serve)
    published.publish(Chunk(samples(100), 100, 1))
    until(lambda: published.status["sentence"] == "", published.sink.serve)
    wanted = {"stream": "s", "model": "1", "missing": "100", "drops": "0"}

    def told() -> dict[str, str]:
        return {figure["name"]: figure["value"] for figure in published.status["figures"]}

    until(lambda: wanted.items() <= told().items(), published.sink.serve, lambda: str(told()))
    until(lambda: published.status["sentence"].startswith("The feed is silent"), published.sink.serve)
    published.sink.close()
    until(lambda: published.status["sentence"].startswith("The stream has ended"))


def test_channels_of_a_feed_of_their_own_are_put_beside_by_their_times() -> None:
    raw_stream = Stream("raw", RATE, ("a", "b", "c"), "mV", t0=998.0)  # 500 samples earlier
    with ZmqPublisher("tcp://127.0.0.1:*") as sink, ZmqPublisher("tcp://127.0.0.1:*") as raw:
        made = Published(sink, channels=raw.address)
        made.page.live.columns = 2500
        made.publish(Chunk(samples(400), 0, 1))
        raw.start(raw_stream)
        until(lambda: raw.subscriptions, raw.serve)
        x = np.random.default_rng(1).normal(size=(900, 3)).astype(np.float32)
        raw.publish(Chunk(x, 0))
        shown = made.feed.shown
        until(lambda: shown.channels is not None and shown.channels.ring.stop == 400, raw.serve)
        made.frame()
        _, (_, _, low, _) = made.strip()
        np.testing.assert_array_equal(low[-400:], x[500:])
        assert (made.layout["panels"][1]["about"], made.layout["panels"][1]["unit"]) == (
            "as they came",
            "mV",
        )
        raw.start(Stream("raw", 500.0, ("a", "b", "c")))
        until(lambda: "they cannot be shown side by side" in shown.problem, raw.serve)
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
    found = figures_of(text, "s")
    assert (found.samples, found.delay) == ({"in": 12000}, 0.002)
    assert figures(None, found)[0].value == "in 12 000 · out 0 · gap 0 · p99 < 2 ms"
    assert figures_of("", "s").delay is None


def test_a_page_is_not_stopped_as_the_one_before_it_was(published: Published) -> None:
    asked: list[int] = []

    def is_over() -> bool:
        asked.append(0)
        return len(asked) == 3

    serve(published.feed, 0, lambda url: None, lambda: True)
    serve(published.feed, 0, lambda url: None, is_over)
    assert len(asked) == 3


def test_it_is_served_whole_to_this_machine_alone(published: Published) -> None:
    told: list[str] = []
    got: list[str] = []

    def fetch() -> None:
        with urllib.request.urlopen(told[0], timeout=20) as answer:
            got.append(answer.read().decode())

    def tell(url: str) -> None:
        told.append(url)
        threading.Thread(target=fetch, daemon=True).start()

    serve(published.feed, 0, tell, lambda: bool(got))
    assert told[0].startswith("http://127.0.0.1:")
    assert "window.igbssView" in got[0]
    assert 'id="panel-1"' in got[0]
    for word in ("src=", "href="):  # nothing is fetched from elsewhere
        for link in got[0].split(word)[1:]:
            assert link[1:].startswith(("static/", "data:", "/static/")), link[:80]
    with ZmqPublisher("tcp://127.0.0.1:*") as taken, pytest.raises(FeedError, match="choose another port"):
        serve(published.feed, int(taken.address.rpartition(":")[2]), tell, lambda: True)


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


def config(port: int, address: str) -> Config:
    stream = StreamSection(name="s", source=ZmqInput(address="1"), sinks=(ZmqOutput(address=address),))
    return Config(streams=(stream,), view=ViewSection(port=port))


def test_the_page_of_a_daemon_is_a_process_that_ends_with_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, published: Published
) -> None:
    viewer = ViewerProcess(config(0, published.sink.address), None)
    place = Path(f"/proc/{viewer.pid}/cmdline")
    until(lambda: published.sink.address in place.read_text())  # before that it is a copy of this process
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
        assert feed.figures is None
        assert sentence(feed.report, feed.shown, feed.address).startswith("Waiting for 5560")
    assert figures(None, None) == []
    assert figures(None, DaemonFigures())[0].value.endswith("p99 -")


def test_what_a_page_remembers_is_bounded_whatever_comes() -> None:
    shown = Shown()
    wide = Stream("s", 30_000.0, tuple(f"source-{n}" for n in range(512)))
    head: dict[str, Any] = {
        "version": 1,
        "stream": "s",
        "rate": wide.rate,
        "dtype": "float32",
        "channels": wide.channels,
    }
    shown.take([], MetaMessage(**head))
    assert shown.sources is not None
    assert shown.sources.ring._data.nbytes <= 1 << 26
    assert 0 < shown.seconds < 60
    for k in range(2000):  # marks of two kinds, in turn
        shown.take([Gap(k, 1, f"reason-{k % 2}")], MetaMessage(**head))
    assert len(shown.marks) == 500
    shown.take([Chunk(np.zeros((5, 512), np.float32), 0, 1)], MetaMessage(**head))  # the stream begins anew
    assert ([mark.kind for mark in shown.marks], shown.sources.ring.start) == (["model"], 0)
    shown.take([Chunk(np.zeros((5, 3), np.float32), 5, 1)], MetaMessage(**head))  # not what was described
    assert shown.sources.ring.stop == 5
    shown.take([], MetaMessage(**head | {"channels": ("a", "b")}))
    assert (shown.sources.names, len(shown.marks), shown.seconds) == (("a", "b"), 0, 60)


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
