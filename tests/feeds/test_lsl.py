"""LSL streams on this machine: published samples arrive, and missing ones are declared."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pylsl
import pytest

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.feeds.lsl_inlet import LslInlet
from igbss_stream.feeds.lsl_publisher import LslPublisher
from tests import lsl_settings
from tests.waiting import DEADLINE, until

assert lsl_settings

STREAM = Stream("eeg", 250.0, ("Fz", "Öz", "Cz"), "uV", np.dtype("f4"), None, 2)


def chunk(start: int, n_samples: int, dtype: str = "f4") -> Chunk:
    """Return samples that hold their own index."""
    data = np.arange(start, start + n_samples)[:, None] + np.array([0.0, 0.25, 0.5])
    return Chunk(data.astype(dtype), start, model_version=1)


def receive(source: LslInlet, stop: int) -> list[Chunk | Gap]:
    """Return the items received until an index is reached."""
    items: list[Chunk | Gap] = []
    until(lambda: items and items[-1].stop >= stop, lambda: items.extend(source.receive(0.05)))
    assert items[-1].stop == stop
    return items


def samples(items: list[Chunk | Gap]) -> np.ndarray[Any, Any]:
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)])


def gaps(items: list[Chunk | Gap]) -> list[Gap]:
    return [item for item in items if isinstance(item, Gap)]


@pytest.fixture
def sink() -> Iterator[LslPublisher]:
    with LslPublisher() as sink:
        sink.start(STREAM, {"note": [1, "ä"]})
        yield sink


def outlet(name: str, rate: float = 100.0, kind: str = "float32", source_id: str = "device") -> Any:
    return pylsl.StreamOutlet(pylsl.StreamInfo(name, "EEG", 2, rate, kind, source_id))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_published_samples_arrive(dtype: str) -> None:
    stream = Stream("eeg", 250.0, STREAM.channels, "uV", np.dtype(dtype), 1.7e9, 2)
    with LslPublisher() as sink:
        sink.start(stream)
        assert not sink.has_receivers
        with LslInlet("eeg", timeout=DEADLINE) as source:
            until(lambda: sink.has_receivers)
            sent = [chunk(start, n, dtype) for start, n in ((40, 1), (41, 50), (91, 200), (291, 3))]
            for item in [*sent, Chunk(np.zeros((0, 3), dtype), 294)]:
                sink.publish(item)
            items = receive(source, 254)
            assert gaps(items) == []
            np.testing.assert_array_equal(samples(items), np.concatenate([item.data for item in sent]))
            assert samples(items).dtype == dtype
            found = source.stream
            assert (found.name, found.rate, found.channels, found.unit) == (
                "eeg",
                250.0,
                STREAM.channels,
                "uV",
            )
            assert found.t0 == pytest.approx(1.7e9 + 40 / 250, abs=0.01)
    assert sink.sent == 4


def test_a_stream_without_t0_is_one_of_now(sink: LslPublisher) -> None:
    with LslInlet(source_id="igbss_stream eeg", timeout=DEADLINE) as source:
        sink.publish(chunk(1000, 10))
        receive(source, 10)
        assert source.stream.t0 == pytest.approx(time.time(), abs=DEADLINE)


def test_a_gap_is_a_gap_on_the_other_side(sink: LslPublisher) -> None:
    with LslInlet("eeg", timeout=DEADLINE, tolerance=0.0, settle=0.2) as source:
        items: list[Chunk | Gap] = [
            chunk(0, 100),
            Gap(100, 60, "lost"),
            chunk(160, 100),
            Gap(260, 1, "lost"),
        ]
        for item in [*items, chunk(261, 100)]:
            sink.publish(item)
        sink.serve()
        received = receive(source, 361)
        assert gaps(received) == [Gap(100, 60, "lost"), Gap(260, 1, "lost")]
        for item in received:
            if isinstance(item, Chunk):
                np.testing.assert_array_equal(item.data[:, 0], np.arange(item.start, item.stop))
        assert (source.indexer.samples_in, source.indexer.samples_lost) == (300, 61)


def test_description_of_an_outlet(sink: LslPublisher) -> None:
    (info,) = pylsl.resolve_bypred("name='eeg'", 1, DEADLINE)
    info = pylsl.StreamInlet(info).info(DEADLINE)
    assert (info.type(), info.source_id(), info.channel_format()) == (
        "EEG",
        "igbss_stream eeg",
        pylsl.cf_float32,
    )
    assert info.get_channel_labels() == list(STREAM.channels)
    assert info.get_channel_units() == ["microvolts"] * 3
    about = info.desc().child("igbss_stream")
    assert about.child_value("software").startswith("igbss_stream ")
    assert about.child_value("delay") == "2"
    assert json.loads(about.child_value("extra")) == {"note": [1, "ä"]}


@pytest.mark.parametrize(("kind", "dtype"), [("int16", "f4"), ("int32", "f8"), ("double64", "f8")])
def test_other_senders(kind: str, dtype: str) -> None:
    """Simple senders give no labels and no unit, and send integers."""
    sender = outlet("plain", kind=kind)
    with LslInlet("plain", type="EEG", timeout=DEADLINE) as source:
        assert source.stream.channels == ("channel-0", "channel-1")
        assert (source.stream.unit, source.stream.dtype) == (None, np.dtype(dtype))
        sender.push_chunk(np.array([[1, 2], [3, -4]]))
        np.testing.assert_array_equal(samples(receive(source, 2)), [[1, 2], [3, -4]])
        assert source.receive(0.0) == []


def test_labels_under_name() -> None:
    """Some senders write labels as names; XDF files of their streams have the same names."""
    info = pylsl.StreamInfo("named", "EEG", 3, 100, "float32", "named")
    channels = info.desc().append_child("channels")
    for key, text in (("name", "Fz"), ("label", "Cz"), ("unit", "uV")):
        channels.append_child("channel").append_child_value(key, text)
    sender = pylsl.StreamOutlet(info)
    with LslInlet("named", timeout=DEADLINE) as source:
        assert source.stream.channels == ("Fz", "Cz", "channel-2")
    del sender


# It sends every sample, at the latest after a delay: a loaded machine must not make it skip some, which are a loss.
SENDER = """
import sys, time
import numpy as np
import pylsl
rate = float(sys.argv[1])
outlet = pylsl.StreamOutlet(pylsl.StreamInfo("far", "EEG", 2, rate, "float32", "device"))
n = round(pylsl.local_clock() * rate)
while True:
    n += 5
    time.sleep(max(0.0, n / rate - pylsl.local_clock()))
    outlet.push_chunk(np.full((5, 2), n % 10000 + np.arange(-4, 1)[:, None]), n / rate)
