"""Messages of the ZMQ Interface of Open Ephys are collected into blocks."""

import json
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import WireError
from igbss_stream.feeds.event_sequencer import EventSequencer
from igbss_stream.feeds.openephys import OpenEphysDecoder
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import (
    DataMessage,
    EventsMessage,
    Message,
    MetaMessage,
    RejectReason,
    WireLimits,
)


def one_channel(
    sample_num: int, channel: int, samples: NDArray[Any], message_num: int = 0, **changes: Any
) -> list[bytes]:
    content = {
        "stream": "Rhythm", "channel_num": channel, "num_samples": len(samples), "sample_num": sample_num, "sample_rate": 30000.0
    } | changes  # fmt: skip
    header = {
        "message_num": message_num,
        "type": "data",
        "content": content,
        "data_size": 4 * len(samples),
        "timestamp": 1,
    }
    return [b"DATA\0", json.dumps(header).encode(), samples.astype("<f4").tobytes()]


def block(sample_num: int, channels: tuple[int, ...] = (0, 1, 2), length: int = 4) -> list[list[bytes]]:
    """Return the messages of a block whose samples are 1000 times the channel plus their index."""
    index = np.arange(sample_num, sample_num + length)
    return [one_channel(sample_num, channel, 1000 * channel + index) for channel in channels]


def event() -> list[bytes]:
    return [
        b"EVENT\0",
        b'{"message_num": 3, "type": "event", "content": {"type": 3, "sample_num": 9}}',
        b"\1\1",
    ]


def read(decoder: OpenEphysDecoder, messages: list[list[bytes]]) -> list[Message]:
    return [message for frames in messages for message in decoder.decode(frames)]


def ready_decoder() -> OpenEphysDecoder:
    decoder = OpenEphysDecoder(WireLimits())
    assert read(decoder, block(0) + block(4)) == []
    return decoder


def test_channels_are_gathered_into_blocks() -> None:
    out = read(ready_decoder(), [*block(8), event(), *block(12)])
    meta, first, second = out
    assert isinstance(meta, MetaMessage)
    assert (meta.channels, meta.rate, meta.unit, meta.stream) == (
        ("channel-0", "channel-1", "channel-2"),
        30000.0,
        "uV",
        "Rhythm",
    )
    for message, start in ((first, 8), (second, 12)):
        assert isinstance(message, DataMessage)
        assert message.header.start == start
        assert message.data.dtype == np.float32
        assert message.data.flags.c_contiguous
        assert np.array_equal(message.data, np.add.outer(np.arange(start, start + 4), [0, 1000, 2000]))


def test_a_block_whose_beginning_was_missed_is_skipped() -> None:
    decoder = OpenEphysDecoder(WireLimits())
    assert read(decoder, block(0, (2,)) + block(4) + block(8)) == []
    out = read(decoder, block(12))
    assert [type(message) for message in out] == [MetaMessage, DataMessage]
    assert decoder.counts["learning"] == 3


def test_one_channel_alone_is_a_stream() -> None:
    out = read(
        OpenEphysDecoder(WireLimits()), block(0, (5,)) + block(4, (5,)) + block(8, (5,)) + block(12, (5,))
    )
    assert [type(message) for message in out] == [MetaMessage, DataMessage, DataMessage]
    assert isinstance(out[1], DataMessage)
    assert out[1].data.tolist() == [[5008], [5009], [5010], [5011]]


@pytest.mark.parametrize("seed", range(20))
def test_a_lost_channel_costs_its_block_and_leaves_a_gap(seed: int) -> None:
    rng = random.Random(seed)
    messages = [each for start in range(8, 4008, 4) for each in block(start)]
    arrived = [each for each in messages if rng.random() > 0.02]
    decoder = ready_decoder()
    sequencer = Sequencer()
    out = [
        item
        for message in read(decoder, arrived)
        if isinstance(message, DataMessage)
        for item in sequencer.push(message)
    ]
    came = {frames[1] for frames in arrived}
    complete = [start for start in range(8, 4008, 4) if all(frames[1] in came for frames in block(start))]
    assert decoder.counts["incomplete"] > 0
    assert sequencer.counts.samples_out == 4 * len(complete)
    assert {item.reason for item in out if not hasattr(item, "data")} == {"lost"}
    assert len(decoder._pending) <= 8


def test_a_block_is_dropped_as_soon_as_a_later_one_is_complete() -> None:
    decoder = ready_decoder()
    read(decoder, block(8)[:2] + block(12))
    assert (decoder.counts["incomplete"], decoder._pending) == (1, {})


def test_incomplete_blocks_do_not_accumulate() -> None:
    decoder = ready_decoder()
    read(decoder, [each for start in range(8, 4000, 4) for each in block(start, (1,))])
    assert len(decoder._pending) <= 8
    assert decoder.counts["incomplete"] > 900


