"""Channels that count samples, and values that mean missing, in files of all formats."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.files.counters import SampleCounter, find_counter, find_losses
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.inspection import Examination, examine
from igbss_stream.files.open import open_recording
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Recording
from igbss_stream.files.standing_out import find_outstanding_value

X = np.random.default_rng(5).normal(scale=20, size=(1000, 3))
COUNT = np.arange(1000)


def write_hdf5(path: Path, x: NDArray[Any]) -> Path:
    with h5py.File(path, "w") as file:
        file["data"] = x
        file["data"].attrs.update(rate=250.0, channels=["a", "b", "c", "status"][: x.shape[1]])
    return path


@pytest.mark.parametrize("modulus", [3, 7, 16, 100, 201, 256, 65536])
@pytest.mark.parametrize("step", [1, -2, 0.25, 3.1e-7])
@pytest.mark.parametrize("repeat", [1, 2, 5])
def test_counters_of_any_modulus_and_scale_are_found(modulus: int, step: float, repeat: int) -> None:
    values = COUNT // repeat % modulus * step + 5 * step
    found = find_counter(values)
    assert found is not None
    assert found.step == pytest.approx(step)
    assert found.repeat == repeat
    wraps = modulus * repeat < 1000
    assert found.modulus == (pytest.approx(modulus * abs(step)) if wraps else None)
    lost = min(modulus - 2, 5)
    kept = np.delete(values, slice(600, 600 + lost * repeat))
    losses = find_losses(kept, found)
    assert losses is not None
    assert [(abs(row - 600) < repeat, n) for row, n in losses] == [(True, lost * repeat)]


@pytest.mark.parametrize(
    "values",
    [
        X[:, 0],
        np.round(X[:, 0]),
        np.sin(COUNT / 5),
        np.zeros(1000),
        np.where(COUNT % 100 < 50, 0.0, 1.0),
        np.cumsum(np.abs(X[:, 0])),
        np.full(1000, np.nan),
    ],
)
def test_signals_do_not_count(values: NDArray[Any]) -> None:
    assert find_counter(values) is None


def test_a_counter_that_restarts_or_jumps_too_often() -> None:
    counter = SampleCounter(1, None)
    values = np.concatenate([np.arange(500), np.arange(500)])
    assert find_losses(values, counter) == [(500, 0)]
    assert find_losses(np.delete(COUNT, np.arange(100, 900, 20)), counter) is None
    assert find_losses(np.insert(COUNT, 300, 299), counter) == []


@pytest.mark.parametrize("modulus", [16, 200, 100_000])
def test_a_channel_that_counts_is_left_out(tmp_path: Path, modulus: int) -> None:
    path = write_hdf5(tmp_path / "in.h5", np.column_stack([X, COUNT % modulus]))
    with open_recording(path) as recording:
        assert recording.channels == ("a", "b", "c")
        np.testing.assert_array_equal(next(iter(recording.read_blocks(1000)))[1], X)
        assert "channels that count samples are omitted: status counts" in recording.notes[0]
    with open_recording(path, channels="0-3") as recording:
        assert (recording.n_channels, recording.notes) == (4, ())


def test_a_counter_beside_one_channel_is_refused_and_counters_alone_are_read(tmp_path: Path) -> None:
    path = write_hdf5(tmp_path / "in.h5", np.column_stack([X[:, 0], COUNT % 16]))
    with pytest.raises(
        InputError, match=r"one channel beside those that count samples \(b counts modulo 16\)"
    ):
        open_recording(path)
    path = write_hdf5(tmp_path / "in.h5", np.column_stack([COUNT, -COUNT]))
    with open_recording(path) as recording:
        assert recording.n_channels == 2


def test_a_counter_in_fif(tmp_path: Path) -> None:
    mne = pytest.importorskip("mne")
    info = mne.create_info(["a", "b", "c", "packets"], 250.0, "eeg")
    path = tmp_path / "in_raw.fif"
    x = np.column_stack([X, COUNT % 128]).T * 1e-6
    mne.io.RawArray(x, info, verbose="ERROR").save(path, verbose="ERROR")
    with open_recording(path) as recording:
        assert recording.channels == ("a", "b", "c")
        assert "packets counts modulo 128" in recording.notes[-1]


LOST = slice(400, 450)  # of the samples counted modulo 256


def lose(x: NDArray[Any]) -> NDArray[Any]:
    return np.delete(np.column_stack([x, COUNT % 256]), LOST, axis=0)


def write_counted_hdf5(path: Path) -> Path:
    return write_hdf5(path.with_suffix(".h5"), lose(X))


def write_counted_edf(path: Path) -> Path:
    edfio = pytest.importorskip("edfio")
    signals = [
        edfio.EdfSignal(column, 50, label=f"C{i}", physical_range=(-327.68, 327.67))
        for i, column in enumerate(lose(X)[:950].T)
    ]
    edfio.Edf(
        signals,
        annotations=[edfio.EdfAnnotation(4.0, None, "before"), edfio.EdfAnnotation(12.0, None, "after")],
    ).write(path.with_suffix(".edf"))
    return path.with_suffix(".edf")


def write_counted_fif(path: Path) -> Path:
    mne = pytest.importorskip("mne")
    raw = mne.io.RawArray(lose(X).T * 1e-6, mne.create_info(4, 50.0, "eeg"), verbose="ERROR")
    raw.set_annotations(mne.Annotations([4.0, 12.0], 0.0, ["before", "after"]))
    raw.save(path.with_name("in_raw.fif"), verbose="ERROR")
    return path.with_name("in_raw.fif")


def write_counted_xdf(path: Path) -> Path:
    pytest.importorskip("pyxdf")
    from tests.files.test_xdf_reader import header, samples, write

    burst = 100.0 + np.arange(950) // 10 * 10 / 250  # whose times do not show so short a loss
    x = lose(X).astype("f4")
    return write(path, header(1, "eeg"), samples(1, x, burst))


@pytest.mark.parametrize(
    "write", [write_counted_hdf5, write_counted_edf, write_counted_fif, write_counted_xdf]
)
def test_jumps_of_a_counter_are_gaps(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    if write is write_counted_edf:
        pytest.importorskip("mne")
    path = write(tmp_path / "in")
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(400, 50, "missing")])
        assert recording.n_channels == 3
        assert any("gaps follow from a counter" in note for note in recording.notes)
        at = dict(zip(recording.events.label, recording.events.index, strict=True))
        assert not at or at == {"before": 200, "after": 650}
    with open_recording(path, channels="0,1") as recording:
        assert recording.gaps == make_gaps([(400, 50, "missing")])


def test_fast_inspection_reads_the_first_samples_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, longest = np.delete(np.arange(9100), slice(8000, 8100)), list[int]()
    path = write_hdf5(tmp_path / "in.h5", np.column_stack([np.tile(X, (9, 1)), count]))
    stored = Recording.read_stored

    def read_stored(self: Recording, n_samples: int, *channels: Any) -> NDArray[Any]:
        longest.append(n_samples)
        return stored(self, n_samples, *channels)

    monkeypatch.setattr(Recording, "read_stored", read_stored)
    for read, n_gaps, n in ((False, 0, 4096), (True, 1, 9000)):
        longest.clear()
        found = examine(path, ReadOptions(), read=read)
        assert isinstance(found, Examination)
        assert (len(found.gaps), max(longest)) == (n_gaps, n)
        assert any("it was not read, so its gaps are unknown" in note for note in found.notes) != read


def test_gaps_of_a_counter_and_of_the_file(tmp_path: Path) -> None:
    path = write_counted_hdf5(tmp_path / "in")
    gap = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
    with h5py.File(path, "r+") as file:
        file["gaps"] = np.array(
            [(100, 100, 7, b"lost"), (400, 407, 20, b"lost"), (700, 727, 0, b"restart")], gap
        )
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(100, 7, "lost"), (400, 50, "missing"), (700, 0, "restart")])


def test_a_counter_that_jumps_too_often_is_no_evidence(tmp_path: Path) -> None:
    x = np.column_stack([np.tile(X, (6, 1)), np.arange(6000)])
    x = np.concatenate([x[:4500], x[4500::3]])
    with open_recording(write_hdf5(tmp_path / "in.h5", x)) as recording:
        assert recording.gaps == ()
        assert recording.notes[-1] == "status counts, but jumps too often to show what is missing"


def test_a_number_that_means_missing_becomes_nan(tmp_path: Path) -> None:
    x = np.abs(np.round(X, 1))
    x[100:130, 0] = x[500:505, 2] = -200
    path = write_hdf5(tmp_path / "in.h5", x)
    with open_recording(path) as recording:
        assert recording.notes == (
            "-200 occurs 35 times in the first 1000 rows and stands out; if it means that samples are "
            "missing, pass --missing -200",
        )
    with open_recording(path, missing=-200, factor=2.0) as recording:
        assert recording.notes == ()
        found = next(iter(recording.read_blocks(1000)))[1]
        np.testing.assert_array_equal(found, np.where(x == -200, np.nan, 2 * x))
    with pytest.raises(ParameterError, match="missing must be a finite number"):
        open_recording(path, missing=float("nan"))


@pytest.mark.parametrize(
    ("value", "n", "found"), [(-9999.0, 3, True), (-9999.0, 2, False), (-60.0, 9, False)]
)
def test_a_value_stands_out_by_its_number_and_its_distance(value: float, n: int, found: bool) -> None:
    x = X.copy()
    x[:n, 1] = value
    assert find_outstanding_value(x) == ((value, n) if found else None)


def test_digital_and_railed_channels_do_not_stand_out() -> None:
    digital = np.where(COUNT % 100 < 50, 0.0, 255.0)
    railed = np.clip(X[:, 0], -30, 30)
    assert find_outstanding_value(np.column_stack([digital, railed, X[:, 1]])) is None
