"""Rows that annotations mark as bad are those that MNE omits."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from igbss_stream.files.bad_rows import merge_rows
from igbss_stream.files.inspection import Examination, as_json, as_text, examine
from igbss_stream.files.open import open_recording
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.preparation.offline import PreparedRecording
from igbss_stream.preparation.settings import Preparation
from tests.files.test_layouts import write_snirf
from tests.files.test_mne_reader import interrupted
from tests.prepared import ArrayRecording

mne = pytest.importorskip("mne")

RATE = 256.0
X = np.random.default_rng(5).normal(0, 50e-6, (1024, 3))
ONSETS = [0.1, 0.2, 1.9981, 2.5, 3.0, 3.9]
DURATIONS = [0.2, 0.5, 0.0119, 0.0, 0.25, 9.0]
WORDS = ["bad", "BAD_muscle", "Bad Interval", "bad", "blink", "Bad"]


def make_raw(first: int = 0, meas_date: float | None = None) -> Any:
    info = mne.create_info(["a", "b", "c"], RATE, "eeg")
    raw = mne.io.RawArray(X.T, info, first_samp=first, verbose="ERROR")
    raw.set_meas_date(meas_date)
    before = 0.0 if meas_date is None else first / RATE
    raw.set_annotations(
        mne.Annotations(np.add(ONSETS, before), DURATIONS, WORDS, raw.info["meas_date"]), verbose="ERROR"
    )
    return raw


def assert_as_mne(path: Path) -> None:
    """Assert that the rows that are not bad are those that MNE returns."""
    raw = mne.io.read_raw(path, verbose="ERROR")
    if path.suffix == ".vhdr":  # "Comment/bad" in MNE
        raw.annotations.description = [text.split("/")[-1] for text in raw.annotations.description]
    want = raw.get_data(reject_by_annotation="omit", verbose="ERROR").T
    with open_recording(path) as recording:
        samples = np.concatenate([block.copy() for _, block in recording.read_blocks(100)])
        kept = np.ones(len(samples), bool)
        for start, stop in recording.bad_rows:
            kept[start:stop] = False
        assert len(recording.bad_rows) == 3
    np.testing.assert_array_equal(samples[kept], want)


@pytest.mark.parametrize("meas_date", [None, 1.7e9])
@pytest.mark.parametrize("first", [0, 301])
def test_annotations_of_fif(tmp_path: Path, meas_date: float | None, first: int) -> None:
    path = tmp_path / "in_raw.fif"
    make_raw(first, meas_date).save(path, fmt="double", verbose="ERROR")
    assert_as_mne(path)


@pytest.mark.parametrize("name", ["in.edf", "in.bdf", "in.vhdr"])
def test_annotations_of_other_formats(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pybv" if name.endswith("vhdr") else "edfio")
    mne.export.export_raw(tmp_path / name, make_raw(meas_date=1.7e9), verbose="ERROR")
    assert_as_mne(tmp_path / name)


def test_bad_rows_and_skips(tmp_path: Path) -> None:
    raw = make_raw()
    # bad from 0.5 s before the skip until 0.25 s after it, and inside it
    raw.set_annotations(
        mne.Annotations([1.0, 0.5, 1.2], [1.0, 1.75, 0.1], ["BAD_ACQ_SKIP", "bad", "bad_too"])
    )
    raw.save(tmp_path / "in_raw.fif", fmt="double", buffer_size_sec=0.25, verbose="ERROR")
    with open_recording(tmp_path / "in_raw.fif") as recording:
        assert [(gap.start, gap.n_samples) for gap in recording.gaps] == [(256, 256)]
        assert recording.bad_rows == ((128, 320),)


@pytest.mark.parametrize("kind", ["EDF", "BDF"])
def test_annotations_of_interrupted_records(tmp_path: Path, kind: str) -> None:
    path = interrupted(tmp_path / f"in.{kind.lower()}", ["0", "1.5", "2.5", "100.25"], kind)
    content = path.read_bytes()
    # in the last record: 0.25 s from its start, and 0.5 s that begin 0.25 s before the first interruption
    text = b"+100.25\x14\x14\0"
    more = text + b"+100.25\x150.25\x14BAD_x\x14\0" + b"+0.75\x150.5\x14bad\x14\0"
    at = content.rindex(text)
    path.write_bytes(content[:at] + more + content[at + len(more) :])
    with open_recording(path) as recording:
        assert recording.bad_rows == ((192, 256), (768, 832))


def test_inspect_lists_them(tmp_path: Path) -> None:
    path = tmp_path / "in_raw.fif"
    make_raw().save(path, fmt="double", verbose="ERROR")
    found = examine(path, ReadOptions())
    assert isinstance(found, Examination)
    assert found.bad_rows == ((26, 153), (512, 3), (998, 26))
    assert json.loads(as_json(path, found, None))["recording"]["bad_rows"] == [
        [26, 153],
        [512, 3],
        [998, 26],
    ]
    assert "bad samples by the file: 182, rows 26 to 178, 512 to 514, 998 to 1023\n" in as_text(found)


def test_invalid_times_of_nwb(tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb")
    path = tmp_path / "in.nwb"
    times = 7.0 + np.arange(1024) / RATE + (np.arange(1024) >= 512) * 100 / RATE
    write_nwb_samples(path, X, times, invalid=[(7.5, 7.75), (8.902, 9.5), (1e6, 2e6)])
    with pynwb.NWBHDF5IO(path, "r") as io:
        file = io.read()
        invalid = np.zeros(1024, bool)
        for start, stop in zip(
            file.invalid_times["start_time"], file.invalid_times["stop_time"], strict=True
        ):
            invalid |= (times >= start) & (times < stop)
    with open_recording(path) as recording:
        found = np.zeros(1024, bool)
        for start, stop in recording.bad_rows:
            found[start:stop] = True
        np.testing.assert_array_equal(found, invalid)
        assert recording.events.label.tolist() == ["BAD_artefact", "BAD_artefact"]


def write_nwb_samples(path: Path, x: Any, times: Any, invalid: list[tuple[float, float]]) -> None:
    """Write a series with pynwb, and intervals without valid samples."""
    pynwb = pytest.importorskip("pynwb")
    file = pynwb.NWBFile("a test", "x", datetime(2024, 5, 1, tzinfo=UTC))
    group = file.create_electrode_group("shank", "a probe", "cortex", file.create_device("probe"))
    for _ in range(x.shape[1]):
        file.add_electrode(group=group, location="cortex")
    region = file.create_electrode_table_region(list(range(x.shape[1])), "all")
    series = pynwb.ecephys.ElectricalSeries(name="ephys", data=x, electrodes=region, timestamps=times)
    file.add_acquisition(series)
    for start, stop in invalid:
        file.add_invalid_time_interval(start_time=start, stop_time=stop, tags=["artefact"])
    with pynwb.NWBHDF5IO(path, "w") as io:
        io.write(file, cache_spec=False)


def test_bad_stimuli_of_snirf(tmp_path: Path) -> None:
    path = tmp_path / "in.snirf"
    write_snirf(path, np.arange(60) / 10)
    with h5py.File(path, "r+") as file:
        for i, (name, rows) in enumerate(
            (("BAD_motion", [(1.0, 0.5, 1), (3.95, 9.0, 1)]), ("tap", [(2.0, 1.0, 1)]))
        ):
            file[f"nirs/stim{i + 1}/name"], file[f"nirs/stim{i + 1}/data"] = name, np.array(rows)
    with open_recording(path) as recording:
        assert recording.bad_rows == ((10, 15), (40, 60))  # 3.95 s is nearest to row 40 (to even)
        assert recording.events.count_labels() == {"BAD_motion": 2, "tap": 1}


def test_spans_are_merged() -> None:
    assert merge_rows([(5, 9), (-3, 2), (8, 10), (10, 11), (30, 99), (4, 4)], 40) == (
        (0, 2),
        (5, 11),
        (30, 40),
    )


@pytest.mark.parametrize("rate", [250.0, 100.0, 333.0])
def test_bad_rows_after_resampling_are_those_within_the_old_ones(rate: float) -> None:
    spans, gaps = ((10, 200), (390, 410), (990, 1000)), [(400, 333)]
    x = np.random.default_rng(0).normal(size=(1000, 3))
    source = ArrayRecording(x, gaps=gaps, bad_rows=spans)
    prepared = PreparedRecording(source, Preparation(resample=rate))

    def find_times(recording: Any) -> Any:
        """Return the time of each row, in old samples, from the gaps alone."""
        index = np.arange(recording.n_samples)
        for gap in recording.gaps:
            index[index >= gap.start] += gap.n_samples
        return index * 250.0 / recording.rate

    old, new = find_times(source), find_times(prepared)
    bad = np.zeros(prepared.n_samples, bool)
    for start, stop in prepared.bad_rows:
        bad[start:stop] = True
    want = np.zeros_like(bad)
    for start, stop in spans:
        for first, last in ((start, min(stop, 400)), (max(start, 400), stop)):
            if first < last:
                want |= (new > old[first] - 1e-9) & (new < old[last - 1] + 1 - 1e-9)
    np.testing.assert_array_equal(bad, want)