DATA = np.zeros(4)


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([b"DATA\0"], "frames"),
        ([b"DATA\0", b"{}"], "frames"),
        ([b"DATA\0", b"{", b""], "header"),
        ([b"DATA\0", b'{"type": "event", "content": {}}', b""], "header"),
        ([b"DATA\0", b'{"type": "data", "content": {"n_channels": 2}}', b""], "header"),
        ([b"DATA\0", bytes(101), b""], "size"),
        ([b"DATA\0", b'{"type": "data"', bytes(101)], "header"),
        (one_channel(8, 0, np.zeros(40)), "size"),
        (one_channel(8, 0, DATA, num_samples=5), "length"),
        (one_channel(8, 9, DATA), "channels"),
        (one_channel(8, 3, DATA), "channels"),
        (one_channel(8, 0, DATA, stream="other"), "topic"),
        (one_channel(8, 0, DATA, sample_rate=1000), "topic"),
        (one_channel(8, 0, DATA, sample_rate=-1), "header"),
    ],
)
def test_invalid_messages_are_rejected(frames: list[bytes], reason: str) -> None:
    decoder = OpenEphysDecoder(WireLimits(message_bytes=100, header_bytes=300, channels=8))
    read(decoder, block(0) + block(4) + block(8)[:1])
    if reason == "size" and len(frames[2]) == 0:
        frames = [frames[0], bytes(301), b""]
    with pytest.raises(WireError) as caught:
        decoder.decode(frames)
    assert caught.value.reason == reason
    assert [type(message) for message in read(decoder, block(12))] == [DataMessage]


def test_channels_that_do_not_fit_their_block_are_refused() -> None:
    decoder = ready_decoder()
    read(decoder, block(8, (0,)))
    with pytest.raises(WireError, match="channels: channel 0 arrived twice"):
        read(decoder, block(8, (0,)))
    with pytest.raises(WireError, match="length: channel 1 differs in length"):
        read(decoder, block(8, (1,), length=5))
    for start in range(100, 200):
        with pytest.raises(WireError):
            decoder.decode(one_channel(start, 7, DATA))
    assert len(decoder._pending) == 1


def test_empty_blocks_are_skipped() -> None:
    assert read(ready_decoder(), [one_channel(8, 0, np.zeros(0))]) == []


def ttl(body: bytes, kind: int | str = 3, sample_num: int = 9, stream: str = "Rhythm") -> list[bytes]:
    content = {"stream": stream, "source_node": 100, "type": kind, "sample_num": sample_num}
    head = {"message_num": 3, "type": "event", "content": content, "data_size": len(body)}
    return [b"EVENT\0", json.dumps(head).encode(), body]


def test_lines_that_go_on_and_texts_are_events() -> None:
    decoder = ready_decoder()
    word = (5).to_bytes(8, "little")
    out = read(
        decoder,
        [
            ttl(b"\0\1" + word, sample_num=9),
            ttl(b"\0\0" + word, sample_num=10),  # off
            ttl(b"\7\1" + word, "TTL", 11),
            ttl(b"start now\0", 5, 12),
            ttl(b"\0\1" + word, stream="another"),
            ttl(b"spike", 4),
        ],
    )
    rows = [row for message in out if isinstance(message, EventsMessage) for row in message.events]
    assert [(row.index, row.label, row.source) for row in rows] == [
        (9, "TTL 0", "TTL"),
        (11, "TTL 7", "TTL"),
        (12, "start now", "message"),
    ]
    assert [message.number for message in out if isinstance(message, EventsMessage)] == [0, 1, 2]


def test_events_lie_at_the_samples_of_the_sequencer() -> None:
    """Which starts its indices at those of the first block, and continues them over a new acquisition."""
    decoder, samples = ready_decoder(), Sequencer()
    events = EventSequencer(samples)
    for frames in [*block(8), ttl(b"\1\1", sample_num=10), *block(12), ttl(b"\2\1", sample_num=15)]:
        for message in decoder.decode(frames):
            if isinstance(message, EventsMessage):
                events.push(message)
            elif isinstance(message, DataMessage):
                samples.push(message)
    assert [(event.index, event.label) for event in events.pop()] == [(10, "TTL 1"), (15, "TTL 2")]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (ttl(b"\1"), RejectReason.LENGTH),
        ([b"EVENT", b"{}", b"\1\1"], RejectReason.HEADER),
        ([b"EVENT", b"[" * 100_000, b""], RejectReason.SIZE),
        (ttl(b"\1\1", sample_num=-1), RejectReason.HEADER),
    ],
)
def test_events_that_are_not_valid_are_rejected(frames: list[bytes], reason: RejectReason) -> None:
    decoder = ready_decoder()
    read(decoder, block(8))
    with pytest.raises(WireError) as caught:
        decoder.decode(frames)
    assert caught.value.reason == reason
