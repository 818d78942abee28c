"""Peers that go away: a reader that is behind survives, and the kernel probes connections."""

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from igbss_stream.chunk import Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.feeds.zmq_receiver import ZmqReceiver
from tests.daemons import free_port
from tests.waiting import until

STREAM = Stream("s", 1000.0, ("a", "b"), "uV", np.dtype(np.float32))

FAST_SENDER = """
import sys, time
import numpy as np
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher

sink = ZmqPublisher(sys.argv[1], high_water_mark=100_000)
sink.start(Stream("s", 1000.0, ("a", "b"), "uV", np.dtype(np.float32)))
samples = np.zeros((50, 2), np.float32)
for i in range(10**9):
    sink.publish(Chunk(samples, 50 * i))
    time.sleep(5e-4)
"""

SLOW_READER = """
import sys, time
from igbss_stream.subscriber import Subscriber

with Subscriber(sys.argv[1], "s") as subscriber:
    subscriber.stream
    print("connected", flush=True)
    for n, item in enumerate(subscriber):
        time.sleep(0.02)
        if n == 400:
            break
print("alive", flush=True)
"""


def test_a_reader_that_is_behind_survives_its_publisher() -> None:
    """Libzmq aborts the process here if the reader sends heartbeats (zeromq/libzmq#4364)."""
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        subprocess.Popen([sys.executable, "-c", FAST_SENDER, address]) as sender,
        subprocess.Popen([sys.executable, "-c", SLOW_READER, address], stdout=subprocess.PIPE) as reader,
    ):
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"connected\n"
            time.sleep(3.0)  # its queue of 1,000 messages fills
            sender.kill()
            assert reader.stdout.readline() == b"alive\n"
            assert reader.wait(20.0) == 0
        finally:
            sender.kill()
            reader.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the table of connections of Linux")
def test_the_kernel_probes_both_ends_of_a_connection() -> None:
    with ZmqPublisher("*") as sink, ZmqReceiver(sink.address) as source:
        sink.start(STREAM)
        until(lambda: bool(source.receive(0.05)), sink.serve)
        port = int(sink.address.rsplit(":", 1)[1])
        until(lambda: list_keepalive_timers(port) == {"local", "remote"})


def list_keepalive_timers(port: int) -> set[str]:
    """Return which ends of the connections to a port have a keepalive timer that is due within 10 s."""
    found = set()
    hertz = 100.0  # of the timers in this table
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        match = re.match(r"\s*\d+: \w+:(\w+) \w+:(\w+) 01 \w+:\w+ (\w+):(\w+)", line)  # 01: established
        if match is None:
            continue
        local, remote, timer, due = (int(field, 16) for field in match.groups())
        if timer == 2 and due / hertz <= 10.0:  # 2: keepalive
            found |= {"local"} if local == port else {"remote"} if remote == port else set()
    return found
