"""Senders that change what they send, and other senders on the same socket: against one stream of a daemon."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.daemon.stream_counts import collect_counts
from igbss_stream.feeds.encoder import Encoder
from tests.stream_runners import CollectingSink, create_runner
from tests.waiting import until

NARROW = Stream("s", 1000.0, ("a", "b", "c"), "uV")
WIDE = Stream("s", 500.0, ("a", "b", "c", "d", "e"), "mV", np.dtype(np.float64))
Frames = list[Any]


class RecordingSink(CollectingSink):
    """A sink that also notes each description, before the items that it describes."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[tuple[Stream, list[Chunk | Gap]]] = []
        self.publish = self._append

    def start(self, stream: Stream) -> None:
        self.runs.append((stream, []))

    def _append(self, item: Chunk | Gap) -> None:
        self.runs[-1][1].append(item)


class Fed:
    """A stream of a daemon, and one sender to it."""

    def __init__(self, ends: ExitStack, **keys: Any) -> None:
        config = ZmqInput(address="tcp://127.0.0.1:*", socket="pull", bind=True, **keys)
        self.source = SocketSource("s", config)
        ends.callback(self.source.close)
        self.sink = RecordingSink()
        self.runner = create_runner(self.source, config, self.sink)
        context = ends.enter_context(zmq.Context())
        self._sender = ends.enter_context(context.socket(zmq.PUSH))
        self._sender.set(zmq.LINGER, 0)
        self._sender.connect(self.source.address)
        self._sent = 0

    def send(self, *messages: Frames) -> None:
        """Send messages, and wait until all are processed."""
        for frames in messages:
            self._sender.send_multipart(frames)
        self._sent += len(messages)
        until(lambda: self.count("messages") == self._sent, lambda: self.runner.step(0.05))

    def count(self, name: str) -> int:
        return collect_counts(self.runner).get(name, 0)

    def list_spans(self, run: int) -> list[tuple[str, int, int]]:
        """Return the spans of items of a run; consecutive chunks are one span."""
        spans: list[tuple[str, int, int]] = []
        for item in self.sink.runs[run][1]:
            kind = item.reason if isinstance(item, Gap) else "samples"
            if spans and spans[-1][0] == kind and spans[-1][2] == item.start:
                spans[-1] = kind, spans[-1][1], item.stop
            else:
                spans.append((kind, item.start, item.stop))
        return spans


@pytest.fixture
def fed() -> Iterator[Callable[..., Fed]]:
    with ExitStack() as ends:
        yield lambda **keys: Fed(ends, **keys)


def encode(encoder: Encoder, start: int, stop: int, length: int = 100) -> list[Frames]:
    rng = np.random.default_rng(start)
    stream = encoder.stream
    return [
        encoder.encode(Chunk(rng.normal(size=(length, stream.n_channels)).astype(stream.dtype), at))
        for at in range(start, stop, length)
    ]


def test_a_device_that_restarts_with_another_montage_is_taken_up_anew(fed: Callable[..., Fed]) -> None:
    one, narrow, wide = fed(), Encoder(NARROW, 1), Encoder(WIDE, 2)
    one.send(narrow.encode_meta(), *encode(narrow, 0, 1000))
    one.send(wide.encode_meta(), *encode(wide, 0, 500))
    assert [(stream.n_channels, stream.rate) for stream, _ in one.sink.runs] == [(3, 1000.0), (5, 500.0)]
    assert one.sink.runs[1][0].unit == "mV"
    assert one.list_spans(0) == [("samples", 0, 1000)]
    assert one.list_spans(1) == [("samples", 0, 500)]
    assert one.count("restarts") == 1
    assert one.runner.samples_in == one.runner.samples_out == 1500
    assert one.runner.status == "ok"


@pytest.mark.parametrize("described", [NARROW, WIDE], ids=["fewer", "more"])
def test_samples_that_differ_from_their_description_count_more(
    fed: Callable[..., Fed], described: Stream
) -> None:
    """8 channels are described and 16 sent: the samples are right, and their channels are numbered."""
    one, meta = fed(), Encoder(described, 1)
    sent = Encoder(Stream("s", 250.0, ("1", "2", "3", "4")), 1)
    one.send(meta.encode_meta(), *encode(sent, 0, 500), meta.encode_meta(), *encode(sent, 500, 1000))
    assert [stream.n_channels for stream, _ in one.sink.runs] == [4]
    assert one.list_spans(0) == [("samples", 0, 1000)]
    assert one.source.stream is not None
    assert one.source.stream.channels == tuple(f"channel {i}" for i in range(4))


def test_a_description_that_comes_late_names_the_channels(fed: Callable[..., Fed]) -> None:
    one, encoder = fed(), Encoder(NARROW, 1)
    one.send(*encode(encoder, 0, 300), encoder.encode_meta(), *encode(encoder, 300, 600))
    assert one.source.stream is not None
    assert one.source.stream.channels == NARROW.channels
    assert [one.list_spans(run) for run in range(2)] == [[("samples", 0, 300)], [("samples", 300, 600)]]


def test_a_sender_that_keeps_changing_is_slowed_down(fed: Callable[..., Fed]) -> None:
    one, encoders = fed(), (Encoder(NARROW, 1), Encoder(WIDE, 2))
    for turn in range(40):
        encoder = encoders[turn % 2]
        one.send(encoder.encode_meta(), *encode(encoder, 200 * turn, 200 * turn + 200))
    assert 1 <= one.count("restarts") <= 3
    assert one.count("rejected_channels") > 20