"""


def sender(rate: float = 100.0) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SENDER, str(rate)])


def test_an_outlet_that_vanishes_and_returns() -> None:
    first = sender()
    with LslInlet("far", timeout=DEADLINE) as source:
        items: list[Chunk | Gap] = []

        def take() -> None:
            items.extend(source.receive(0.05))

        until(lambda: source.indexer.samples_out > 50, take)
        first.kill()
        first.wait()
        until(lambda: not source.connected, take)
        assert source.receive(0.0) == []
        wrong = sender(50.0)
        until(lambda: source.rejected["description"] > 0, take)
        wrong.kill()
        wrong.wait()
        n_before = source.indexer.samples_out
        second = sender()
        until(lambda: source.indexer.samples_out > n_before + 50, take)
        second.kill()
        second.wait()
    items += source.flush()
    (gap,) = gaps(items)
    assert gap.reason == "disconnected"
    assert gap.n_samples > 20
    before, after = (
        np.concatenate(
            [i.data[:, 0] for i in items if isinstance(i, Chunk) and (i.start < gap.start) == early]
        )
        for early in (True, False)
    )
    assert round(after[0] - before[-1]) % 10000 == pytest.approx(gap.n_samples + 1, abs=1)


def test_a_silent_outlet_is_opened_again() -> None:
    quiet = outlet("quiet")
    with LslInlet("quiet", timeout=3.0) as source:
        quiet.push_chunk(np.zeros((5, 2), "f4"), 100.0)
        items = receive(source, 5)
        until(lambda: not source.connected, lambda: source.receive(0.05))
        until(lambda: source.connected, lambda: source.receive(0.05))
        until(lambda: quiet.have_consumers())
        quiet.push_chunk(np.ones((5, 2), "f4"), 103.0)
        items += receive(source, 305)
    assert gaps(items) == [Gap(5, 295, "disconnected")]


@pytest.mark.parametrize("stated", [0.0, 256.0])
def test_a_rate_replaces_the_stated_one(stated: float) -> None:
    sender = outlet("unsure", stated)
    with LslInlet("unsure", timeout=DEADLINE, rate=200.0) as source:
        assert (source.stream.rate, source.stated_rate) == (200.0, stated)
        index = np.setdiff1d(np.arange(2000), np.arange(800, 900))
        for block in np.split(index, 19):
            sender.push_chunk(
                np.repeat(block[:, None], 2, 1).astype("f4"), (100.0 + block / 200.0).tolist()
            )
        items = receive(source, 2000)
        assert gaps(items) == [Gap(800, 100, "lost")]
        assert source.indexer.measured_rate is None


def test_a_rate_is_kept_when_an_outlet_that_states_none_is_opened_again() -> None:
    quiet = outlet("vague", 0.0)
    with LslInlet("vague", timeout=3.0, rate=100.0) as source:
        quiet.push_chunk(np.zeros((5, 2), "f4"), (100.0 + np.arange(5) / 100.0).tolist())
        items = receive(source, 5)
        until(lambda: not source.connected, lambda: source.receive(0.05))
        until(lambda: source.connected, lambda: source.receive(0.05))
        until(lambda: quiet.have_consumers())
        quiet.push_chunk(np.ones((5, 2), "f4"), (103.0 + np.arange(5) / 100.0).tolist())
        items += receive(source, 305)
        assert source.stream.rate == 100.0
    assert gaps(items) == [Gap(5, 295, "disconnected")]


def test_times_that_contradict_the_stated_rate() -> None:
    sender = outlet("wrong", 256.0)
    with LslInlet("wrong", timeout=DEADLINE) as source:
        for block in np.split(np.arange(4000), 200):  # LSL spaces the samples of a block by the stated rate
            sender.push_chunk(np.repeat(block[:, None], 2, 1).astype("f4"), 100.0 + block[-1] / 200.0)
        items = receive(source, 4000)
        assert gaps(items) == []
        np.testing.assert_array_equal(samples(items)[:, 0], np.arange(4000))
        assert source.indexer.measured_rate == pytest.approx(200.0, rel=1e-3)


# Streams that are rejected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a name, a type or a source_id"),
        ({"name": 'it\'s "it"'}, "both kinds of quotes"),
        ({"name": "x", "tolerance": -1.0}, "tolerance must be 0 s or more"),
        ({"name": "x", "rate": 0.0}, r"rate must be a finite number of Hz above 0. Got 0.0"),
    ],
)
def test_impossible_options(options: Any, message: str) -> None:
    kept = outlet("x")
    with pytest.raises(ParameterError, match=message):
        LslInlet(**options)
    assert kept.channel_count == 2


def test_no_such_stream() -> None:
    with pytest.raises(
        FeedError, match=r"no LSL stream with name \"it's\", type 'EEG' was found within 0.2 s"
    ):
        LslInlet("it's", "EEG", timeout=0.2)


def test_more_than_one_stream() -> None:
    both = [outlet("twice", source_id=name) for name in ("a", "b")]
    with pytest.raises(FeedError, match=r"2 LSL streams have name 'twice': .*; give a source_id as well"):
        LslInlet("twice", timeout=DEADLINE)
    with LslInlet("twice", source_id="b", timeout=DEADLINE) as source:
        assert source.connected
    assert not source.connected
    assert len(both) == 2


@pytest.mark.parametrize(
    ("rate", "kind", "message"),
    [
        (0.0, "float32", r"'odd' states no regular sampling rate \(nominal rate 0\).* set its rate"),
        (100.0, "string", "'odd' has text"),
    ],
)
def test_streams_that_cannot_be_separated(rate: float, kind: str, message: str) -> None:
    kept = outlet("odd", rate, kind)
    with pytest.raises(FeedError, match=message):
        LslInlet("odd", timeout=DEADLINE)
    assert kept.channel_count == 2


def test_publishing_before_a_start() -> None:
    with pytest.raises(RuntimeError, match="start a stream"):
        LslPublisher().publish(chunk(0, 1))
    assert not LslPublisher().has_receivers


def test_without_the_library() -> None:
    code = "import sys; sys.modules['pylsl'] = None; import igbss_stream.feeds.lsl_inlet"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        "FeedError: LSL needs pylsl and liblsl; install them with pip install 'igbss-stream[lsl]'"
        in run.stderr
    )
