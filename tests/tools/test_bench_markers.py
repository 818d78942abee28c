"""The tool that compares markers with their pulses finds events that are lost or misplaced."""

from pathlib import Path

import bench_markers
import h5py
import numpy as np


def test_a_lost_and_a_misplaced_event_are_found(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 2))
    x[[50, 150, 250, 350]] += [2000.0, 1500.0]
    events = [(50.2, b"a"), (153.0, b"b"), (200.0, b"c"), (350.0, b"d")]
    with h5py.File(tmp_path / "out.h5", "w") as file:
        file["data"] = x
        file["gaps"] = np.array([(200, b"restart")], [("row", "i8"), ("reason", "S40")])
        file["events"] = np.array(events, [("row", "f8"), ("label", "S8")])
    found = bench_markers.compare(tmp_path / "out.h5", {"a": 0.2, "b": 0.0, "c": 0.0, "d": 0.1})
    np.testing.assert_allclose(found.errors, [0.0, 3.0, 0.1], atol=1e-9)
    assert (found.n_lost, found.n_in_gaps, found.gaps) == (1, 1, ["restart"])
