"""Messages of events: round trips, limits, old clients, and events over real sockets."""

import json
import re
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import WireError
from igbss_stream.events import Event, Events
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.wire import EventsMessage, RejectReason, decode
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.subscriber import Subscriber
from tests.doc_pages import blocks
from tests.feeds.test_wire import sent
from tests.feeds.test_zmq import joined
from tests.waiting import DEADLINE, until

STREAM = Stream("eeg", 250.0, ("a", "b"), "uV", np.dtype(np.float32), 1.7e9)
FIELDS: dict[str, Any] = {"version": 2, "kind": "events", "stream": "s", "run": 1, "number": 0}
OLD_CLIENT = """
import json, sys
import zmq
socket = zmq.Context.instance().socket(zmq.SUB)
socket.connect(sys.argv[1])
socket.subscribe(b"")
expected = None
while True:
    topic, head, buffer = socket.recv_multipart()
    header = json.loads(head)
    if header["version"] != 1 or header["kind"] == "meta":
        continue
    assert expected in (None, header["seq"])
    expected = header["seq"] + 1
    if header["kind"] == "end":
        break
    print(header["kind"], header["dtype"] if header["kind"] != "gap" else "-", header["start"])
"""


def chunk(start: int, n_samples: int = 5) -> Chunk:
    return Chunk(np.zeros((n_samples, 2), np.float32), start)


def read(event: dict[str, Any], n: int = 1, **changes: Any) -> Events:
    header = FIELDS | {"events": [event] * n} | changes
    message = decode([b"s", json.dumps(header).encode(), b""])
    assert isinstance(message, EventsMessage)
    return message.table


@given(
    st.lists(
        st.tuples(st.floats(-0.5, 2**52), st.text(max_size=300), st.floats(0, 1e9), st.text(max_size=20)),
        max_size=20,
    )
)
def test_events_survive_a_message(rows: list[tuple[float, str, float, str]]) -> None:
    events = Events.from_rows(Event(*row) for row in rows)
    messages = [decode(sent(frames)) for frames in Encoder(STREAM, 1).encode_events(events)]
    got = Events.join(message.table for message in messages if isinstance(message, EventsMessage))
    assert len(got) == len(events)
    np.testing.assert_array_equal(got.index, events.index)
    np.testing.assert_array_equal(got.duration, events.duration)
    for now, was in zip(got.label, events.label, strict=True):
        assert len(now.encode()) <= 255
        assert was.encode("utf-8", "replace").decode().startswith(now)


def test_many_events_take_several_messages_which_are_numbered() -> None:
    encoder = Encoder(STREAM, 1)
    frames = encoder.encode_events(Events(np.arange(2500.0), ["x"] * 2500))
    messages = [decode(sent(each)) for each in frames]
    numbers = [(m.number, len(m.events)) for m in messages if isinstance(m, EventsMessage)]
    assert numbers == [(0, 1024), (1024, 1024), (2048, 452)]
    assert encoder.seq == 0


def test_events_that_no_index_can_state_are_omitted() -> None:
    events = Events([-3.0, 2.5, 2.0**53, np.nan], list("abcd"))
    (frames,) = Encoder(STREAM, 1).encode_events(events)
    assert [one["label"] for one in json.loads(bytes(frames[1]))["events"]] == ["b"]


@pytest.mark.parametrize(
    "event",
    [
        {"index": 2**53, "label": "x"},
        {"index": -1, "label": "x"},
        {"index": "1", "label": "x"},
        {"index": 1, "label": "x" * 256},
        {"index": 1, "label": "é" * 128},
        {"index": 1, "label": "x", "source": "é" * 128},
        {"index": 1, "label": "x", "duration": -1},
        {"index": 1, "label": "x", "duration": 1e13},
        {"index": 1, "label": 5},
        {"index": 1},
        {"label": "x"},
    ],
)
def test_events_outside_the_limits_are_refused(event: dict[str, Any]) -> None:
    with pytest.raises(WireError) as caught:
        read(event)
    assert caught.value.reason == RejectReason.HEADER


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"1e999"])
@pytest.mark.parametrize("field", ["index", "duration"])
def test_numbers_that_are_not_finite_are_refused(field: str, number: bytes) -> None:
    head = json.dumps(FIELDS | {"events": [{"index": 1, "duration": 1, "label": "x"}]}).encode()
    bad = re.sub(b'"%s": 1' % field.encode(), b'"%s": %s' % (field.encode(), number), head)
    assert bad != head
    with pytest.raises(WireError) as caught:
        decode([b"s", bad, b""])
    assert caught.value.reason == RejectReason.HEADER


