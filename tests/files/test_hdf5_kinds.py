"""HDF5 files as programs leave them: preallocated, transposed, one dataset a channel, with other times."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.inspection import Refusal, examine
from igbss_stream.files.open import open_recording
from igbss_stream.files.positions_dataset import make_positions_dataset
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.contents import describe_file
from igbss_stream.files.recording import Recording
from igbss_stream.positions import Positions
from tests.files.test_layouts import write_nwb

X = np.random.default_rng(1).normal(size=(2000, 4))


def read(recording: Recording) -> NDArray[Any]:
    return np.concatenate([block.copy() for _, block in recording.read_blocks(300)])


@pytest.mark.parametrize("chunks", [(100, 4), (256, 2), (1, 4), (4096, 1), True])
@pytest.mark.parametrize(("fill", "compression"), [(0, None), (-1, None), (0, "gzip")])
def test_rows_that_were_never_written_are_left_out(
    tmp_path: Path, chunks: Any, fill: float, compression: str | None
) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset(
            "data", (20_000, 4), "f4", chunks=chunks, fillvalue=fill, compression=compression
        )
        data[:2000] = X
        data.attrs["rate"] = 250.0
    with open_recording(path) as recording:
        assert recording.n_samples == 2000
        np.testing.assert_array_equal(read(recording), X.astype("f4"))
        assert recording.notes == ("the last 18000 of 20000 rows were never written, so they are left out",)


def test_rows_of_zeros_at_the_end_are_noted_where_the_storage_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (5000, 4), "f8")
        data[:2000] = X
    with open_recording(path) as recording:
        assert recording.n_samples == 5000
        assert recording.notes == ("the last 3000 rows are 0 in all channels; maybe never written",)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", (5000, 4), "f8")
    with pytest.raises(InputError, match="has no samples: none of its rows was written"):
        open_recording(path)


@pytest.mark.parametrize("storage", [{}, {"chunks": True}, {"chunks": (300, 4)}])
@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_rows_and_timestamps_that_were_never_written(
    tmp_path: Path, storage: dict[str, Any], fill: float
) -> None:
    path = tmp_path / "in.nwb"

    def allocate(file: Any, series: Any) -> None:
        del series["data"], series["starting_time"]
        data = series.create_dataset("data", (5000, 4), "f8", fillvalue=fill, **storage)
        times = series.create_dataset("timestamps", (5000,), "f8", fillvalue=fill)
        data[:2000], times[:2000] = X, 3 + np.arange(2000) / 250
        data.attrs["unit"] = "volts"

    write_nwb(path, allocate)
    with open_recording(path) as recording:
        assert (recording.n_samples, recording.rate, recording.gaps) == (2000, 250.0, ())
        assert recording.notes == ("the last 3000 of 5000 rows were never written, so they are left out",)
        expected = X * np.array([1.0, 2.0, 3.0, 4.0])
        np.testing.assert_allclose(read(recording), expected, rtol=1e-12)


def test_samples_of_zeros_with_timestamps_are_kept(tmp_path: Path) -> None:
    path, x = tmp_path / "in.nwb", X.copy()
    x[1500:] = 0

    def replace_data(file: Any, series: Any) -> None:
        del series["data"], series["starting_time"]
        series["data"], series["timestamps"] = x, 3 + np.arange(2000) / 250
        series["data"].attrs["unit"] = "volts"

    write_nwb(path, replace_data)
    with open_recording(path) as recording:
        assert recording.n_samples == 2000
        assert recording.notes == ("the last 500 rows are 0 in all channels; maybe never written",)


def test_missing_chunks_between_others_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", (2000, 4), "f8", chunks=(100, 4))
        data[:500], data[700:] = X[:500], X[700:]
    with open_recording(path) as recording:
        assert recording.notes == ("about 200 rows before the end were not written; they are read as 0",)


@pytest.mark.parametrize("how", ["electrodes", "timestamps"])
def test_a_transposed_nwb_is_refused_and_read_with_axis_1(tmp_path: Path, how: str) -> None:
    path, x = tmp_path / "in.nwb", np.random.default_rng(0).normal(size=(60, 4))

    def edit(file: Any, series: Any) -> None:
        conversion = dict(series["data"].attrs)
        del series["data"]
        series["data"] = x.T
        series["data"].attrs.update(conversion)
        if how == "timestamps":
            del series["starting_time"], series["electrodes"]
            series["timestamps"] = np.delete(np.arange(63), slice(30, 33)) / 250

    write_nwb(path, edit)
    with pytest.raises(
        RecordingError, match=r"has shape \(4, 60\).*was written transposed\. Pass --axis 1"
    ):
        open_recording(path)
    with open_recording(path, axis=1) as recording:
        assert (recording.n_samples, recording.n_channels) == (60, 4)
        assert recording.rate == 250
        assert recording.gaps == ((Gap(30, 3, "missing"),) if how == "timestamps" else ())
        np.testing.assert_allclose(read(recording), x * [1e-6, 2e-6, 3e-6, 4e-6] + 0.25)


@pytest.mark.parametrize("missing", [[500], [0], [1999], [500, 501, 900]])
def test_single_timestamps_that_are_nan_are_bridged(tmp_path: Path, missing: list[int]) -> None:
    path, times = tmp_path / "in.nwb", np.delete(np.arange(2500), slice(1000, 1500)) / 250

    def edit(file: Any, series: Any) -> None:
        conversion = dict(series["data"].attrs)
        del series["data"], series["starting_time"]
        series["data"] = X
        series["data"].attrs.update(conversion)
        times[missing] = np.nan
        series["timestamps"] = times

    write_nwb(path, edit)
    for options in ({}, {"rate": 250.0}):
        with open_recording(path, **options) as recording:  # type: ignore[arg-type]  # rate is a float
            assert (recording.rate, recording.gaps) == (250.0, (Gap(1000, 500, "missing"),))
            assert f"{len(missing)} of the timestamps are NaN" in " ".join(recording.notes)
    times[:300] = np.nan
    missing = list(range(300))
    path.unlink()
    write_nwb(path, edit)
    with pytest.raises(RecordingError, match="timestamps that are NaN or infinite; pass --rate"):
        open_recording(path)


@pytest.mark.parametrize("shape", [(2000, 1), (1, 2000), (2000,), (2, 1)])
def test_snirf_times_of_any_shape(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path, times = tmp_path / "in.snirf", np.arange(2000) / 10
    with h5py.File(path, "w") as file:
        block = file.create_group("nirs/data1")
        block["dataTimeSeries"] = X
        block["time"] = np.array([[0.0], [0.1]]) if shape == (2, 1) else times.reshape(shape)
    with open_recording(path) as recording:
        assert (recording.rate, recording.n_samples) == (10.0, 2000)


def test_one_dataset_a_channel(tmp_path: Path) -> None:
    path = tmp_path / "in.h5"
    with h5py.File(path, "w") as file:
        for i, name in enumerate(("ecg", "emg/left", "emg/right")):
            file[name] = X[:, i] if i else X[:, :1].astype("f4")
            file[name].attrs.update(rate=100.0, unit="mV")
        file["short"] = X[:10, 0]
    with pytest.raises(
        RecordingError, match=r"pass --dataset /ecg,/emg/left,/emg/right to read one dataset a"
    ):
        open_recording(path)
    with open_recording(path, dataset="ecg,emg/left,/emg/right", channels="right,ecg") as recording:
        assert (recording.rate, recording.unit, recording.channels) == (100.0, "mV", ("right", "ecg"))
        np.testing.assert_array_equal(read(recording), np.column_stack([X[:, 2], X[:, 0].astype("f4")]))
    with pytest.raises(RecordingError, match=r"differ in the number of samples.*short 10"):
        open_recording(path, dataset="ecg,short")
    with pytest.raises(RecordingError, match="has no dataset '/eog'"):
        open_recording(path, dataset="ecg,eog")
    with pytest.raises(ParameterError, match="only one possible axis"):
        open_recording(path, dataset="ecg,emg/left", axis=1)


def test_fieldtrip(tmp_path: Path) -> None:
    path = tmp_path / "in.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        refs, data = file.create_group("#refs#"), file.create_group("data")
        data["fsample"] = np.array([[500.0]])
        data["grad/tra"] = np.eye(5)
        texts = []
        for i, name in enumerate(("MLC11", "MLC12", "MLC13", "MLC14")):
            refs[f"n{i}"] = np.array([[ord(c)] for c in name], "u2")
            texts.append(refs[f"n{i}"].ref)
        refs["t"] = X
        data["label"] = np.array([texts], h5py.ref_dtype)
        data["trial"] = np.array([[refs["t"].ref]], h5py.ref_dtype)
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate) == ("FieldTrip", 500.0)
        assert recording.channels == ("MLC11", "MLC12", "MLC13", "MLC14")
        np.testing.assert_array_equal(read(recording), X)
    with open_recording(path, axis=1) as recording:  # columns are samples, as the layout has it
        assert recording.channels == ("MLC11", "MLC12", "MLC13", "MLC14")
    with open_recording(path, axis=0) as recording:
        np.testing.assert_array_equal(read(recording), X.T)


def test_positions_and_weights_are_no_samples(tmp_path: Path) -> None:
    path, names = tmp_path / "in.h5", ["Fz", "Cz", "Pz", "Oz"]
    xyz, attributes = make_positions_dataset(
        Positions.from_table(names, np.eye(4, 3), "head", "test"), names
    )
    with h5py.File(path, "w") as file:
        file["sources"] = X
        for name, value in (
            ("positions", xyz),
            ("mixing", np.eye(4)),
            ("unmixing", np.eye(4)),
            ("other", xyz),
        ):
            file[name] = value
            file[name].attrs["channels"] = names
        file["positions"].attrs.update({k: v for k, v in attributes.items() if v is not None})
    listed = {d.name: (d.usable, d.note) for d in describe_file(path).datasets}
    assert listed == {
        "/mixing": (False, "weights of sources, not samples"),
        "/other": (True, ""),
        "/positions": (False, "electrode positions, not samples"),
        "/sources": (True, ""),
        "/unmixing": (False, "weights of sources, not samples"),
    }
    found = examine(path, ReadOptions())
    assert isinstance(found, Refusal)
    assert [signal.option for signal in found.signals] == ["--dataset '/other'", "--dataset '/sources'"]
    with h5py.File(path, "r+") as file:
        del file["unmixing"], file["positions"].attrs["frame"]
    assert [d.usable for d in describe_file(path).datasets] == [True] * 4
