"""A daemon is killed repeatedly: its recording stays intact, and its sources keep their order and signs."""

import random
import signal
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.cli.demo import draw_mixing
from igbss_stream.subscriber import Subscriber
from tests.commands import Spawn
from tests.daemons import DaemonProcess, free_port
from tests.recordings import write_recording
from tests.waiting import DEADLINE, until

pytestmark = pytest.mark.jit  # each start loads the kernels, and learns

RATE, LENGTH, SPEED = 500.0, 4000, 4
FLUSH = 0.2  # seconds
SLACK = 0.15  # seconds: flushes are checked ten times a second, and other processes run

Array = NDArray[np.float64]
Received = list[tuple[float, Chunk | Gap]]


class Listener:
    """Record the arrival of published items in a separate thread, so that nothing delays it."""

    def __init__(self, port: int) -> None:
        self.received: Received = []
        self._address = f"tcp://127.0.0.1:{port}"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        with Subscriber(self._address) as subscriber:
            while not self._stop.is_set():
                items = subscriber.receive(0.05)
                self.received += ((time.monotonic(), item) for item in items)

    def close(self) -> Received:
        self._stop.set()
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        return self.received


def write_config(folder: Path, port: int) -> Path:
    rng = np.random.default_rng(8)
    x = rng.laplace(size=(LENGTH, 3)) @ draw_mixing(3).T
    recording = write_recording(folder / "in.h5", x.astype(np.float32), rate=RATE)
    path = folder / "run.yaml"
    path.write_text(
        f"streams:\n"
        f"  - name: s\n"
        f"    source: {{kind: file, path: {recording}, speed: {SPEED}, loop: true, block: 0.05}}\n"
        f"    learning: {{first: 2, window: 4, every: 2, ahead: 0.5, fade: 0.1}}\n"
        f"    sinks:\n"
        f"      - {{kind: hdf5, path: out.h5, flush: {FLUSH}, if_exists: append}}\n"
        f"      - {{kind: zmq, address: 'tcp://127.0.0.1:{port}'}}\n"
        f"state: {{path: state, every: 0.1}}\n"
        f"log: {{format: json}}\n"
    )
    return path


def select_chunks(received: Received, until_when: float) -> list[Chunk]:
    return [item for when, item in received if isinstance(item, Chunk) and when <= until_when]


def written_by_then(chunks: list[Chunk], early: list[Chunk]) -> list[Chunk]:
    """Return the early chunks that the daemon, too, made longer than a flush before the last one.

    When they came says nothing alone: the listener may have been held up.
    """
    last = chunks[-1].stop - (FLUSH + SLACK) * SPEED * RATE
    return [chunk for chunk in early if chunk.stop <= last]


def read(path: Path) -> tuple[NDArray[np.float32], list[int]]:
    """Return the rows of a recording, and the rows at which a run restarts, using only h5py."""
    with h5py.File(path, "r") as file:
        data = file["data"][()]
        gaps = file["gaps"][()]
    return data, [int(gap["row"]) for gap in gaps if gap["reason"] == b"restart"]


def fit_unmixing(chunks: list[Chunk], x: Array) -> Array:
    """Return the unmixing matrix of a model, fitted to its sources and the recording."""
    model = chunks[-1].model_version
    index = (
        np.concatenate([np.arange(c.start, c.stop) for c in chunks if c.model_version == model]) % LENGTH
    )
    made = np.concatenate([c.data for c in chunks if c.model_version == model]).astype(np.float64)
    centred = np.column_stack([x[index], np.ones(len(index))])
    return np.asarray(np.linalg.lstsq(centred, made, rcond=None)[0][:3].T)


def kill_repeatedly(spawn: Spawn, folder: Path, times: int) -> None:
    """Kill the daemon at random moments; check the file after each, and the next run's sources."""
    chance, port = random.Random(times), free_port()
    config = write_config(folder, port)
    with h5py.File(folder / "in.h5") as file:
        x = file["data"][()].astype(np.float64)
    state, out = folder / "state" / "s.h5", folder / "out.h5"
    before: Array | None = None
    n_rows = version = n_published = n_recorded = 0
    for number in range(times):
        daemon = DaemonProcess(spawn("run", config))
        listener = Listener(port)
        try:
            if number == 0:  # a state to continue from
                until(state.exists)
            if number < 2 or chance.random() < 0.7:
                until(lambda heard=listener.received: select_chunks(heard, np.inf))  # type: ignore[misc]
            time.sleep(chance.uniform(0.0, 1.5))  # at times while it starts
        finally:
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.communicate()
            received = listener.close()
        assert daemon.process.returncode == -signal.SIGKILL
        data, starts = read(out)
        assert len(data) >= n_rows
        chunks = select_chunks(received, np.inf)
        if chunks:
            n_published += 1
            last = max(when for when, item in received if isinstance(item, Chunk))
            certain = written_by_then(chunks, select_chunks(received, last - FLUSH - SLACK))
            if certain:
                run = np.concatenate([chunk.data for chunk in chunks])
                held = data[n_rows:]
                held = held[find_row(held, run[0]) :]  # the run began before the subscriber connected
                assert len(held) >= sum(len(chunk.data) for chunk in certain)
                n_both = min(len(held), len(run))
                np.testing.assert_array_equal(held[:n_both], run[:n_both])
            assert chunks[0].model_version >= version  # of the state
            if before is not None:
                gains = fit_unmixing(select_first_model(chunks), x) @ np.linalg.inv(before)
                assert np.abs(gains).argmax(axis=1).tolist() == [0, 1, 2]
                assert np.all(np.diag(gains) > 0.5 * np.abs(gains).sum(axis=1)), gains
                assert "learning" not in {item.reason for _, item in received if isinstance(item, Gap)}
            before = fit_unmixing(chunks, x)
        version = read_version(state)
        n_recorded += len(data) > n_rows
        n_rows = len(data)
        assert len(starts) == max(0, n_recorded - 1)
    assert n_published >= 2


def select_first_model(chunks: list[Chunk]) -> list[Chunk]:
    """Return the chunks of the first model, which is that of the state."""
    return [chunk for chunk in chunks if chunk.model_version == chunks[0].model_version]


def find_row(rows: NDArray[np.float32], sample: NDArray[np.float32]) -> int:
    """Return the first row that is equal to a sample."""
    found = np.flatnonzero((rows == sample).all(axis=1))
    assert len(found), "published samples are missing in the recording"
    return int(found[0])


def read_version(path: Path) -> int:
    """Return the version of the model in a state, using only h5py."""
    with h5py.File(path) as file:
        return int(file.attrs["model_version"])


def test_killed_three_times(spawn: Spawn, tmp_path: Path) -> None:
    kill_repeatedly(spawn, tmp_path, 3)


@pytest.mark.slow
def test_killed_twenty_times(spawn: Spawn, tmp_path: Path) -> None:
    kill_repeatedly(spawn, tmp_path, 20)
