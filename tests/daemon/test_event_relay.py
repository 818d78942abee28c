"""Events pass through a stream of the daemon, and mark the samples that show what they marked before."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon import event_relay
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.daemon.config.prepare_section import PrepareSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.event_relay import EventRelay
from igbss_stream.daemon.sources import SilenceMonitor
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.events import Event, Events
from igbss_stream.preparation.online import OnlinePreparation
from igbss_stream.preparation.settings import Preparation
from tests.stream_runners import CollectingSink
from tests.waiting import until

RATE = 500.0
STREAM = Stream("s", RATE, ("a", "b"), "uV")
Step = tuple[Sequence[Chunk | Gap], Events]


class ScriptedSource:
    """A source that returns given items and events, step by step; another stream begins another run."""

    def __init__(self, *steps: Step, stream: Stream = STREAM) -> None:
        self.stream: Stream | None = stream
        self.run, self.ended, self.has_pending = 0, False, False
        self.silence = SilenceMonitor("s", 60.0)
        self.steps, self._events = list(steps), Events()

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        items, self._events = self.steps.pop(0)
        return list(items)

    def pop_events(self) -> Events:
        events, self._events = self._events, Events()
        return events

    def get_counts(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


class OrderedSink(CollectingSink):
    """A sink that notes, for each event, the index after the last item before it."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: list[int] = []

    def publish_events(self, events: Events) -> None:
        super().publish_events(events)
        self.stops += [self.items[-1].stop] * len(events)


def run(
    source: ScriptedSource,
    prepare: PrepareSection | None = None,
    triggers: tuple[str, ...] | None = None,
    omit: tuple[str, ...] | None = None,
) -> tuple[StreamRunner, OrderedSink]:
    config = StreamSection(
        name="s",
        source=ZmqInput(address="tcp://127.0.0.1:5555", events=triggers, omit=omit),  # `source` is used
        model=ModelSection(structure="systematic"),
        prepare=prepare or PrepareSection(),
        sinks=(Hdf5Output(path=Path("unused.h5")),),
    )
    sink = OrderedSink()
    return StreamRunner(config, source, [sink], ThreadPoolExecutor(1)), sink


def noise(start: int, n: int) -> Chunk:
    data = np.random.default_rng(start).normal(size=(n, 2))
    return Chunk(data.astype(np.float32), start)


PREPARATIONS = {
    "none": {},
    "reference": {"reference": "average"},
    "low-pass": {"lowpass": 40.0},
    "band-pass and notch": {"highpass": 1.0, "lowpass": 30.0, "notch": (50.0,)},
    "narrow band": {"highpass": 8.0, "lowpass": 12.0},
    "slow low-pass": {"lowpass": 0.5},
    "half the rate": {"resample": 250.0},
    "another rate": {"resample": 128.0, "lowpass": 40.0},
    "a higher rate": {"resample": 600.0},
}


@pytest.mark.parametrize("keys", PREPARATIONS.values(), ids=PREPARATIONS)
def test_an_event_marks_the_sample_that_shows_the_pulse(keys: dict[str, Any]) -> None:
    """To half a sample of the coarser grid; the pulses differ in their place on the new grid."""
    online = OnlinePreparation(replace(STREAM, dtype=np.dtype("f8")), Preparation(**keys))
    ratio = online.output_stream.rate / RATE
    for at in (6000, 6001, 6003):
        online = OnlinePreparation(replace(STREAM, dtype=np.dtype("f8")), Preparation(**keys))
        x = np.zeros((16_000, 2))
        x[at, 0] = 1.0
        items = [*online.push(Chunk(x, 0)), *online.flush()]
        y = np.concatenate([item.data for item in items if isinstance(item, Chunk)])
        shown = int(np.argmax(np.abs(y[:, 0])))
        (event,) = online.move_events(Events([at], ["pulse"]))
        assert abs(event.index - shown) <= 0.5 * max(1.0, ratio) + 1e-6
        assert online.find_source_index(event.index) == pytest.approx(at, abs=1e-5)


