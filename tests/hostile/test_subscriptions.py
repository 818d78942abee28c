"""A subscriber that subscribes without end: memory is bounded, and other readers go on."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import zmq

from igbss_stream.subscriber import Subscriber
from tests.waiting import until

PUBLISHER = """
import time
import numpy as np
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher

sink = ZmqPublisher("*")
sink.start(Stream("s", 1000.0, ("a", "b"), "uV", np.dtype(np.float32)))
print(sink.address, flush=True)
samples = np.zeros((5, 2), np.float32)
for i in range(10**9):
    sink.publish(Chunk(samples, 5 * i))
    time.sleep(0.005)
"""


def read_memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1000.0


def flood(address: str, length: int, n_subscriptions: int) -> None:
    """Subscribe to names of random bytes, and leave."""
    with zmq.Context() as context, context.socket(zmq.XSUB) as socket:
        socket.set(zmq.LINGER, 0)
        socket.set(zmq.SNDHWM, 0)
        socket.connect(address)
        names = np.random.default_rng(0).integers(0, 256, (n_subscriptions, length), np.uint8)
        for name in names:
            socket.send(b"\1" + name.tobytes())
        time.sleep(1.0)


def test_a_flood_of_subscriptions_is_bounded() -> None:
    with subprocess.Popen([sys.executable, "-c", PUBLISHER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with Subscriber(address, "s") as reader:
                until(lambda: bool(reader.receive(0.1)))
                before = read_memory(process.pid)
                for length, n_subscriptions in ((908, 5_000), (120, 20_000)):
                    flood(address, length, n_subscriptions)
                    assert read_memory(process.pid) < before + 100.0  # MB; stored, they would take more
                arrived = reader.receive(0.0)
                until(lambda: len(arrived) > 100, lambda: arrived.extend(reader.receive(0.1)))
        finally:
            process.kill()
