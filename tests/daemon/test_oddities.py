"""Unusual but legal behaviour of senders: single samples, jumping clocks, bursts, sudden changes."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.feeds.encoder import Encoder
from tests import published
from tests.stream_runners import CollectingSink, create_runner
from tests.waiting import until

STREAM = Stream("s", 1000.0, ("a", "b", "c"), "uV", t0=1.7e9)
X = np.random.default_rng(0).normal(size=(3000, 3)).astype(np.float32)
Frames = list[Any]


class Fed:
    """A stream of the daemon with a sender to it."""

    def __init__(self, ends: ExitStack, **keys: Any) -> None:
        source = ZmqInput(address="tcp://127.0.0.1:*", socket="pull", bind=True, reorder_window=0.0, **keys)
        self.source = SocketSource("s", source)
        self.sink = CollectingSink()
        self.runner = create_runner(self.source, source, self.sink)
        context = ends.enter_context(zmq.Context())
        self._sender = ends.enter_context(context.socket(zmq.PUSH))
        self._sender.linger = 0
        self._sender.connect(self.source.address)
        ends.callback(self.source.close)
        self._sent = 0

    def send(self, *messages: Frames) -> None:
        """Send messages, and wait until all are processed."""
        for frames in messages:
            self._sender.send_multipart(frames)
        self._sent += len(messages)
        until(lambda: self.source.get_counts()["messages"] == self._sent, lambda: self.runner.step(0.05))

    @property
    def samples(self) -> np.ndarray:
        """All published samples; their indices must be contiguous from 0."""
        at, chunks = 0, []
        for item in self.sink.items:
            assert item.start == at
            at = item.stop
            chunks += [item.data] if isinstance(item, Chunk) else []
        return np.concatenate(chunks)

    @property
    def gaps(self) -> list[Gap]:
        return [item for item in self.sink.items if isinstance(item, Gap)]


Start = Callable[..., Fed]


@pytest.fixture
def fed() -> Iterator[Start]:
    with ExitStack() as ends:
        yield lambda **keys: Fed(ends, **keys)


def encode_messages(encoder: Encoder, start: int, stop: int, length: int) -> list[Frames]:
    return [encoder.encode(Chunk(X[i : i + length], i)) for i in range(start, stop, length)]


def test_messages_of_one_sample_give_the_same_as_one_message(fed: Start) -> None:
    one, encoder = fed(), Encoder(STREAM, 1)
    one.send(encoder.encode_meta(), *encode_messages(encoder, 0, 3000, 1))
    np.testing.assert_array_equal(one.samples, published.separate(X).sources)
    assert (one.runner.samples_in, one.runner.samples_out, one.gaps) == (3000, 3000, [])


def test_a_rate_within_the_tolerance_is_accepted(fed: Start) -> None:
    """Indices and times follow from the rate that the sender states."""
    one = fed(rate=1000.0)
    encoder = Encoder(Stream("s", 1000.012, STREAM.channels, "uV"), 1)
    one.send(encoder.encode_meta(), *encode_messages(encoder, 0, 3000, 100))
    assert len(one.samples) == 3000
    assert one.source.stream is not None
    assert one.source.stream.rate == 1000.012
    other, far = fed(rate=1000.0), Encoder(Stream("s", 1002.0, STREAM.channels, "uV"), 1)
    other.send(far.encode_meta(), *encode_messages(far, 0, 300, 100))
    assert other.runner.samples_in == 0
    assert other.source.get_counts()["rejected_description"] == 4


@pytest.mark.parametrize("jump", [-86400.0 * 3, -0.5, 0.5, 86400.0 * 30])
def test_jumping_times_move_no_sample(fed: Start, jump: float) -> None:
    """The clock of the sender is set while it runs; the indices are not affected."""
    one, encoder = fed(), Encoder(STREAM, 1)
    later = Encoder(Stream("s", 1000.0, STREAM.channels, "uV", t0=1.7e9 + jump), 1)
    later.seq = 10
    one.send(
        encoder.encode_meta(),
        *encode_messages(encoder, 0, 1000, 100),
        later.encode_meta(),
        *encode_messages(later, 1000, 3000, 100),
    )
    np.testing.assert_array_equal(one.samples, published.separate(X).sources)
    assert one.gaps == []


def test_bursts_lose_no_samples(fed: Start) -> None:
    """Silence, and then a second at once: the silence is counted, and delayed samples are published."""
    one, encoder = fed(silence=0.2), Encoder(STREAM, 1)
    for start in (0, 1000, 2000):
        one.send(encoder.encode_meta(), *encode_messages(encoder, start, start + 1000, 20))
        until(lambda: one.runner.is_silent, lambda: one.runner.step(0.02))
    np.testing.assert_array_equal(one.samples, published.separate(X).sources)
    assert one.source.get_counts()["silences"] >= 3  # more where the machine was slow within a burst
    assert one.gaps == []


def test_more_channels_than_configured_are_refused(fed: Start, caplog: pytest.LogCaptureFixture) -> None:
    one, encoder = fed(channels=("x", "y")), Encoder(STREAM, 1)
    with caplog.at_level(logging.ERROR):
        one.send(encoder.encode_meta(), *encode_messages(encoder, 0, 300, 100))
    assert caplog.messages == [
        "stream s: source.channels names 2 channels, but the stream has 3; correct source.channels or the sender."
    ]
    assert (one.runner.samples_in, one.source.get_counts()["rejected_description"]) == (0, 4)


def test_a_message_with_an_additional_channel_is_rejected_and_the_stream_continues(fed: Start) -> None:
    one, encoder = fed(), Encoder(STREAM, 1)
    wide = Encoder(Stream("s", 1000.0, ("a", "b", "c", "d"), "uV"), 1)
    before, odd, after = (
        encode_messages(encoder, 0, 1000, 100),
        [],
        encode_messages(encoder, 1100, 3000, 100),
    )
    odd.append(wide.encode(Chunk(np.zeros((100, 4), np.float32), 1000)))
    one.send(encoder.encode_meta(), *before, *odd, *after)
    assert one.source.get_counts()["rejected_channels"] == 1
    assert [(gap.start, gap.n_samples, gap.reason) for gap in one.gaps] == [(1000, 100, "lost")]
    assert one.runner.samples_in == one.runner.samples_out == 2900