def test_published_samples_show_the_pulses_that_events_mark() -> None:
    """Through repair, filters, resampling and separation, and over a gap; events follow their samples."""
    rng = np.random.default_rng(90_101)
    n, lost = 20_000, Gap(9_000, 400, "lost")
    x = rng.normal(0.0, 1.0, (n, 2))
    pulses = np.arange(500, n - 500, 437) + rng.integers(0, 100, len(np.arange(500, n - 500, 437)))
    x[pulses] += [4000.0, 3000.0]
    inside = np.abs(pulses - 9_200) < 200
    steps: list[Step] = []
    for start in range(0, n, 100):
        here = pulses[(pulses >= start) & (pulses < start + 100)]
        events = Events(here, [str(at) for at in here], None, "stim")
        if start == lost.start:
            steps.append(([lost], events))
        elif start < lost.start or start >= lost.stop:
            steps.append(([Chunk(x[start : start + 100].astype(np.float32), start)], events))
        else:
            steps.append(([], events))
    source = ScriptedSource(*steps)
    runner, sink = run(source, PrepareSection(highpass=1.0, lowpass=40.0, resample=250.0))
    while source.steps:
        runner.step(0.0)
    runner.finish()
    assert [event.label for event in sink.events] == [str(at) for at in pulses]
    rows = {item.start: item.data for item in sink.items if isinstance(item, Chunk)}
    index = np.concatenate([np.arange(start, start + len(data)) for start, data in rows.items()])
    size = np.linalg.norm(np.concatenate(list(rows.values())), axis=1)
    for event, is_lost in zip(sink.events, inside, strict=True):
        near = np.abs(index - event.index) < 15
        shown = index[near][np.argmax(size[near])] if near.any() else None
        assert is_lost or (shown is not None and abs(shown - event.index) <= 0.5)
    assert all(stop > event.index - 0.5 for stop, event in zip(sink.stops, sink.events, strict=True))
    counts = collect_counts(runner)
    assert [counts[f"events_{name}"] for name in ("in", "out", "dropped")] == [len(pulses), len(pulses), 0]


def test_events_are_kept_while_a_stage_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    source = ScriptedSource(
        ([noise(0, 100)], Events([50], ["before"])),
        ([noise(100, 100)], Events([150], ["as it fails"])),
        ([noise(200, 100)], Events([250], ["in the pause"])),
        ([noise(300, 100)], Events([350, 420], ["after", "early"])),
        ([noise(400, 100)], Events([310], ["late"])),
    )
    runner, sink = run(source)
    runner.step(0.0)
    assert runner.pipeline is not None
    monkeypatch.setattr(runner.pipeline, "push", lambda item: 1 / 0)
    runner.step(0.0)
    assert runner.status == "failed"
    runner.step(0.0)
    assert [event.label for event in sink.events] == ["before"]
    until(lambda: runner._pause.is_over)
    runner.step(0.0)
    runner.step(0.0)
    assert [(event.label, stop) for event, stop in zip(sink.events, sink.stops, strict=True)] == [
        ("before", 100),
        ("as it fails", 300),  # after the gap "failed"
        ("in the pause", 300),
        ("after", 400),
        ("late", 400),
        ("early", 500),
    ]
    runner.finish()


def test_events_of_a_run_are_published_before_the_next_run_begins() -> None:
    source = ScriptedSource(
        ([noise(0, 100)], Events([50, 100.2], ["a", "after the last sample"])),
        ([], Events([7], ["b"])),
        ([noise(0, 100)], Events()),
    )
    runner, sink = run(source)
    runner.step(0.0)
    source.run, source.stream = 1, replace(STREAM, rate=250.0)
    runner.step(0.0)
    assert list(sink.events) == [Event(50, "a"), Event(100.2, "after the last sample")]
    runner.step(0.0)
    assert sink.events[2:] == [Event(7, "b")]
    runner.finish()


def triggered(start: int, codes: list[int]) -> Chunk:
    """Return samples of two channels with a trigger channel between them."""
    data = np.random.default_rng(start).normal(size=(len(codes), 3))
    data[:, 1] = codes
    return Chunk(data.astype(np.float32), start)


