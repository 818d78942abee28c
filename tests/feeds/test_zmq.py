"""ZeroMQ sockets on this machine: published samples arrive, and hostile peers affect nobody else."""

import json
import random
import re
import resource
import socket as plain
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError, ParameterError
from igbss_stream.feeds.addresses import complete_address
from igbss_stream.feeds.encoder import Encoder
from igbss_stream.feeds.keys import ClientKeys, ServerKeys, derive_public_key
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import (
    DataMessage,
    EndMessage,
    GapMessage,
    Message,
    MetaMessage,
    WireLimits,
)
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.feeds.zmq_receiver import ZmqReceiver, wait_for_any
from igbss_stream.subscriber import Subscriber
from tests.daemons import free_port
from tests.doc_pages import blocks
from tests.feeds.test_openephys import block
from tests.feeds.test_wire import nonsense, sent
from tests.waiting import DEADLINE, until

STREAM = Stream("eeg", 250.0, ("a", "b", "c"), "uV", np.dtype(np.float32), 1.7e9, 2)


def chunk(start: int, n_samples: int = 5) -> Chunk:
    data = np.arange(start, start + n_samples)[:, None] + np.array([0.0, 0.25, 0.5])
    return Chunk(data.astype(np.float32), start, model_version=1)


def receive(source: ZmqReceiver, n: int) -> list[Message]:
    """Return the next n messages; assert that no more arrive."""
    messages: list[Message] = []
    until(lambda: len(messages) >= n, lambda: messages.extend(source.receive(0.05)))
    assert len(messages) == n
    return messages


@pytest.fixture
def sink() -> Iterator[ZmqPublisher]:
    with ZmqPublisher("*") as sink:
        sink.start(STREAM, {"note": [1, 2]})
        yield sink


@pytest.fixture
def source() -> Iterator[ZmqReceiver]:
    with ZmqReceiver("*", socket="pull", bind=True) as source:
        yield source