def test_the_number_of_events_and_the_version_are_checked() -> None:
    one = {"index": 1.5, "label": "x"}
    assert list(read(one, 1)) == [Event(1.5, "x")]
    assert len(read(one, 1024)) == 1024
    for changes, reason in (
        ({"n": 0}, "header"),
        ({"n": 1025}, "header"),
        ({"version": 1}, "version"),
        ({"version": 3}, "version"),
        ({"number": -1}, "header"),
    ):
        with pytest.raises(WireError) as caught:
            read(one, **changes)
        assert caught.value.reason == reason
    with pytest.raises(WireError) as caught:
        decode([b"s", json.dumps(FIELDS | {"events": [one]}).encode(), b"1234"])
    assert caught.value.reason == RejectReason.LENGTH
    with pytest.raises(WireError) as caught:
        decode([b"t", json.dumps(FIELDS | {"events": [one]}).encode(), b""])
    assert caught.value.reason == RejectReason.TOPIC


def test_clients_written_before_there_were_events_skip_them() -> None:
    """By the rule of the format: they refuse another version, as their decoder does for the header."""
    (frames,) = Encoder(STREAM, 1).encode_events(Events([1.0], ["x"]))
    assert msgspec.json.decode(bytes(frames[1]))["version"] != 1
    with ZmqPublisher("*") as sink:
        sink.start(STREAM)
        run = subprocess.Popen(
            [sys.executable, "-c", OLD_CLIENT, sink.address], stdout=subprocess.PIPE, text=True
        )
        joined(sink)
        sink.publish(chunk(0))
        sink.publish_events(Events([1.0, 2.0], ["x", "y"]))
        sink.publish(Gap(5, 5, "lost"))
        sink.publish_events(Events([7.0], ["z"]))
        sink.publish(chunk(10))
        sink.close()
        out, _ = run.communicate(timeout=DEADLINE)
    assert run.returncode == 0
    assert out.split("\n")[:-1] == ["data float32 0", "gap - 5", "data float32 10"]


def test_the_client_of_the_documentation_reads_events() -> None:
    code = blocks("docs/wire.md", "python")[0].text
    with ZmqPublisher("*") as sink:
        sink.start(STREAM)
        run = subprocess.Popen(
            [sys.executable, "-c", code, sink.address], stdout=subprocess.PIPE, text=True
        )
        joined(sink)
        sink.publish(chunk(0, 1))
        sink.publish_events(Events([0.25], ["square"]))
        sink.close()
        out, _ = run.communicate(timeout=DEADLINE)
    assert run.returncode == 0
    assert out.splitlines() == ["data 0 0.0 0.0", "event 0.25 square"]


def test_a_subscriber_returns_events_in_the_indices_of_its_items() -> None:
    """Over a restart as well, where the indices of the publisher begin again."""
    with ZmqPublisher("*") as sink, Subscriber(sink.address, "eeg") as subscriber:
        joined(sink)
        sink.start(STREAM)
        sink.publish(chunk(0))
        sink.publish_events(Events([1.25, 3.0], ["a", "b"], [0.5, 0.0], "stim"))
        sink.publish(Gap(5, 5, "lost"))
        sink.publish_events(Events([7.0], ["in the gap"]))
        sink.start(STREAM)
        sink.publish(chunk(100))
        sink.publish_events(Events([101.5], ["c"]))
        sink.close()
        for _ in subscriber:
            pass
        got = subscriber.pop_events()
        assert list(got) == [
            Event(1.25, "a", 0.5, "stim"),
            Event(3.0, "b", 0.0, "stim"),
            Event(7.0, "in the gap"),
            Event(11.5, "c"),
        ]
        assert subscriber.events_lost == 0
        assert len(subscriber.pop_events()) == 0


def test_lost_events_are_counted() -> None:
    with ZmqPublisher("*") as sink, Subscriber(sink.address, "eeg") as subscriber:
        joined(sink)
        sink.start(STREAM)
        sink.publish(chunk(0))
        sink.publish_events(Events([1.0], ["a"]))
        assert sink._encoder is not None
        sink._encoder.encode_events(Events([2.0, 3.0], ["b", "c"]))  # never sent
        sink.publish_events(Events([4.0], ["d"]))
        got: list[Event] = []

        def receive() -> None:
            subscriber.receive(0.05)
            got.extend(subscriber.pop_events())

        until(lambda: len(got) == 2, receive)
        assert [one.label for one in got] == ["a", "d"]
        assert subscriber.events_lost == 2
