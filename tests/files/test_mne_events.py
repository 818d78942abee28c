"""Events of the formats that MNE reads, compared with MNE's own reading of the same file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.errors import ParameterError
from igbss_stream.files.open import open_recording, open_with_options
from igbss_stream.files.read_options import ReadOptions
from tests.realdata import DATA, needs_data

mne = pytest.importorskip("mne")
RATE = 100.0
MEASURED = datetime(2021, 3, 4, 5, 6, 7, tzinfo=UTC)
ONSETS, LENGTHS, LABELS = [0.5, 1.234, 1.234, 4.0], [0.0, 0.5, 0.0, 0.25], ["go", "BAD_move", "stop", "ü"]


def make_raw(*, stim: bool = False, date: datetime | None = MEASURED) -> Any:
    """Return a Raw of 5 s; with a trigger channel, its pulses begin at 1, 2 and 4 s."""
    x = 1e-6 * np.random.default_rng(0).standard_normal((3 + stim, 500))
    if stim:
        x[3] = 0
        x[3, 100:110], x[3, 200:201], x[3, 400:] = 5, 7, 5
    names = ["Fz", "Cz", "Pz", "STI 014"][: 3 + stim]
    raw = mne.io.RawArray(x, mne.create_info(names, RATE, ["eeg"] * 3 + ["stim"] * stim), verbose="error")
    raw.set_meas_date(date)
    raw.set_annotations(mne.Annotations(ONSETS, LENGTHS, LABELS))
    return raw


@pytest.mark.parametrize("ending", ["edf", "bdf", "vhdr", "fif"])
def test_annotations_and_the_date_are_those_that_mne_reads(tmp_path: Path, ending: str) -> None:
    raw, path = make_raw(), tmp_path / f"raw.{ending}"
    if ending == "fif":
        raw.save(path, verbose="error")
    else:
        mne.export.export_raw(path, raw, verbose="error")
    again = mne.io.read_raw(path, verbose="error")
    with open_recording(path) as recording:
        events, t0 = recording.events, recording.t0
    onsets = (again.annotations.onset - again.first_time) * RATE
    wanted = [
        (round(float(onset), 4), text.removeprefix("Comment/"))
        for onset, text in zip(onsets, again.annotations.description, strict=True)
        if not text.startswith("New Segment")
    ]
    found = [(round(one.index, 4), one.label) for one in events]
    assert sorted(found) == sorted(wanted)
    assert sorted(events.label) == sorted(LABELS)
    np.testing.assert_allclose(events.index / RATE, ONSETS, atol=0.01)
    np.testing.assert_allclose(sorted(events.duration), sorted(LENGTHS), atol=0.0101)
    assert t0 == MEASURED.timestamp()


def test_onsets_in_a_trigger_channel_are_those_that_mne_finds(tmp_path: Path) -> None:
    raw, path = make_raw(stim=True), tmp_path / "raw.fif"
    raw.save(path, verbose="error")
    with open_recording(path) as recording:
        assert recording.has_events_in_samples
        found = recording.events[recording.events.source == "STI 014"]
        assert len(recording.events) == 7
    wanted = mne.find_events(raw, min_duration=0, verbose="error")
    assert list(zip(found.index, found.label, strict=True)) == [(at, str(code)) for at, _, code in wanted]
    assert found.duration.tolist() == [0.1, 0.01, 1.0]


def test_a_cropped_file_counts_from_its_first_sample(tmp_path: Path) -> None:
    path = tmp_path / "raw.fif"
    make_raw(stim=True).crop(1.0, None).save(path, verbose="error")
    with open_recording(path) as recording:
        assert recording.t0 == MEASURED.timestamp() + 1.0
        go = recording.events[recording.events.source == "annotations"]
        assert [(one.index, one.label) for one in go][-1] == (300, "ü")
        assert recording.events[recording.events.source == "STI 014"].index.tolist() == [100, 300]


def test_a_skip_counts_and_a_boundary_moves_the_events_after_it(tmp_path: Path) -> None:
    raw, path = make_raw(stim=True), tmp_path / "raw.fif"
    raw.set_annotations(
        mne.Annotations([1.5, 1.0, 3.0], [1.0, 0.0, 0.0], ["BAD_ACQ_SKIP", "before", "after"])
        + mne.Annotations([1.7], [0.0], ["inside"])
    )
    raw.save(path, verbose="error")
    with open_recording(path) as recording:
        marks = recording.events[recording.events.source == "annotations"]
        assert [(one.index, one.label) for one in marks] == [
            (100, "before"),
            (170, "inside"),
            (300, "after"),
        ]
        # the pulse at 2 s is in the skip, where no samples are read
        assert recording.events[recording.events.source == "STI 014"].index.tolist() == [100, 400]


def test_a_trigger_channel_can_be_named_and_must_exist(tmp_path: Path) -> None:
    raw, path = make_raw(stim=True), tmp_path / "raw.fif"
    raw.set_channel_types({"STI 014": "misc"}, verbose="error")
    raw.save(path, verbose="error")
    with open_with_options(path, ReadOptions(events="STI 014")) as recording:
        assert "STI 014" in recording.events.source
    with pytest.raises(ParameterError, match="no channel 'STI 015', which --events names"):
        open_with_options(path, ReadOptions(events=["STI 015"]))


@needs_data
def test_the_status_channel_of_biosemi_gives_the_events_of_mne() -> None:
    path = DATA / "eeg/test.bdf"
    raw = mne.io.read_raw(path, verbose="error")
    wanted = mne.find_events(
        raw, min_duration=0, mask=0xFFFF, mask_type="and", consecutive=True, verbose="error"
    )
    with open_recording(path) as recording:
        events = recording.events
    assert len(events) == 80
    assert list(zip(events.index, events.label, strict=True)) == [(at, str(c)) for at, _, c in wanted]


@needs_data
def test_the_sample_of_eeglab_has_154_events() -> None:
    with open_recording(DATA / "eeg/eeglab_data.set") as recording:
        assert recording.events.count_labels() == {"square": 80, "rt": 74}