@pytest.fixture
def sender(source: ZmqReceiver) -> Iterator["zmq.Socket[bytes]"]:
    """Return a PUSH socket of another context, connected to the source."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as sender:
        sender.linger = 0
        sender.connect(source.address)
        yield sender


def joined(sink: ZmqPublisher, n: int = 1) -> None:
    until(lambda: sink.subscriptions >= n, sink.serve)


def test_published_items_arrive_bit_for_bit(sink: ZmqPublisher) -> None:
    items: list[Chunk | Gap] = [chunk(0), chunk(5, 1), Gap(6, 4, "lost"), Gap(10, 0, "restart"), chunk(10)]
    with Subscriber(sink.address, "eeg") as subscriber:
        joined(sink)
        for item in items:
            sink.publish(item)
        sink.close()
        assert subscriber.stream == STREAM
        assert subscriber.meta.extra == {"note": [1, 2]}
        got = list(subscriber)
        assert list(subscriber) == []
    assert len(got) == len(items)
    for was, now in zip(items, got, strict=True):
        assert (type(was), was.start, was.stop) == (type(now), now.start, now.stop)
        if isinstance(was, Chunk) and isinstance(now, Chunk):
            assert was.data.tobytes() == now.data.tobytes()
            assert now.model_version == 1
        elif isinstance(was, Gap) and isinstance(now, Gap):
            assert was == now


def test_a_late_subscriber_receives_the_description_and_the_indices(sink: ZmqPublisher) -> None:
    for start in range(0, 100, 5):
        sink.publish(chunk(start))
    with Subscriber(sink.address) as subscriber:
        joined(sink)
        assert subscriber.stream == STREAM
        sink.publish(chunk(100))
        assert next(iter(subscriber)).start == 100


def test_the_description_is_repeated_every_second(sink: ZmqPublisher) -> None:
    with ZmqReceiver(sink.address) as source:
        joined(sink)
        came: list[Message] = []

        def serve_and_read() -> None:
            sink.serve()
            came.extend(source.receive(0.05))

        until(lambda: len(came) >= 3, serve_and_read)
        assert all(isinstance(message, MetaMessage) for message in came)


def test_the_client_of_the_documentation_reads_the_stream(sink: ZmqPublisher) -> None:
    code = blocks("docs/wire.md", "python")[0].text
    assert set(re.findall(r"(?:import |, )(\w+)(?: as \w+)?(?=[,\n])", code.split("\n\n")[0])) <= {
        "json",
        "sys",
        "numpy",
        "zmq",
    }
    run = subprocess.Popen([sys.executable, "-c", code, sink.address], stdout=subprocess.PIPE, text=True)
    joined(sink)
    for item in (chunk(0, 2), Gap(2, 3, "lost"), chunk(5, 1)):
        sink.publish(item)
    assert sink._encoder is not None
    sink._encoder.seq += 2  # as if two messages were dropped
    sink.publish(chunk(16, 1))
    sink.close()
    out, _ = run.communicate(timeout=DEADLINE)
    assert run.returncode == 0
    assert out.splitlines() == [
        "data 0 1.0 1.5 2.0", "gap 2 3 lost", "data 5 5.0 5.25 5.5", "dropped 2 messages", "data 16 16.0 16.25 16.5"
    ]  # fmt: skip


def test_a_sender_in_plain_json_is_understood(source: ZmqReceiver, sender: "zmq.Socket[bytes]") -> None:
    header = {
        "version": 1,
        "kind": "data",
        "stream": "x",
        "rate": 100,
        "dtype": "int16",
        "shape": [2, 2],
        "scale": 0.5,
    }
    sender.send_multipart([b"x", json.dumps(header).encode(), np.array([[1, -2], [3, 4]], "<i2").tobytes()])
    (message,) = receive(source, 1)
    assert isinstance(message, DataMessage)
    assert message.data.tolist() == [[0.5, -1.0], [1.5, 2.0]]


def test_gaps_and_ends_come_in_order(source: ZmqReceiver, sender: "zmq.Socket[bytes]") -> None:
    encoder = Encoder(STREAM, 1)
    for frames in (
        encoder.encode_meta(),
        encoder.encode(chunk(0)),
        encoder.encode(Gap(5, 5, "lost")),
        encoder.encode_end(),
    ):
        sender.send_multipart(frames)
    assert [type(message) for message in receive(source, 4)] == [
        MetaMessage,
        DataMessage,
        GapMessage,
        EndMessage,
    ]


def test_random_messages_are_counted_and_valid_ones_get_through(
    source: ZmqReceiver, sender: "zmq.Socket[bytes]"
) -> None:
    rng = random.Random(1)
    encoder = Encoder(STREAM, 1)
    good = [sent(encoder.encode(chunk(0))), sent(encoder.encode_meta())]
    n, messages = 5000, []
    for _ in range(n):
        sender.send_multipart(nonsense(rng, good) or [b""])
        messages += source.receive(0)
    until(lambda: source.received == n, lambda: messages.extend(source.receive(0.05)))
    assert sum(source.rejected.values()) + len(messages) == n
    assert sum(source.rejected.values()) > n // 2
    sender.send_multipart(good[1])
    assert isinstance(receive(source, 1)[0], MetaMessage)


def test_thousands_of_frames_are_one_refused_message(
    source: ZmqReceiver, sender: "zmq.Socket[bytes]"
) -> None:
    sender.send_multipart([b""] * 20_000)
    until(lambda: source.received, lambda: source.receive(0.05))
    assert source.rejected == {"frames": 1}


def test_strangers_and_giants_do_not_disturb_others() -> None:
    limits = WireLimits(message_bytes=10_000, header_bytes=5_000)
    with ZmqReceiver("*", socket="pull", bind=True, limits=limits) as source, zmq.Context() as context:
        host, port = source.address.removeprefix("tcp://").split(":")
        strangers = [plain.create_connection((host, int(port))) for _ in range(5)]
        for stranger in strangers:
            stranger.sendall(random.Random(2).randbytes(4096))
        giant, good = context.socket(zmq.PUSH), context.socket(zmq.PUSH)
        for each in (giant, good):
            each.linger = 0
            each.connect(source.address)
        giant.send_multipart([b"x", b"{}", bytes(1_000_000)])
        good.send_multipart(Encoder(STREAM, 1).encode_meta())
        assert isinstance(receive(source, 1)[0], MetaMessage)
        assert source.received == 1 + sum(source.rejected.values())  # old peers send without a handshake
        for stranger in strangers:
            stranger.close()
        giant.close()
        good.close()


def test_a_flood_does_not_block_the_caller(source: ZmqReceiver, sender: "zmq.Socket[bytes]") -> None:
    frames = sent(Encoder(STREAM, 1).encode_meta())
    for _ in range(1000):
        sender.send_multipart(frames)
    counts: list[int] = []
    until(lambda: sum(counts) == 1000, lambda: counts.append(len(source.receive(0.05))))
    assert max(counts) <= 256


def test_receive_waits_for_the_timeout(source: ZmqReceiver) -> None:
    for timeout in (0.0, 0.2):
        began = time.monotonic()
        assert source.receive(timeout) == []
        assert timeout - 0.01 <= time.monotonic() - began < DEADLINE


SERVER, FRIEND, STRANGER = (zmq.curve_keypair()[1].decode() for _ in range(3))


def test_only_keys_that_are_allowed_get_data() -> None:
    server = ServerKeys(SERVER, allowed=(derive_public_key(FRIEND),))
    with ZmqPublisher("*", keys=server) as sink:
        sink.start(STREAM)
        wrong_server = ClientKeys(derive_public_key(STRANGER), FRIEND)
        others: list[ClientKeys | None] = [
            ClientKeys(derive_public_key(SERVER), STRANGER),
            wrong_server,
            None,
        ]
        strangers = [ZmqReceiver(sink.address, keys=keys) for keys in others]
        with Subscriber(sink.address, keys=ClientKeys(derive_public_key(SERVER), FRIEND)) as friend:
            joined(sink)
            until(lambda: sink.denied, sink.serve)
            sink.publish(chunk(0))
            assert next(iter(friend)).stop == 5
            assert [stranger.receive(0.1) for stranger in strangers] == [[], [], []]
        for stranger in strangers:
            stranger.close()


def test_a_server_that_allows_everybody_still_encrypts() -> None:
    with ZmqPublisher("*", keys=ServerKeys(SERVER, allowed=None)) as sink:
        sink.start(STREAM)
        with (
            Subscriber(sink.address, keys=ClientKeys(derive_public_key(SERVER), STRANGER)) as subscriber,
            ZmqReceiver(sink.address) as bare,
        ):
            joined(sink)
            assert subscriber.stream == STREAM
            assert bare.receive(0.1) == []
            assert sink.denied == 0


def test_a_receiver_admits_only_known_senders() -> None:
    server = ServerKeys(SERVER, allowed=(derive_public_key(FRIEND),))
    with ZmqReceiver("*", socket="pull", bind=True, keys=server) as source, zmq.Context() as context:
        senders = []
        for secret in (FRIEND, STRANGER):
            sender = context.socket(zmq.PUSH)
            sender.linger = 0
            sender.curve_secretkey, sender.curve_publickey = (
                secret.encode(),
                derive_public_key(secret).encode(),
            )
            sender.curve_serverkey = derive_public_key(SERVER).encode()
            sender.connect(source.address)
            sender.send_multipart(Encoder(Stream(secret[:5], 1.0, ("a",)), 1).encode_meta())
            senders.append(sender)
        (message,) = receive(source, 1)
        assert isinstance(message, MetaMessage)
        assert message.stream == FRIEND[:5]
        until(lambda: source.denied, lambda: source.receive(0.05))
        assert source.receive(0.0) == []
        for sender in senders:
            sender.close()


@pytest.mark.parametrize("length", [5, 5000])  # of which the second is not copied
def test_samples_that_were_received_are_read_only_and_remain(length: int) -> None:
    with ZmqPublisher("*") as sink:
        sink.start(STREAM)
        with ZmqReceiver(sink.address) as source:
            joined(sink)
            sink.publish(chunk(0, length))
            messages: list[Message] = []
            until(
                lambda: any(isinstance(each, DataMessage) for each in messages),
                lambda: messages.extend(source.receive(0.05)),
            )
    [data] = [message.data for message in messages if isinstance(message, DataMessage)]
    assert not data.flags.writeable
    assert data.flags.aligned
    np.testing.assert_array_equal(data, chunk(0, length).data)


def test_a_slow_subscriber_uses_bounded_memory_and_affects_nobody_else() -> None:
    n, length = 3000, 8000  # 288 MB in all
    data = np.zeros((length, 3), np.float32)
    with ZmqPublisher("*", high_water_mark=20) as sink:
        sink.start(STREAM)
        with Subscriber(sink.address, high_water_mark=20) as slow, ZmqReceiver(sink.address) as quick:
            joined(sink, 2)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            came, longest = 0, 0.0
            for i in range(n):
                began = time.perf_counter()
                sink.publish(Chunk(data, i * length))
                longest = max(longest, time.perf_counter() - began)
                while came <= i:
                    came += sum(isinstance(message, DataMessage) for message in quick.receive(DEADLINE))
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert sink.overflows >= 1
            assert longest < DEADLINE / 4  # waiting for the slow one would take for ever
            assert grown < 100_000  # kB
            got = slow._ready

            def catch_up() -> None:
                sink.publish(Chunk(data, sink.sent * length))
                for message in slow._receiver.receive(0.01):
                    slow._handle_message(message)

            until(lambda: got and got[-1].stop > n * length, catch_up)
            assert {item.reason for item in got if isinstance(item, Gap)} == {"dropped"}
            assert all(after.start == before.stop for before, after in pairwise(got))
            assert got[0].start == 0


def test_closing_does_not_wait_for_a_subscriber_that_does_not_read() -> None:
    sink = ZmqPublisher("*", high_water_mark=100)
    sink.start(STREAM)
    with Subscriber(sink.address, high_water_mark=1):
        joined(sink)
        for i in range(300):
            sink.publish(Chunk(np.zeros((20_000, 3), np.float32), 20_000 * i))
        began = time.monotonic()
        sink.close()
        sink.close()
        assert time.monotonic() - began < DEADLINE / 4  # it never reads


def test_a_restarted_publisher_is_followed(sink: ZmqPublisher) -> None:
    with Subscriber(sink.address) as subscriber:
        joined(sink)
        sink.publish(chunk(0))
        sink.start(STREAM)
        sink.publish(chunk(0))
        items = iter(subscriber)
        assert [(item.start, item.stop) for item in (next(items), next(items), next(items))] == [
            (0, 5),
            (5, 5),
            (5, 10),
        ]


@pytest.mark.parametrize("reads", ["receive", "iterate"])
def test_the_description_is_that_of_the_items(sink: ZmqPublisher, reads: str) -> None:
    """Also if runs with different channels arrive at once."""
    other = Stream("eeg", 500.0, ("x", "y"), "V", np.dtype(np.float64), 1.8e9)
    with Subscriber(sink.address, "eeg", timeout=DEADLINE) as subscriber:
        joined(sink)
        for stream, dtype in ((STREAM, "f4"), (other, "f8"), (STREAM, "f4")):
            sink.start(stream)
            sink.publish(Chunk(np.ones((5, stream.n_channels), dtype), 0))
            sink.publish(Chunk(np.ones((5, stream.n_channels), dtype), 5))
        sink.close()
        time.sleep(0.2)  # all that was sent has come
        found: list[tuple[Stream, Chunk | Gap]] = []
        if reads == "iterate":
            found += ((subscriber.stream, item) for item in subscriber)
        while not subscriber.ended:
            found += [(subscriber.stream, item) for item in subscriber.receive(DEADLINE)]
        assert subscriber.index_offset == 20
    chunks = [(stream, item.data) for stream, item in found if isinstance(item, Chunk)]
    assert [stream for stream, _ in chunks] == [STREAM] * 2 + [other] * 2 + [STREAM] * 2
    assert all((data.shape[1], data.dtype) == (stream.n_channels, stream.dtype) for stream, data in chunks)
    assert [item for _, item in found if isinstance(item, Gap)] == [
        Gap(10, 0, "restart"),
        Gap(20, 0, "restart"),
    ]


def test_streams_of_other_names_are_not_mixed_in() -> None:
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.linger = 0
        publisher.bind("tcp://127.0.0.1:*")
        with Subscriber(publisher.last_endpoint.decode().rstrip("\0"), "eeg") as subscriber:  # type: ignore[union-attr]
            assert publisher.poll(round(1000 * DEADLINE))
            stranger = Chunk(np.zeros((7, 1), np.float32), 0)
            encoder, other = Encoder(STREAM, 1), Encoder(Stream("eeg2", 1.0, ("x",)), 1)
            for frames in (
                other.encode_meta(),
                other.encode(stranger),
                other.encode_end(),
                encoder.encode(chunk(0)),
                encoder.encode_meta(),
                encoder.encode_end(),
            ):
                publisher.send_multipart(frames)
            assert subscriber.stream == STREAM
            assert [item.stop for item in subscriber] == [5]


def test_a_stream_that_ends_undescribed_is_an_error(sink: ZmqPublisher) -> None:
    with zmq.Context() as context, context.socket(zmq.XPUB) as publisher:
        publisher.linger = 0
        publisher.bind("tcp://127.0.0.1:*")
        with Subscriber(publisher.last_endpoint.decode().rstrip("\0")) as subscriber:  # type: ignore[union-attr]
            assert publisher.poll(round(1000 * DEADLINE))
            publisher.send_multipart(Encoder(STREAM, 1).encode_end())
            with pytest.raises(FeedError, match="ended before it was described"):
                _ = subscriber.stream


def test_silence_is_an_error_with_possible_causes() -> None:
    nobody = f"tcp://127.0.0.1:{free_port()}"
    with Subscriber(
        nobody, "meg", timeout=0.1, keys=ClientKeys(derive_public_key(SERVER), FRIEND)
    ) as subscriber:
        subscriber._receiver.rejected["frames"] += 1
        with pytest.raises(FeedError) as caught:
            next(iter(subscriber))
    assert str(caught.value) == (
        f"nothing came from '{nobody}' for 0.1 s; check that the publisher runs, that it publishes 'meg', "
        "that the keys are correct, that it uses this format ({'frames': 1} messages were rejected)"
    )


def test_open_ephys_through_a_socket() -> None:
    with zmq.Context() as context, context.socket(zmq.XPUB) as plugin:
        plugin.linger = 0
        plugin.bind("tcp://127.0.0.1:*")
        with ZmqReceiver(plugin.last_endpoint.decode().rstrip("\0"), format="openephys") as source:  # type: ignore[union-attr]
            assert plugin.poll(round(1000 * DEADLINE))
            for start in range(0, 40, 4):
                for frames in block(start):
                    plugin.send_multipart(frames)
            messages = receive(source, 1 + 8)
    sequencer = Sequencer()
    out = [
        item for message in messages if isinstance(message, DataMessage) for item in sequencer.push(message)
    ]
    assert isinstance(messages[0], MetaMessage)
    assert [(item.start, item.stop) for item in out] == [(start, start + 4) for start in range(8, 40, 4)]


def test_an_address_in_use_is_reported(sink: ZmqPublisher) -> None:
    with pytest.raises(FeedError) as caught:
        ZmqPublisher(sink.address)
    assert (
        str(caught.value)
        == f"cannot bind to '{sink.address}': the address is in use; stop the program that uses it or choose another port"
    )


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("tcp://192.0.2.1:5556", "this machine has no such address"),
        ("ipc:///nowhere/at/all", "cannot bind to 'ipc:///nowhere/at/all': there is no such folder"),
    ],
)
def test_addresses_that_cannot_be_bound(address: str, text: str) -> None:
    with pytest.raises(FeedError, match=re.escape(text)):
        ZmqPublisher(address)


def test_addresses_may_be_short() -> None:
    assert complete_address("5556") == complete_address("localhost:5556") == "tcp://127.0.0.1:5556"
    assert complete_address("tcp://*:1") == "tcp://*:1"
    assert complete_address("[::1]:65535") == "tcp://[::1]:65535"
    assert complete_address("ipc:///tmp/a") == "ipc:///tmp/a"
    for wrong in ("", "host", "http://a:1", "udp://a:1", "tcp://127.0.0.1:65536"):
        with pytest.raises(ParameterError, match="address must "):
            ZmqReceiver(wrong)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"socket": "rep"}, "socket must be one of sub, pull. Got 'rep'"),
        ({"format": "pickle"}, "format must be igbss or openephys. Got 'pickle'"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(text)):
        ZmqReceiver("5556", **options)


def test_invalid_keys_are_rejected_and_secret_ones_not_shown() -> None:
    with pytest.raises(ParameterError, match=r"server_key must be a key of 40 characters .* Got 'abc'"):
        ClientKeys("abc", FRIEND)
    with pytest.raises(ParameterError, match="allowed must be a key"):
        ServerKeys(SERVER, allowed=("ü" * 40,))
    with pytest.raises(ParameterError) as caught:
        ServerKeys("secret!", allowed=None)
    assert "secret!" not in str(caught.value)
    assert SERVER not in repr(ServerKeys(SERVER, None))
    assert FRIEND not in repr(ClientKeys(derive_public_key(SERVER), FRIEND))


def test_publishing_needs_a_stream() -> None:
    with ZmqPublisher("*") as sink, pytest.raises(RuntimeError, match="start a stream"):
        sink.publish(chunk(0))


def test_a_handshake_completes_beside_a_busy_receiver(source: ZmqReceiver) -> None:
    secret, friend = (zmq.curve_keypair()[1].decode() for _ in range(2))
    keys = ServerKeys(secret, (derive_public_key(friend),))
    with (
        ZmqReceiver("*", socket="pull", bind=True, keys=keys) as encrypted,
        zmq.Context() as context,
        context.socket(zmq.PUSH) as busy,
        context.socket(zmq.PUSH) as newcomer,
    ):
        for sender in (busy, newcomer):
            sender.linger = 0
        busy.connect(source.address)
        newcomer.curve_serverkey = derive_public_key(secret).encode()
        newcomer.curve_secretkey = friend.encode()
        newcomer.curve_publickey = derive_public_key(friend).encode()
        newcomer.connect(encrypted.address)
        encoder = Encoder(STREAM, 1)
        newcomer.send_multipart(encoder.encode_meta())
        began = time.monotonic()
        found: list[int] = []

        def keep_busy() -> None:  # what a daemon does: only receivers with messages are read
            busy.send_multipart(encoder.encode_meta())
            found[:] = wait_for_any([source, encrypted], 1.0)
            if 0 in found:
                source.receive(0.0)

        until(lambda: 1 in found, keep_busy)
        assert time.monotonic() - began < 1.0
        assert len(receive(encrypted, 1)) == 1