def test_other_streams_are_left_out(fed: Callable[..., Fed]) -> None:
    """Their `end`, which states a million samples, does not declare samples of this stream lost."""
    one, own, other = fed(), Encoder(NARROW, 1), Encoder(Stream("t", 1000.0, ("a", "b", "c"), "uV"), 1)
    other.stop = 1_000_000
    one.send(own.encode_meta(), *encode(own, 0, 300))
    one.send(other.encode_meta(), *encode(other, 300, 600), other.encode_end(), *encode(own, 300, 600))
    assert one.list_spans(0) == [("samples", 0, 600)]
    assert one.count("rejected_stream") == 5
    assert len(one.sink.runs) == 1


def test_the_end_of_an_old_run_declares_nothing_lost(fed: Callable[..., Fed]) -> None:
    one, old, new = fed(), Encoder(NARROW, 1), Encoder(NARROW, 2)
    old.stop = 1_000_000
    one.send(old.encode_meta(), *encode(old, 0, 300), *encode(new, 0, 300), old.encode_end())
    one.send(*encode(new, 300, 600))
    assert one.list_spans(0) == [("samples", 0, 300), ("restart", 300, 300), ("samples", 300, 900)]


def test_another_stream_follows_a_silent_one(fed: Callable[..., Fed]) -> None:
    one, own, other = fed(silence=0.2), Encoder(NARROW, 1), Encoder(Stream("t", 500.0, ("a", "b")), 1)
    one.send(own.encode_meta(), *encode(own, 0, 300))
    until(lambda: one.runner.is_silent, lambda: one.runner.step(0.05))
    one.send(other.encode_meta(), *encode(other, 0, 300))
    assert [stream.n_channels for stream, _ in one.sink.runs] == [3, 2]


def test_a_stream_that_sends_all_the_time_follows_one_that_stops(fed: Callable[..., Fed]) -> None:
    one, own, other = fed(silence=0.2), Encoder(NARROW, 1), Encoder(Stream("t", 500.0, ("a", "b")), 1)
    one.send(own.encode_meta(), *encode(own, 0, 300), other.encode_meta())
    blocks = (frames for start in range(0, 100_000, 100) for frames in encode(other, start, start + 100))

    def send_other() -> None:
        one.send(next(blocks))

    until(lambda: len(one.sink.runs) == 2, send_other)
    assert one.sink.runs[1][0].n_channels == 2


def test_descriptions_alone_do_not_end_a_silence(fed: Callable[..., Fed]) -> None:
    one, own = fed(silence=0.2), Encoder(NARROW, 1)
    one.send(own.encode_meta(), *encode(own, 0, 300))
    until(lambda: one.runner.is_silent, lambda: one.send(own.encode_meta()))
    one.send(own.encode_meta())
    assert one.runner.is_silent
    one.send(*encode(own, 300, 600))
    assert not one.runner.is_silent


@pytest.mark.parametrize("start", [2**40, 2**52, 2**53 - 1000])
def test_a_jump_of_indices_costs_no_work_and_can_be_undone(fed: Callable[..., Fed], start: int) -> None:
    one, encoder = fed(), Encoder(NARROW, 1)
    one.send(encoder.encode_meta(), *encode(encoder, 0, 300), *encode(encoder, start, start + 300))
    one.send(*encode(encoder, 300, 600))
    kinds = [kind for kind, _, _ in one.list_spans(0)]
    assert kinds == ["samples", "lost", "samples", "restart", "samples"]
    assert one.runner.samples_out == 900


def test_indices_that_would_exceed_all_integers_begin_the_stream_anew(fed: Callable[..., Fed]) -> None:
    one, encoder = fed(), Encoder(NARROW, 1)
    one.send(encoder.encode_meta(), *encode(encoder, 2**53 - 1000, 2**53 - 700))
    other = Encoder(NARROW, 2)
    one.send(other.encode_meta(), *encode(other, 0, 3000))
    assert one.list_spans(1)[0][0] == "samples"
    assert one.runner.samples_out > 2000


def test_a_magnitude_that_overflows_is_a_bad_sample(fed: Callable[..., Fed]) -> None:
    one, encoder = fed(), Encoder(WIDE, 1)
    huge = np.ones((3, 5))
    huge[1, 2] = 1.7e308
    one.send(encoder.encode_meta(), *encode(encoder, 0, 100), encoder.encode(Chunk(huge, 100)))
    assert one.list_spans(0) == [("samples", 0, 101), ("bad", 101, 102), ("samples", 102, 103)]


def test_a_stage_that_fails_becomes_a_gap_and_begins_anew(
    fed: Callable[..., Fed], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, encoder = fed(), Encoder(NARROW, 1)
    one.send(encoder.encode_meta(), *encode(encoder, 0, 300))
    assert one.runner.pipeline is not None
    monkeypatch.setattr(one.runner.pipeline, "push", lambda item: 1 / 0)
    one.send(*encode(encoder, 300, 600))
    assert one.runner.status == "failed"
    assert caplog.messages[-1] == "stream s: division by zero; it begins anew in 1 s"
    until(lambda: one.runner._pause.is_over)
    one.send(*encode(encoder, 600, 900))
    assert one.runner.status == "ok"
    assert one.list_spans(0) == [("samples", 0, 300), ("failed", 300, 600), ("samples", 600, 900)]
    assert one.runner.samples_in == one.runner.samples_out + one.runner.samples_gap == 900
    assert one.count("failures") == 1
