"""A daemon is killed repeatedly: the recording has the events of all its samples, at the pulses they mark."""

import random
import signal
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from igbss_stream.events import Events
from igbss_stream.files.event_table import make_event_table
from tests.commands import Spawn
from tests.recordings import write_recording
from tests.waiting import until

RATE, LENGTH, BLOCK = 500.0, 4000, 25


def write_marked(folder: Path) -> Path:
    """Write a recording with a pulse at each event, and a configuration that plays it four times as fast."""
    rng = np.random.default_rng(90_401)
    x = rng.normal(size=(LENGTH, 3))
    pulses = np.arange(10, LENGTH - 10, 20) + rng.integers(0, 9, len(np.arange(10, LENGTH - 10, 20)))
    x[pulses] += [300.0, 200.0, 100.0]
    recording = write_recording(folder / "in.h5", x.astype(np.float32), rate=RATE)
    with h5py.File(recording, "a") as file:
        events = Events(pulses + rng.uniform(-0.4, 0.4, len(pulses)), ["pulse"] * len(pulses), None, "stim")
        file["events"] = make_event_table(events, [], RATE)
    path = folder / "run.yaml"
    path.write_text(
        f"streams:\n"
        f"  - name: s\n"
        f"    source: {{kind: file, path: {recording}, speed: 4, loop: true, block: {BLOCK / RATE}}}\n"
        f"    model: {{structure: systematic}}\n"
        f"    sinks: [{{kind: hdf5, path: out.h5, flush: 0.1, if_exists: append}}]\n"
    )
    return path


@pytest.mark.slow
def test_a_killed_daemon_leaves_the_events_of_its_samples(spawn: Spawn, tmp_path: Path) -> None:
    chance, n_events = random.Random(90_402), 0
    config, out = write_marked(tmp_path), tmp_path / "out.h5"

    def count_rows() -> int:
        if not out.exists():
            return 0
        with h5py.File(out, "r") as file:
            return len(file["data"])

    for _ in range(5):
        before, process = count_rows(), spawn("run", config)
        try:
            until(lambda n=before: count_rows() > n)  # type: ignore[misc]  # a default binds the loop's value
            time.sleep(chance.uniform(0.0, 0.7))
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        with h5py.File(out, "r") as file:
            size = np.linalg.norm(file["data"][()], axis=1)
            rows, index = file["events"]["row"], file["events"]["index"]
        assert len(rows) > n_events
        n_events = len(rows)
        pulses = np.flatnonzero(size > size.max() / 4)
        assert set(np.round(rows).astype(int)) == set(pulses)
        assert np.all(np.diff(index) > 0)
