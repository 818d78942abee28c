"""A publisher beside subscribers that ask for too much: they are disconnected, and the others miss nothing."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import zmq

from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.subscriber import Subscriber
from tests.waiting import until

STREAM = Stream("eeg", 250.0, ("a", "b"), "uV", np.dtype(np.float32))

# a process, because a subscriber stores its subscriptions as well
_FLOOD = """
import os, sys, time, zmq

peer = zmq.Context().socket(zmq.XSUB)
peer.sndhwm = 0
peer.connect(sys.argv[1])
for _ in range(20_000):  # libzmq would store these in 110 MB
    peer.send(bytes([1]) + os.urandom(119))
time.sleep(600)
"""


def measure_memory() -> float:
    """Return the resident memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


@pytest.fixture(params=["tcp", "ipc"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ZmqPublisher]:
    with ZmqPublisher("*" if request.param == "tcp" else f"ipc://{tmp_path}/s") as sink:
        sink.start(STREAM)
        yield sink


@pytest.fixture
def peer(sink: ZmqPublisher) -> Iterator["zmq.Socket[bytes]"]:
    """Return a socket that sends its subscriptions as they are."""
    with zmq.Context() as context, context.socket(zmq.XSUB) as peer:
        peer.linger = 0
        peer.sndhwm = 0
        peer.connect(sink.address)
        yield peer


@pytest.fixture
def spawn_flood() -> Iterator[Callable[[str], None]]:
    """Return a function that starts a flood of subscriptions to an address."""
    with ExitStack() as stack:

        def spawn(address: str) -> None:
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _FLOOD, address]))
            stack.callback(process.kill)

        yield spawn


def test_a_flood_of_subscriptions_is_ended_and_an_innocent_subscriber_misses_nothing(
    sink: ZmqPublisher, spawn_flood: Callable[[str], None]
) -> None:
    starts: list[int] = []
    with Subscriber(sink.address, "eeg") as innocent:
        until(lambda: sink.subscriptions == 1, sink.serve)
        before = measure_memory()
        spawn_flood(sink.address)

        def publish() -> None:
            start = sink.sent
            sink.publish(Chunk(np.zeros((1, 2), np.float32), start))
            starts.extend(item.start for item in innocent.receive(0.01))

        until(lambda: sink.evicted and sink.sent > 300, publish)
        assert measure_memory() - before < 60  # a loaded machine reads some more before it disconnects
        until(
            lambda: len(starts) == sink.sent, lambda: starts.extend(c.start for c in innocent.receive(0.01))
        )
        assert starts == list(range(sink.sent))


@pytest.mark.parametrize(
    "requests",
    [
        [b"\1%d" % i for i in range(65)],
        [b"\1eeg", b"\0eeg"] * 150,
    ],
    ids=["too many", "too often"],
)
def test_a_subscriber_above_a_limit_is_disconnected(
    sink: ZmqPublisher, peer: "zmq.Socket[bytes]", requests: list[bytes]
) -> None:
    for request in requests:
        peer.send(request)
    until(lambda: sink.evicted, sink.serve)


def test_a_subscriber_to_64_streams_stays(sink: ZmqPublisher, peer: "zmq.Socket[bytes]") -> None:
    for i in range(64):
        peer.send(b"\1stream %d" % i)
    until(lambda: sink.subscriptions == 64, sink.serve)
    peer.close()
    until(lambda: sink.subscriptions == 0, sink.serve)
    assert sink.evicted == 0
