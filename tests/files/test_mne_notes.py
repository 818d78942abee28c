"""Files that MNE reads but for a warning: damaged, renamed, split, without a scale or without samples."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.batch.inputs import find_recordings
from igbss_stream.errors import InputError, RecordingError
from igbss_stream.files.open import open_recording
from tests.files.test_mne_reader import write_edf

mne = pytest.importorskip("mne")


def patch(path: Path, at: int, text: str, width: int = 8) -> Path:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(text.ljust(width).encode())
    return path


def notes_of(path: Path, **options: Any) -> str:
    with open_recording(path, **options) as recording:
        return " / ".join(recording.notes)


@pytest.mark.parametrize("n_records", ["-1", "99999"])
def test_a_wrong_number_of_records_is_noted(tmp_path: Path, n_records: str) -> None:
    path = patch(write_edf(tmp_path / "in.edf"), 236, n_records)
    assert "MNE warns: Number of records from the header does not match" in notes_of(path)


def test_a_truncated_file_and_equal_labels_are_noted(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf")
    assert notes_of(path) == ""
    patch(path, 256, "same", 16)
    patch(path, 256 + 16, "same", 16)
    assert "MNE warns: Channel names are not unique" in notes_of(path)
    path.write_bytes(path.read_bytes()[:-700])
    assert "does not match the file size" in notes_of(path)


@pytest.mark.parametrize("field", [104, 120])
def test_channels_without_a_scale_are_asked_about(tmp_path: Path, field: int) -> None:
    path = write_edf(tmp_path / "in.edf")
    for side in (field, field + 8):
        patch(path, 256 + side * 3 + 8, "100")  # of the second of three channels
    with pytest.raises(RecordingError, match=r"states no scale for the channels .*--channels 0,2 to omit"):
        open_recording(path)
    with open_recording(path, channels="0,2") as recording:
        assert (recording.n_channels, recording.unit) == (2, "V")
    if field == 104:
        with open_recording(path, channels="0-2") as recording:
            assert recording.unit is None
            assert "so the unit is unknown" in " ".join(recording.notes)


def test_a_header_without_samples(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf")
    path.write_bytes(path.read_bytes()[: 256 * 4])
    with pytest.raises((InputError, RecordingError), match=r"no samples|cannot read it"):
        open_recording(path)


def test_annotations_without_samples(tmp_path: Path) -> None:
    edfio = pytest.importorskip("edfio")
    path = tmp_path / "in.edf"
    edfio.Edf([], annotations=[edfio.EdfAnnotation(1.0, None, "x")]).write(path)
    with pytest.raises(InputError, match="annotations alone, without samples; pass the recording"):
        open_recording(path)


def write_brainvision(folder: Path) -> Path:
    pybv = pytest.importorskip("pybv")
    x = np.random.default_rng(0).normal(size=(3, 500)) * 1e-5
    marks = [{"onset": 100, "duration": 1, "description": 1, "type": "Stimulus", "channels": "all"}]
    pybv.write_brainvision(
        data=x, sfreq=250.0, ch_names=["a", "b", "c"], fname_base="old", folder_out=folder, events=marks
    )
    return folder / "old.vhdr"


def test_renamed_brainvision(tmp_path: Path) -> None:
    path = write_brainvision(tmp_path)
    with open_recording(path) as recording:
        expected = np.concatenate([block.copy() for _, block in recording.read_blocks(100)])
        assert recording.notes == ()
    for ending in (".vhdr", ".eeg", ".vmrk"):
        (tmp_path / f"old{ending}").rename(tmp_path / f"new name{ending}")
    with open_recording(tmp_path / "new name.vhdr") as recording:
        found = np.concatenate([block.copy() for _, block in recording.read_blocks(100)])
        np.testing.assert_array_equal(found, expected)
        assert recording.path == tmp_path / "new name.vhdr"
        assert len(recording.events) == 1
        assert "the header names 'old.eeg', which is missing; 'new name.eeg'" in recording.notes[0]
    (tmp_path / "new name.vmrk").unlink()
    with open_recording(tmp_path / "new name.vhdr") as recording:
        assert "not found" in recording.notes[-1]
    (tmp_path / "new name.eeg").unlink()
    with pytest.raises(
        RecordingError, match=r"names the file of its samples, 'old.eeg', which is not beside"
    ):
        open_recording(tmp_path / "new name.vhdr")


@pytest.mark.parametrize("name", ["DataFile", "MarkerFile"])
def test_brainvision_that_names_files_as_no_disk_can(tmp_path: Path, name: str) -> None:
    path = write_brainvision(tmp_path)
    with open_recording(path) as recording:
        expected = np.concatenate([block.copy() for _, block in recording.read_blocks(100)])
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(f"{name}=.*", f"{name}={'x' * 300}", text), encoding="utf-8")
    with open_recording(path) as recording:
        np.testing.assert_array_equal(next(recording.read_blocks(1 << 20))[1], expected)
        assert "which is missing; 'old." in recording.notes[0]


@pytest.mark.parametrize("naming", ["neuromag", "bids"])
def test_parts_of_a_split_fif_are_one_recording(tmp_path: Path, naming: str) -> None:
    x = np.random.default_rng(0).normal(size=(16, 40_000)) * 1e-6
    raw = mne.io.RawArray(x, mne.create_info(16, 1000.0, "eeg"), verbose="ERROR")
    path = tmp_path / "in_raw.fif"
    raw.save(path, split_size="2MB", split_naming=naming, buffer_size_sec=1, verbose="ERROR")
    files = sorted(tmp_path.iterdir())
    assert len(files) > 1
    for inputs in ([str(tmp_path)], [str(tmp_path / "*.fif")]):
        (only,) = find_recordings(inputs)
        with open_recording(only.path) as recording:
            assert (recording.n_samples, recording.notes) == (40_000, ())
    later = next(each for each in files if each != only.path)
    assert "this file continues" in notes_of(later)
    only.path.unlink()
    assert find_recordings([str(tmp_path)])
