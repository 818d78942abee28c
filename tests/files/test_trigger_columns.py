"""Events in columns of text files and in channels of HDF5 files, named by the option `events`."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.events import Event
from igbss_stream.files.open import open_recording
from igbss_stream.files.recording import Recording

X = np.random.default_rng(0).standard_normal((50, 2))


def read(recording: Recording) -> NDArray[Any]:
    return np.vstack([block.copy() for _, block in recording.read_blocks(7)])


def write_text(path: Path, cells: list[str]) -> Path:
    rows = [f"{a},{b},{cell}" for (a, b), cell in zip(X, cells, strict=True)]
    path.write_text("\n".join(["Fz,Cz,mark", *rows, ""]))
    return path


def test_a_column_of_labels(tmp_path: Path) -> None:
    cells = [""] * 10 + ["go"] * 5 + ["0"] * 5 + ["stop"] + [""] * 29
    path = write_text(tmp_path / "in.csv", cells)
    with open_recording(path, rate=10.0, events="mark") as recording:
        assert recording.channels == ("Fz", "Cz")
        np.testing.assert_array_equal(read(recording), X)
        assert list(recording.events) == [Event(10, "go", 0.5, "mark"), Event(20, "stop", 0.1, "mark")]
    with pytest.raises(RecordingError, match="or --events with a column of labels"):
        open_recording(path, rate=10.0)


def test_a_column_of_numbers_is_no_channel_unless_it_is_one(tmp_path: Path) -> None:
    cells = ["0"] * 10 + ["3"] * 2 + ["4.0"] * 2 + ["0"] * 36
    path = write_text(tmp_path / "in.csv", cells)
    for channels, n_channels in ((None, 2), ("0-2", 3)):
        with open_recording(path, rate=10.0, events="2", channels=channels) as recording:
            assert recording.n_channels == n_channels
            assert [(one.index, one.label) for one in recording.events] == [(10, "3"), (12, "4")]
    with open_recording(path, rate=10.0) as recording:
        assert (recording.n_channels, len(recording.events)) == (3, 0)
    with pytest.raises(ParameterError, match="trigger"):
        open_recording(path, rate=10.0, events="trigger")


def test_a_channel_of_hdf5(tmp_path: Path) -> None:
    path, trigger = tmp_path / "in.h5", np.zeros((50, 1))
    trigger[10:20], trigger[30:31] = 2, 5
    with h5py.File(path, "w") as file:
        file["data"] = np.hstack([X, trigger])
        file["data"].attrs.update(rate=10.0, channels=["Fz", "Cz", "TRIG"])
        gap = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
        file["gaps"] = np.array([(25, 25, 7, b"lost")], gap)
    with open_recording(path, events="TRIG") as recording:
        assert recording.channels == ("Fz", "Cz")
        assert recording.gaps == (Gap(25, 7, "lost"),)
        assert recording.has_events_in_samples
        assert list(recording.events) == [Event(10, "2", 1.0, "TRIG"), Event(37, "5", 0.1, "TRIG")]
        np.testing.assert_array_equal(read(recording), X)
