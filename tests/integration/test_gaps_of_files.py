"""Gaps that a file tells of are in the output of `batch`."""

from pathlib import Path

import h5py
import numpy as np

from tests.integration.conftest import Command
from tests.recordings import noise


def test_gaps_of_timestamps_are_written_and_read_again(
    igbss: Command, separated: Command, tmp_path: Path
) -> None:
    index = np.arange(60) + 40 * (np.arange(60) >= 20) + 3 * (np.arange(60) >= 50)
    with h5py.File(tmp_path / "in.nwb", "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        series = file.create_group("acquisition/ephys")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        series["data"], series["timestamps"] = noise(), index / 250
    separated(tmp_path / "in.nwb")
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["gaps"][:].tolist() == [(20, 20, 40, b"missing"), (50, 90, 3, b"missing")]
        # The indices of all rows follow from the table, as docs/recording.md says.
        gaps, row = file["gaps"][:], np.arange(60)
        known = np.concatenate([[0], gaps["start"] + gaps["n_samples"]])
        last = np.searchsorted(gaps["row"], row, side="right")
        np.testing.assert_array_equal(known[last] + row - np.append(0, gaps["row"])[last], index)
        assert file["sources"].shape == (60, 4)


def test_a_recording_without_gaps_has_no_table(separated: Command, recording: Path, tmp_path: Path) -> None:
    separated(recording)
    with h5py.File(tmp_path / "out.h5") as file:
        assert "gaps" not in file
