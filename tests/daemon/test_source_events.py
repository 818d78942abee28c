"""Sources of the daemon return the events of their stream, in indices of its samples."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.daemon.config.sources import FileInput, ZmqInput
from igbss_stream.daemon.file_source import FileSource
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.events import Event, Events
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.files.event_table import make_event_table
from tests.recordings import write_recording
from tests.waiting import until

STREAM = Stream("s", 1000.0, ("a", "b"), "uV")
WIDE = replace(STREAM, channels=("a", "b", "c"))


class Received:
    """A source with one sender, and what it returned."""

    def __init__(self, ends: ExitStack, **keys: Any) -> None:
        config = ZmqInput(address="tcp://127.0.0.1:*", socket="pull", bind=True, **keys)
        self.source = SocketSource("s", config)
        ends.callback(self.source.close)
        self._sender = ends.enter_context(ends.enter_context(zmq.Context()).socket(zmq.PUSH))
        self._sender.set(zmq.LINGER, 0)
        self._sender.connect(self.source.address)
        self._n_sent = 0
        self.events: list[tuple[int, Event]] = []  # with the run of the source
        self.stops: list[int] = []

    def send(self, *messages: Any) -> None:
        """Send messages, and receive until all have arrived."""
        for frames in messages:
            self._sender.send_multipart(frames)
        self._n_sent += len(messages)
        until(self._has_all, self._receive)

    def _has_all(self) -> bool:
        return self.source.receiver.received == self._n_sent and not self.source.has_pending

    def _receive(self) -> None:
        items = self.source.receive(0.05)
        self.stops += [item.stop for item in items]
        self.events += [(self.source.run, event) for event in self.source.pop_events()]


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def samples(stream: Stream, start: int, n: int = 10) -> Chunk:
    return Chunk(np.ones((n, stream.n_channels), np.float32), start)


def test_events_of_a_feed_have_the_indices_of_its_samples_over_a_restart(ends: ExitStack) -> None:
    received = Received(ends)
    first, second = Encoder(STREAM, 1), Encoder(STREAM, 2)
    received.send(*first.encode_events(Events([101.0], ["before the first sample"])))
    received.send(
        first.encode(samples(STREAM, 100)), *first.encode_events(Events([102.5, 104.0], ["a", "b"]))
    )
    received.send(first.encode(samples(STREAM, 110)), *first.encode_events(Events([103.0], ["late"])))
    received.send(second.encode(samples(STREAM, 0)), second.encode(samples(STREAM, 10)))
    received.send(*second.encode_events(Events([4.0], ["c"], [0.5], "stim")))
    other = Encoder(replace(STREAM, name="another"), 3)
    received.send(*other.encode_events(Events([1.0], ["of another stream"])))
    assert [event for _, event in received.events] == [
        Event(102.5, "a"),
        Event(104.0, "b"),
        Event(103.0, "late"),
        Event(124.0, "c", 0.5, "stim"),
    ]
    assert received.source.get_counts()["events_lost"] == 0


def test_events_between_two_descriptions_belong_to_their_run(ends: ExitStack) -> None:
    """Those that follow the first message with other channels, which does not yet end the run."""
    received = Received(ends)
    narrow, wide = Encoder(STREAM, 1), Encoder(WIDE, 2)
    received.send(narrow.encode(samples(STREAM, 0)), *narrow.encode_events(Events([3.0], ["a"])))
    received.send(
        wide.encode(samples(WIDE, 0)),
        *wide.encode_events(Events([5.0], ["b"])),
        wide.encode(samples(WIDE, 10)),
        *wide.encode_events(Events([11.0], ["c"])),
    )
    assert received.events == [(0, Event(3.0, "a")), (1, Event(5.0, "b")), (1, Event(11.0, "c"))]


def test_events_lost_on_the_way_are_counted(ends: ExitStack) -> None:
    received = Received(ends)
    encoder = Encoder(STREAM, 1)
    received.send(encoder.encode(samples(STREAM, 0)), *encoder.encode_events(Events([3.0], ["a"])))
    encoder.encode_events(Events([4.0, 5.0], ["never", "sent"]))
    received.send(*encoder.encode_events(Events([6.0], ["b"])))
    assert [event.label for _, event in received.events] == ["a", "b"]
    assert received.source.get_counts()["events_lost"] == 2


def test_events_of_a_file_follow_its_blocks_in_each_pass(tmp_path: Path) -> None:
    path = write_recording(tmp_path / "in.h5", np.ones((100, 2)), rate=1000.0)
    with h5py.File(path, "a") as file:
        file["events"] = make_event_table(Events([3.25, 49.6], ["a", "b"], None, "stim"), [], 1000.0)
    source = FileSource("s", FileInput(path=path, speed=0, block=0.05, loop=True))
    stop, got = 0, []
    while stop < 200:
        stop = source.receive(0.1)[-1].stop
        got.append((stop, [(event.index, event.label) for event in source.pop_events()]))
    source.close()
    assert got == [
        (50, [(3.25, "a")]),  # the sample nearest to the second is in the next block
        (100, [(49.6, "b")]),
        (100, []),
        (150, [(103.25, "a")]),
        (200, [(149.6, "b")]),
    ]


@pytest.mark.parametrize(("speed", "t0"), [(0.0, 862_148_165.25), (4.0, None)])
def test_a_file_that_is_played_as_fast_as_possible_keeps_its_date(
    tmp_path: Path, speed: float, t0: float | None
) -> None:
    path = write_recording(tmp_path / "in.h5", np.ones((100, 2)), rate=1000.0)
    with h5py.File(path, "a") as file:
        file["data"].attrs["t0"] = 862_148_165.25
    source = FileSource("s", FileInput(path=path, speed=speed))
    assert source.stream is not None
    assert source.stream.t0 == t0
    source.close()
