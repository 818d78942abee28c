"""LSL markers become events at the samples that they mark: over a gap, and restarts of both outlets."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pylsl
import pytest

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output
from igbss_stream.daemon.config.sources import LslInput, LslMarkersSection
from igbss_stream.daemon.lsl_source import LslStreamSource
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events
from igbss_stream.feeds.lsl_marker_inlet import LslMarkerInlet
from igbss_stream.feeds.lsl_publisher import LslPublisher
from igbss_stream.feeds.lsl_query import LslQuery
from tests import lsl_settings
from tests.feeds.test_lsl_markers import STREAM
from tests.stream_runners import CollectingSink
from tests.waiting import DEADLINE, until

assert lsl_settings

RATE, BLOCK = 500.0, 10


def open_outlet(name: str, kind: str, n: int, rate: float, value: str) -> Any:
    return pylsl.StreamOutlet(pylsl.StreamInfo(name, kind, n, rate, value, f"{name} device"))


class Sender:
    """An amplifier whose samples show pulses, and a program that marks them."""

    def __init__(self, true_rate: float) -> None:
        self.rng = np.random.default_rng(90_301)
        self.true_rate = true_rate
        self.zero = pylsl.local_clock()
        self.index = 0  # of the next sample
        self.pulses: list[tuple[int, float, str]] = []  # sample, shift of the marker, label
        self.open_samples()
        self.open_markers()

    def open_samples(self) -> None:
        self.samples: Any = open_outlet("amplifier", "EEG", 2, RATE, "float32")

    def open_markers(self) -> None:
        self.markers: Any = open_outlet("stimuli", "Markers", 1, 0.0, "string")

    def send(self, *, marked: bool = True) -> None:
        """Send a block of samples, stamped up to 2.5 ms early or late, and in every second block a marked pulse."""
        x = self.rng.normal(0.0, 1.0, (BLOCK, 2)).astype(np.float32)
        first, self.index = self.index, self.index + BLOCK
        times = self.zero + np.arange(first, self.index) / self.true_rate
        is_marked = marked and (first // BLOCK) % 2 == 0
        at, shift = first + int(self.rng.integers(2, 8)), float(self.rng.uniform(-0.3, 0.3))
        if is_marked:
            x[at - first] += [2000.0, 1500.0]
            self.pulses.append((at, shift, f"pulse {at}"))
            if self.rng.random() < 0.5:  # before its sample
                self.send_marker()
        if self.samples is not None:
            self.samples.push_chunk(x, (times + self.rng.uniform(-0.0025, 0.0025)).tolist())
        if is_marked and self.pulses[-1][0] == at and not self._is_sent:
            self.send_marker()
        self._is_sent = False

    _is_sent = False

    def send_marker(self) -> None:
        at, shift, label = self.pulses[-1]
        self.markers.push_sample([label], self.zero + (at + shift) / self.true_rate)
        self._is_sent = True


def create_runner(markers: tuple[LslMarkersSection, ...]) -> tuple[StreamRunner, CollectingSink]:
    source = LslInput(name="amplifier", wait=DEADLINE, silence=60.0, markers=markers)
    config = StreamSection(
        name="s",
        source=source,
        model=ModelSection(structure="systematic"),
        sinks=(Hdf5Output(path=Path("unused.h5")),),
    )
    sink = CollectingSink()
    return StreamRunner(config, LslStreamSource("s", source), [sink], ThreadPoolExecutor(1)), sink


def find_errors(sender: Sender, sink: CollectingSink) -> tuple[list[float], int]:
    """Return the distance of each event from its pulse in the published samples, and the number without."""
    chunks = [item for item in sink.items if isinstance(item, Chunk)]
    index = np.concatenate([np.arange(chunk.start, chunk.stop) for chunk in chunks])
    size = np.linalg.norm(np.concatenate([chunk.data for chunk in chunks]), axis=1)
    shown = np.sort(index[size > 0.3 * size.max()])
    found = {event.label: event.index for event in sink.events}
    errors, n_unseen = [], 0
    for at, shift, label in sender.pulses:
        nearest = shown[np.argmin(np.abs(shown - found[label]))]
        if any(isinstance(item, Gap) and item.start <= found[label] < item.stop for item in sink.items):
            n_unseen += 1
        else:
            errors.append(abs(found[label] - shift - float(nearest)))
        assert at >= 0
    return errors, n_unseen


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_markers_lie_on_their_pulses_over_a_gap_and_restarts() -> None:
    """1000 markers; the amplifier is away for 3 s and restarts, then the sender of the markers restarts."""
    sender = Sender(500.1)
    runner, sink = create_runner((LslMarkersSection(name="stimuli"),))

    def step(n: int = 1, **keys: bool) -> None:
        for _ in range(n):
            sender.send(**keys)
            time.sleep(0.002)
            runner.step(0.001)

    until(lambda: sender.markers.have_consumers(), lambda: step(marked=False))
    step(600)
    sender.samples = None  # the amplifier vanishes, and markers go on
    step(150)
    sender.open_samples()
    until(lambda: sender.samples.have_consumers(), lambda: runner.step(0.05))
    step(500)
    sender.markers = None  # the last markers were sent just now
    step(100, marked=False)
    sender.open_markers()
    until(lambda: sender.markers.have_consumers(), lambda: step(marked=False))
    step(750)
    until(
        lambda: len(sink.events) >= len(sender.pulses),
        lambda: step(marked=False),
        lambda: f"{len(sink.events)} of {len(sender.pulses)} events",
    )
    runner.finish()
    assert len(sender.pulses) == 1000
    assert sorted(event.label for event in sink.events) == sorted(label for *_, label in sender.pulses)
    assert {event.source for event in sink.events} == {"stimuli"}
    errors, n_unseen = find_errors(sender, sink)
    print(
        f"99th percentile {np.quantile(errors, 0.99):.2f} samples, largest {max(errors):.2f}, {n_unseen} in the gap"
    )
    assert np.quantile(errors, 0.99) < 1.0
    assert 50 <= n_unseen <= 100
    counts = collect_counts(runner)
    assert (counts["markers"], counts["events_out"], counts["events_lost"]) == (1000, 1000, 0)


def test_numbers_are_labels_and_zero_is_none() -> None:
    outlets = [
        open_outlet("codes", "Codes", 1, 0.0, "int32"),
        open_outlet("pairs", "Codes", 2, 0.0, "float32"),
        open_outlet("regular", "Codes", 1, 10.0, "int32"),
    ]
    inlet = LslMarkerInlet([LslQuery(type="Codes"), LslQuery(name="codes")])
    until(lambda: all(outlet.have_consumers() for outlet in outlets[:2]), inlet.receive)
    now = pylsl.local_clock()
    for value in (1, 0, 255):
        outlets[0].push_sample([value], now)
    outlets[1].push_sample([2.5, 3.0], now)
    got: list[tuple[str, str]] = []

    def receive() -> None:
        inlet.receive()
        events = inlet.pop(lambda at: 250.0 * (at - now) + 7)
        got.extend((event.source, event.label) for event in events)
        assert np.allclose(events.index, 7.0, atol=0.5)

    until(lambda: len(got) == 3, receive)
    assert sorted(got) == [("codes", "1"), ("codes", "255"), ("pairs", "2.5, 3")]
    assert sorted(inlet.names) == ["codes", "pairs"]
    assert not outlets[2].have_consumers()
    inlet.close()


def test_markers_of_this_package_are_found_by_name_only() -> None:
    """By their type, a daemon would receive its own markers, and publish them again."""
    with LslPublisher() as sink:
        sink.start(STREAM)
        by_name = LslMarkerInlet([LslQuery(name="marked-events")])
        until(lambda: by_name.names, by_name.receive)
        other = open_outlet("another", "Markers", 1, 0.0, "string")
        by_type = LslMarkerInlet([LslQuery(type="Markers")])
        until(lambda: "another" in by_type.names and other.have_consumers(), by_type.receive)
        assert "marked-events" not in by_type.names
        for inlet in (by_type, by_name):
            inlet.close()


def test_markers_wait_for_samples_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("igbss_stream.feeds.lsl_marker_inlet._MOST_WAITING", 3)
    inlet = LslMarkerInlet([])
    inlet._keep([(float(n), str(n)) for n in range(5)], "a")
    assert len(inlet.pop(lambda at: None)) == 0
    assert list(inlet.pop(lambda at: at - 3.0)) == list(Events([0.0, 1.0], ["3", "4"], None, "a"))
    assert (inlet.received, inlet.n_lost) == (5, 3)  # two did not fit, one was before the first sample


def test_the_section_needs_a_property() -> None:
    with pytest.raises(ParameterError, match="name must be set, or type, or source_id"):
        LslMarkersSection()
