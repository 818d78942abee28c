"""Cleaned channels that a daemon publishes are equal to those that `batch` writes."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream import Subscriber
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from tests.commands import Command, Spawn
from tests.daemons import DaemonProcess, free_port
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # the process compiles or loads its kernels, and learns

NAMES = ("EOG", "Fz", "Cz", "Pz")
FIRST, N_SAMPLES = 1000, 2000


def simulate_eyes() -> Any:
    rng = np.random.default_rng(4)
    mixing = draw_mixing(2, 4, 4)
    mixing[0] = [0.1, 0.1, 0.1, 2.0]
    return (20.0 * rng.laplace(size=(N_SAMPLES, 4)) @ mixing.T + [4000.0, 0.0, -7.0, 1.0]).astype("f4")


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def run_through_sockets(
    spawn: Spawn, folder: Path, ends: ExitStack, x: Any, more: str
) -> tuple[Any, Stream]:
    """Send samples to a daemon; return the cleaned channels that it publishes, and their description."""
    sender = ends.enter_context(ZmqPublisher("tcp://127.0.0.1:*"))
    out, health = free_port(), free_port()
    config = folder / "sockets.yaml"
    config.write_text(f"""\
streams:
  - name: s
    source: {{kind: zmq, address: '{sender.address}'}}
    sinks: [{{kind: zmq, address: 'tcp://127.0.0.1:{out}', publish: cleaned}}]
{more}
health: {{port: {health}}}
log: {{format: json}}
""")
    daemon = DaemonProcess(spawn("run", config), health)
    daemon.wait_for_line("running")
    sender.start(Stream("s", 100.0, NAMES, "uV"))
    subscriber = ends.enter_context(Subscriber(f"tcp://127.0.0.1:{out}", "s", timeout=DEADLINE))
    until(lambda: sender.subscriptions == 1, sender.serve)
    until(lambda: daemon.count("subscriptions") > 0, sender.serve)
    for start in range(0, N_SAMPLES, 70):
        sender.publish(Chunk(x[start : start + 70], start))
    items: list[Chunk | Gap] = []
    for item in subscriber:
        items.append(item)
        if item.stop == N_SAMPLES:
            break
    assert all(isinstance(item, Chunk) for item in items), items
    daemon.end(2)
    return np.concatenate([item.data for item in items if isinstance(item, Chunk)]), subscriber.stream


def test_live_channels_equal_those_of_batch(
    spawn: Spawn, separated: Command, tmp_path: Path, ends: ExitStack
) -> None:
    x = simulate_eyes()
    path = write_recording(tmp_path / "in.h5", x, rate=100.0, unit="uV", channels=NAMES)
    separated(path, "--structure", "systematic", "--exclude", "1,2")
    with h5py.File(tmp_path / "out.h5") as file:
        want = file["cleaned"][()]
    more = "    model: {structure: systematic}\n    clean: {exclude: [1, 2]}"
    came, stream = run_through_sockets(spawn, tmp_path, ends, x, more)
    np.testing.assert_array_equal(came, want)
    assert (stream.channels, stream.unit) == (NAMES, "uV")


REPLAY = """\
streams:
  - name: s
    source: {kind: file, path: in.h5, speed: 0}
    learning: {first: 10, window: 10, every: null, ahead: 0}
    clean: {exclude_like: [{channel: EOG, min_correlation: 0.8}]}
    sinks:
      - {kind: hdf5, path: sources.h5}
      - {kind: hdf5, path: cleaned.h5, publish: cleaned}
state: {path: state}
log: {format: json}
"""


def test_the_same_sources_are_removed_after_a_restart(
    spawn: Spawn, separated: Command, tmp_path: Path, ends: ExitStack
) -> None:
    """A replay learns the model of `batch` from the first ten seconds; the next run continues with it."""
    x = simulate_eyes()
    attrs: dict[str, Any] = {"rate": 100.0, "unit": "uV", "channels": NAMES}
    learned_from = write_recording(tmp_path / "first.h5", x[:FIRST], **attrs)
    separated(learned_from, "--structure", "learned", "--exclude-like", "EOG:0.8")
    with h5py.File(tmp_path / "out.h5") as file:
        ((source, _, correlation, *_),) = file["excluded"][()]
        mixing, unmixing, mean = (file[name][()] for name in ("mixing", "unmixing", "mean"))
    want = x - np.outer((x - mean) @ unmixing[source], mixing[:, source])
    write_recording(tmp_path / "in.h5", x, **attrs)
    (tmp_path / "run.yaml").write_text(REPLAY)
    daemon = DaemonProcess(spawn("run", tmp_path / "run.yaml"))
    line = daemon.wait_for_line("model 1 from sample 1000")
    assert f"without source-{source} (EOG {correlation:.2f})" in line["message"]
    _, errors = daemon.process.communicate(timeout=DEADLINE)
    assert daemon.process.returncode == 0, errors
    with h5py.File(tmp_path / "cleaned.h5") as cleaned, h5py.File(tmp_path / "sources.h5") as sources:
        recorded = cleaned["data"][()]
        assert (list(cleaned["data"].attrs["channels"]), cleaned["data"].attrs["unit"]) == (
            list(NAMES),
            "uV",
        )
        assert [tuple(gap)[1:3] for gap in cleaned["gaps"]] == [tuple(gap)[1:3] for gap in sources["gaps"]]
        assert sources["data"].shape == recorded.shape == (N_SAMPLES - FIRST, 4)
    np.testing.assert_allclose(recorded, want[FIRST:], rtol=2e-7, atol=1e-5)
    more = REPLAY[REPLAY.index("    clean") : REPLAY.index("    sinks")] + "state: {path: state}"
    came, _ = run_through_sockets(
        spawn, tmp_path, ends, x, f"    learning: {{first: 999, window: 999}}\n{more}"
    )
    np.testing.assert_array_equal(came[FIRST:], recorded)