def test_onsets_in_a_trigger_channel_are_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over messages, a gap, and a stage that fails; the channel is not separated."""
    source = ScriptedSource(
        ([triggered(0, [5, 5, 0, 0, 1]), triggered(5, [1, 1, 2, 0, 0])], Events([1], ["of the feed"])),
        ([Gap(10, 10, "lost"), triggered(20, [7, 7, 0, 0, 0])], Events()),
        ([triggered(25, [0, 3, 0, 0, 0])], Events()),  # which fails
        ([triggered(30, [0, 0, 4, 0, 0])], Events()),  # in the pause
        ([triggered(35, [0, 0, 0, 0, 255])], Events()),
        stream=replace(STREAM, channels=("a", "trigger", "b")),
    )
    runner, sink = run(source, triggers=("trigger",))
    runner.step(0.0)
    runner.step(0.0)
    assert runner.pipeline is not None
    with monkeypatch.context() as patch:
        patch.setattr(runner.pipeline, "push", lambda item: 1 / 0)
        runner.step(0.0)
    runner.step(0.0)
    until(lambda: runner._pause.is_over)
    runner.step(0.0)
    runner.finish()
    assert [(event.index, event.label) for event in sink.events] == [
        (1, "of the feed"),
        (4, "1"),
        (7, "2"),
        (20, "7"),
        (26, "3"),
        (32, "4"),
        (39, "255"),
    ]
    assert {event.source for event in sink.events[1:]} == {"trigger"}
    assert {item.data.shape[1] for item in sink.items if isinstance(item, Chunk)} == {2}
    assert runner.samples_in == 30


def test_omitted_channels_are_not_separated_and_have_no_events() -> None:
    source = ScriptedSource(
        ([triggered(0, [0, 1, 2, 3, 4])], Events()), stream=replace(STREAM, channels=("a", "packet", "b"))
    )
    runner, sink = run(source, omit=("packet",))
    runner.step(0.0)
    runner.finish()
    assert sink.events == []
    assert {item.data.shape[1] for item in sink.items if isinstance(item, Chunk)} == {2}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("STI",), "source.events names the channel 'STI', which the stream lacks. Name one of: a, b."),
        (("a", "b"), "source.events names every channel of the stream; leave out some."),
    ],
)
def test_a_stream_without_its_trigger_channels_is_refused(
    names: tuple[str, ...], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = ScriptedSource(([noise(0, 10)], Events()), ([noise(10, 10)], Events()))
    runner, sink = run(source, triggers=names)
    for _ in range(2):
        runner.step(0.0)
    assert runner.status == "refused"
    assert [record.getMessage() for record in caplog.records] == [f"stream s: the feed is refused: {text}"]
    assert sink.items == []


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> tuple[EventRelay, list[Event]]:
    """Return a relay that holds four events, and what it published."""
    monkeypatch.setattr(event_relay, "_MOST", 4)
    got: list[Event] = []
    return EventRelay(got.extend), got


def test_events_that_wait_are_bounded(relay: tuple[EventRelay, list[Event]]) -> None:
    """The ones furthest ahead are dropped and counted."""
    one, got = relay
    one.prepare(OnlinePreparation(STREAM, Preparation()))
    one.push(Events([1e9, 3.0, 2.0, 1.0, 1e8], list("edcba")))
    one.release(2)
    assert [event.label for event in got] == ["b"]
    one.end_run()
    assert [event.index for event in got] == [1.0, 2.0, 3.0, 1e8]
    assert (one.n_in, one.n_out, one.n_dropped) == (5, 4, 1)


def test_events_of_a_refused_stream_are_dropped(relay: tuple[EventRelay, list[Event]]) -> None:
    one, got = relay
    one.push(Events([1.0], ["a"]))
    one.release(10)
    one.end_run()
    assert got == []
    assert (one.n_in, one.n_out, one.n_dropped) == (1, 0, 1)
