"""Layouts of HDF5: files written by the tests are read as the original arrays."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import IgbssError, InputError, ParameterError, RecordingError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.hdf5.contents import describe_file
from igbss_stream.files.readers.hdf5.layouts.pickled_names import read_pickled_names
from igbss_stream.files.recording import Recording
from igbss_stream.files.signal_choice import SeveralSignalsError

X = np.random.default_rng(3).integers(-2000, 2000, (60, 4)).astype("i2")
NAMES = ("Fz", "Cz", "Pz", "Oz")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.h5"


def read(recording: Recording, n: int = 7) -> NDArray[Any]:
    return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


def refusal(path: Path, kind: type[IgbssError] = RecordingError, **options: Any) -> str:
    with pytest.raises(kind) as error:
        open_recording(path, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# Plain


def test_the_only_two_dimensional_dataset_needs_no_name(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["eeg/raw"], file["eeg/marks"], file["about"] = X, np.arange(60), "eyes closed"
    with open_recording(path) as recording:
        assert (recording.layout, recording.dataset) == ("plain", "/eeg/raw")
        assert "/eeg/raw is its only" in recording.why
        np.testing.assert_array_equal(read(recording), X)


def test_recorded_gaps_are_kept(path: Path) -> None:
    gap = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
    with h5py.File(path, "w") as file:
        file["data"] = X
        file["gaps"] = np.array([(0, 0, 5, b"lost"), (20, 25, 3, b"lost"), (40, 48, 0, b"restart")], gap)
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(20, 3, "lost"), (40, 0, "restart")])


# Options


def test_options_override_the_file(path: Path) -> None:
    write_nwb(path)
    options: dict[str, Any] = {"rate": 99.0, "unit": "mV", "factor": 0.5, "channels": "Oz,0-1"}
    with open_recording(path, **options) as recording:
        assert (recording.rate, recording.unit) == (99.0, "mV")
        assert recording.channels == ("Oz", "Fz", "Cz")
        np.testing.assert_array_equal(read(recording), X[:, [3, 0, 1]] * np.float32(0.5))
    with open_recording(path, factor=2.0) as recording:
        assert recording.unit is None


@pytest.mark.parametrize(
    ("channels", "message"),
    [
        ("Fz,Nz", "no channel 'Nz'; pass names, positions from 0 to 3"),
        ("4", "no channel '4'"),
        ("2-9", "no channel '2-9'"),
        ("Fz,0", "'Fz' twice"),
        ("", "channels is empty"),
    ],
)
def test_channels_that_are_not_there(path: Path, channels: str, message: str) -> None:
    write_nwb(path)
    assert message in refusal(path, ParameterError, channels=channels)


def test_one_channel_is_too_few(path: Path) -> None:
    write_nwb(path)
    assert "has one channel" in refusal(path, InputError, channels="Cz")


@pytest.mark.parametrize("factor", [0.0, np.nan, np.inf, "big"])
def test_impossible_factor(path: Path, factor: Any) -> None:
    assert "other than 0" in refusal(path, ParameterError, factor=factor)


# NWB


def write_nwb(path: Path, edit: Callable[[Any, Any], object] = lambda file, series: None) -> None:
    with h5py.File(path, "w") as file:
        file.attrs.update(nwb_version="2.7.0", neurodata_type="NWBFile")
        table = file.create_group("general/extracellular_ephys/electrodes")
        table["id"], table["label"] = np.arange(6), ["a", *NAMES, "b"]
        series = file.create_group("acquisition/ephys")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        series["data"] = X
        series["data"].attrs.update(unit="volts", conversion=1e-6, offset=0.25)
        series["channel_conversion"] = np.array([1.0, 2.0, 3.0, 4.0])
        series["starting_time"] = 3.0
        series["starting_time"].attrs["rate"] = 250.0
        series["electrodes"] = np.arange(1, 5)
        series["electrodes"].attrs["table"] = table.ref
        edit(file, series)


def test_nwb_series(path: Path) -> None:
    write_nwb(path)
    with open_recording(path) as recording:
        assert (recording.layout, recording.dataset) == ("NWB", "/acquisition/ephys/data")
        assert (recording.rate, recording.unit, recording.channels) == (250.0, "V", NAMES)
        expected = X * (1e-6 * np.array([1.0, 2.0, 3.0, 4.0])) + 0.25
        np.testing.assert_allclose(read(recording), expected, rtol=2**-23)
        assert recording.dtype == np.float32


def test_nwb_names_electrodes_without_labels_by_id(path: Path) -> None:
    write_nwb(path, lambda f, s: f["general/extracellular_ephys/electrodes"].pop("label"))
    with open_recording(path) as recording:
        assert recording.channels == ("electrode-1", "electrode-2", "electrode-3", "electrode-4")


def with_times(times: NDArray[Any]) -> Callable[[Any, Any], object]:
    def edit(file: Any, series: Any) -> None:
        series.pop("starting_time")
        series["timestamps"] = times

    return edit


def test_nwb_timestamps_with_gaps(path: Path) -> None:
    index = np.arange(60) + 40 * (np.arange(60) >= 20) + 3 * (np.arange(60) >= 50)
    write_nwb(path, with_times(1e9 + index / 250))
    with open_recording(path) as recording:
        assert recording.rate == pytest.approx(250.0, rel=1e-5)
        assert recording.gaps == make_gaps([(20, 40, "missing"), (50, 3, "missing")])


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.arange(60)[::-1] / 250, "timestamps that do not increase"),
        (
            np.cumsum(1 + np.arange(60) % 3) / 250,
            "unevenly sampled: its timestamps are 0.004 to 0.012 s apart",
        ),
        (np.full(60, np.nan), "NaN"),
        (np.arange(59) / 250, "59 timestamps for 60 samples"),
    ],
)
def test_nwb_timestamps_without_a_rate(path: Path, times: NDArray[Any], message: str) -> None:
    write_nwb(path, with_times(times))
    said = refusal(path)
    assert message in said
    assert "--rate" in said
    with open_recording(path, rate=10.0) as recording:
        assert (recording.rate, recording.gaps) == (10.0, ())


def test_nwb_with_two_series_lists_both(path: Path) -> None:
    write_nwb(path, lambda file, series: file.copy(series, "acquisition/other"))
    said = refusal(path)
    for name in ("'/acquisition/ephys/data'", "'/acquisition/other/data'"):
        assert f"{name} (60 samples of 4 channels)" in said
    with open_recording(path, "/acquisition/other/data") as recording:
        assert recording.rate == 250.0


def test_only_the_timestamps_of_the_selected_series_are_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def edit(file: Any, series: Any) -> None:
        with_times(np.arange(60) / 250)(file, series)
        file.copy(series, "acquisition/other")
        del file["acquisition/other/timestamps"]
        file["acquisition/other/timestamps"] = np.arange(60) / 500

    write_nwb(path, edit)
    came: list[str] = []
    getitem = h5py.Dataset.__getitem__

    def watched(handle: Any, *args: Any, **options: Any) -> Any:
        came.append(handle.name)
        return getitem(handle, *args, **options)

    monkeypatch.setattr(h5py.Dataset, "__getitem__", watched)
    with open_recording(path, "/acquisition/other/data") as recording:
        assert recording.rate == pytest.approx(500.0)
    assert "/acquisition/other/timestamps" in came
    assert "/acquisition/ephys/timestamps" not in came
    with pytest.raises(SeveralSignalsError) as caught:
        open_recording(path)
    assert [signal.rate for signal in caught.value.signals] == pytest.approx([250.0, 500.0])


def test_nwb_without_series(path: Path) -> None:
    write_nwb(path, lambda file, series: series.attrs.update(neurodata_type="ImageSeries"))
    assert "has no ElectricalSeries" in refusal(path)
    with open_recording(path, "acquisition/ephys/data") as recording:
        assert recording.layout == "plain"
        np.testing.assert_array_equal(read(recording), X)


# SNIRF


def write_snirf(path: Path, time: Any, *, compact: bool = False) -> None:
    with h5py.File(path, "w") as file:
        file["formatVersion"] = "1.1"
        file["nirs/metaDataTags/TimeUnit"] = "ms"
        file["nirs/probe/wavelengths"] = [760.0, 850.0]
        block = file.create_group("nirs/data1")
        block["dataTimeSeries"], block["time"] = X.astype("f8"), time
        indices = {
            "sourceIndex": [1, 1, 2, 2],
            "detectorIndex": [1, 1, 3, 3],
            "wavelengthIndex": [1, 2, 1, 2],
        }
        if compact:
            for key, values in indices.items():
                block[f"measurementLists/{key}"] = values
            block["measurementLists/dataType"], block["measurementLists/dataUnit"] = [1] * 4, ["V"] * 4
            return
        for i in range(4):
            for key, values in indices.items():
                block[f"measurementList{i + 1}/{key}"] = values[i]
            block[f"measurementList{i + 1}/dataType"], block[f"measurementList{i + 1}/dataUnit"] = 1, "V"


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("time", [np.arange(60) * 20.0, [0.0, 20.0]], ids=["each", "spacing"])
def test_snirf(path: Path, time: Any, compact: bool) -> None:
    write_snirf(path, time, compact=compact)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("SNIRF", 50.0, "V")
        assert recording.channels == ("S1_D1 760", "S1_D1 850", "S2_D3 760", "S2_D3 850")
        assert set(recording.types) == {"continuous-wave amplitude"}
        np.testing.assert_array_equal(read(recording), X)


# Tables of pandas


def write_table(path: Path, times: NDArray[Any], kind: Any = None) -> None:
    row = np.dtype(
        [("index", "<i8"), ("values_block_0", "<f8", (3,)), ("values_block_1", "<i4", (1,)), ("mark", "S4")]
    )
    table = np.zeros(60, row)
    table["index"], table["values_block_0"], table["values_block_1"] = times, X[:, :3] / 8, X[:, 3:]
    with h5py.File(path, "w") as file:
        file.attrs["PYTABLES_FORMAT_VERSION"] = "2.1"
        file.create_group("raw").attrs["pandas_type"] = "frame_table"
        file.create_dataset("raw/table", data=table, chunks=(16,)).attrs["index_kind"] = "datetime64"
        kinds = pickle.dumps(["Fz", "Cz", "Pz"], 0) if kind is None else kind
        file["raw/table"].attrs["values_block_0_kind"] = np.bytes_(kinds)
        file["raw/table"].attrs["values_block_1_kind"] = np.bytes_(pickle.dumps([7], 0))


def test_table(path: Path) -> None:
    write_table(
        path, 1_665_757_634_994_958_000 + np.arange(60) * 4_000_000 + 12_000_000 * (np.arange(60) > 9)
    )
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate) == ("pandas table", 250.0)
        assert recording.channels == ("Fz", "Cz", "Pz", "7")
        assert recording.gaps == make_gaps([(10, 3, "missing")])
        assert recording.notes == ("columns that are not numbers are omitted: mark",)
        np.testing.assert_array_equal(read(recording), np.column_stack([X[:, :3] / 8, X[:, 3]]))


class Evil:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("a pickle was run",))


def test_no_pickle_is_run(path: Path) -> None:
    write_table(path, np.arange(60) * 4_000_000, kind=pickle.dumps(Evil(), 0))
    with open_recording(path) as recording:
        assert recording.channels == ("channel-0", "channel-1", "channel-2", "7")
        assert "without unpickling" in recording.notes[1]


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("names", [["a", "ä\n", "c"], ["x"], [1, 2, 300], ["x"] * 2000, []])
def test_names_are_those_that_pickle_loads(protocol: int, names: list[Any]) -> None:
    pickled = pickle.dumps(names, protocol)
    found = read_pickled_names(pickled)
    # A text that occurs twice is stored once and referenced, which is not supported.
    assert found == tuple(map(str, names)) or (len(set(names)) < len(names) and found == ())


@pytest.mark.parametrize(
    "value", [b"", b"garbage", b"(lp0\nVa", None, 5, pickle.dumps({"a": 1}), pickle.dumps([["a"], ["b"]])]
)
def test_no_names(value: Any) -> None:
    assert read_pickled_names(value) == ()


# MATLAB and EEGLAB


def text(value: str) -> NDArray[np.uint16]:
    return np.frombuffer(value.encode("utf-16-le"), "u2").reshape(-1, 1)


def matlab(group: Any, name: str, value: Any, kind: str = "double") -> Any:
    group[name] = value
    group[name].attrs["MATLAB_class"] = np.bytes_(kind)
    return group[name]


def write_set(path: Path, data: NDArray[Any] | str, **numbers: float) -> None:
    stated = {"srate": 128.0, "nbchan": 4.0, "pnts": 60.0, "trials": 1.0} | numbers
    with h5py.File(path, "w") as file:
        eeg = file.create_group("EEG")
        eeg.attrs["MATLAB_class"] = np.bytes_("struct")
        for name, value in stated.items():
            matlab(eeg, name, np.array([[value]]))
        if isinstance(data, str):
            matlab(eeg, "data", text(data), "char")
        else:
            matlab(eeg, "data", data, "single")
        for field, values in {
            "chanlocs/labels": NAMES,
            "chanlocs/type": ("EEG", "EEG", "EEG", "EOG"),
            "event/type": ("boundary", "square", "boundary", "boundary", "BAD_muscle", "bad", "bad"),
        }.items():
            refer(
                eeg,
                field,
                [matlab(file, f"#refs#/{field}{i}", text(v), "char") for i, v in enumerate(values)],
            )
        for field, places in {
            "latency": [0.5, 9, 20.5, 31.5, 41, 45, 59],
            "duration": [0, 0, 12, np.nan, 8, 6, 99],
        }.items():
            each = [matlab(file, f"#refs#/{field}{i}", np.array([[v]])) for i, v in enumerate(places)]
            refer(eeg, f"event/{field}", each)


def refer(group: Any, name: str, targets: list[Any]) -> None:
    references = np.array([[target.ref] for target in targets], dtype=h5py.ref_dtype)
    group.create_dataset(name, data=references, dtype=h5py.ref_dtype)


def assert_is_the_set(path: Path) -> None:
    with open_recording(path) as recording:
        assert recording.layout == "EEGLAB set (MATLAB 7.3)"
        assert (recording.rate, recording.unit, recording.channels) == (128.0, "uV", NAMES)
        assert recording.types == ("EEG", "EEG", "EEG", "EOG")
        assert recording.gaps == make_gaps([(20, 12, "boundary"), (31, 0, "boundary")])
        assert recording.bad_rows == ((40, 50), (58, 60))
        assert [(one.index, one.label, one.duration * 128) for one in recording.events] == [
            (8, "square", 0), (52, "BAD_muscle", 8), (56, "bad", 6), (70, "bad", 99),
        ]  # fmt: skip
        np.testing.assert_array_equal(read(recording), X)


def test_eeglab_set(tmp_path: Path) -> None:
    write_set(tmp_path / "in.set", X.astype("f4"))
    assert_is_the_set(tmp_path / "in.set")


@pytest.mark.parametrize(
    "stated", ["in.fdt", "C:\\old\\in.fdt", "/etc/../old/in.fdt", "renamed.fdt", "x" * 300]
)
def test_eeglab_set_with_samples_in_another_file(tmp_path: Path, stated: str) -> None:
    write_set(tmp_path / "in.set", stated)
    X.astype("<f4").tofile(tmp_path / "in.fdt")
    assert_is_the_set(tmp_path / "in.set")


def test_eeglab_set_with_missing_samples(tmp_path: Path) -> None:
    write_set(tmp_path / "in.set", "in.fdt")
    assert "'in.fdt', which is not in the same folder; copy it there" in refusal(tmp_path / "in.set")
    X.astype("<f4")[:-1].tofile(tmp_path / "in.fdt")
    assert "944 bytes" in refusal(tmp_path / "in.set")


def test_eeglab_epochs(tmp_path: Path) -> None:
    write_set(tmp_path / "in.set", X.reshape(3, 20, 4).astype("f4"), trials=3.0, pnts=20.0)
    assert "has 3 epochs" in refusal(tmp_path / "in.set")


def test_more_channels_than_samples(tmp_path: Path) -> None:
    write_set(tmp_path / "in.set", X[:3].astype("f4"), pnts=3.0)
    with open_recording(tmp_path / "in.set") as recording:  # the layout states the axis
        assert (recording.n_samples, recording.n_channels) == (3, 4)
    with open_recording(tmp_path / "in.set", channels="1-3") as recording:
        np.testing.assert_array_equal(read(recording), X[:3, 1:])


@pytest.mark.parametrize("axis", [0, 1])
def test_matrix_of_matlab_needs_its_axis(tmp_path: Path, axis: int) -> None:
    path = tmp_path / "in.mat"
    with h5py.File(path, "w") as file:
        matlab(file, "x", X if axis else X.T)  # HDF5 has the axes in reverse
        matlab(file, "Fs", np.array([[500.0]]))
        matlab(file, "note", text("eyes"), "char")
    shape = "4 x 60" if axis else "60 x 4"
    asked = f"is a matrix of {shape} in MATLAB; pass --axis 0 if its rows are samples, --axis 1 if"
    assert asked in refusal(path)
    assert describe_file(path).datasets[2].note.startswith(asked)
    with open_recording(path, axis=axis) as recording:
        assert (recording.layout, recording.rate) == ("MATLAB 7.3", 500.0)
        np.testing.assert_array_equal(read(recording), X)


@pytest.mark.parametrize("axis", [0, 1])
def test_matrices_of_both_formats_of_matlab_need_the_same_axis(tmp_path: Path, axis: int) -> None:
    savemat = pytest.importorskip("scipy.io").savemat
    matrix = X.T if axis else X
    savemat(tmp_path / "5.mat", {"x": matrix, "Fs": 500.0})
    with h5py.File(tmp_path / "73.mat", "w") as file:
        matlab(file, "x", matrix.T)
        matlab(file, "Fs", np.array([[500.0]]))
    refusals = {
        refusal(tmp_path / name, IgbssError).split("is a matrix")[1] for name in ("5.mat", "73.mat")
    }
    assert len(refusals) == 1
    for stated in (axis, 1 - axis):
        found = []
        for name in ("5.mat", "73.mat"):
            with open_recording(tmp_path / name, axis=stated) as recording:
                found.append(read(recording))
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], X if stated == axis else X.T)


def test_matrix_in_a_cell(tmp_path: Path) -> None:
    path = tmp_path / "in.mat"
    with h5py.File(path, "w") as file:
        inner = matlab(file, "#refs#/b", X)
        refer(file, "cell", [inner])
        file["cell"].attrs["MATLAB_class"] = np.bytes_("cell")
    with open_recording(path, axis=1) as recording:
        assert recording.dataset == "/#refs#/b"
        np.testing.assert_array_equal(read(recording), X)


# g.Recorder

CHANNEL = "<ChannelProperties><ChannelName>{}</ChannelName><ChannelType>EEG</ChannelType><IsTriggerChannel>{}</IsTriggerChannel></ChannelProperties>"


def write_grecorder(
    path: Path, head: str = "", rate: str = "<SamplingFrequency>256</SamplingFrequency>"
) -> None:
    channels = "".join(CHANNEL.format(name, str(name == "Oz").lower()) for name in NAMES)
    xml = f"{head}<AcquisitionTaskDescription>{rate}<ChannelProperties>{channels}</ChannelProperties></AcquisitionTaskDescription>"
    with h5py.File(path, "w") as file:
        file["RawData/Samples"] = X.astype("f4")
        file["RawData/AcquisitionTaskDescription"] = [xml]


@pytest.mark.parametrize("head", ["", "\ufeff"])
def test_grecorder(path: Path, head: str) -> None:
    write_grecorder(path, head)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("g.Recorder", 256.0, "uV")
        assert (recording.channels, recording.types) == (NAMES, ("EEG", "EEG", "EEG", "trigger"))
        np.testing.assert_array_equal(read(recording), X)


@pytest.mark.parametrize("head", ['<!DOCTYPE x [<!ENTITY a "b">]>', "<broken>"])
def test_grecorder_with_a_description_that_is_not_read(path: Path, head: str) -> None:
    write_grecorder(path, head)
    assert "no SamplingFrequency" in refusal(path)
    with open_recording(path, rate=512.0) as recording:
        assert recording.channels[0] == "channel-0"


# Multi Channel Systems


def write_mcs(path: Path) -> None:
    info = np.dtype(
        [("RowIndex", "i4"), ("Label", "S8"), ("Unit", "S4"), ("Exponent", "i4"), ("ADZero", "i4"), ("Tick", "i8"), ("ConversionFactor", "i8")]
    )  # fmt: skip
    rows = [(i, NAMES[i].encode(), b"V", -9, 10 * i, 2000, 100 + i) for i in (2, 0, 3, 1)]
    with h5py.File(path, "w") as file:
        file.attrs["McsHdf5ProtocolType"] = np.bytes_("RawData")
        stream = file.create_group("Data/Recording_0/AnalogStream/Stream_0")
        stream["ChannelData"], stream["InfoChannel"] = X.T.astype("i4"), np.array(rows, info)
        stream["ChannelDataTimeStamps"] = [[1000, 0, 19], [61_000, 20, 59]]


def test_mcs(path: Path) -> None:
    write_mcs(path)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("MCS", 500.0, "V")
        assert recording.channels == NAMES
        assert recording.gaps == make_gaps([(20, 10, "missing")])
        expected = (X.astype("f8") - 10 * np.arange(4)) * (100 + np.arange(4)) * 1e-9
        np.testing.assert_allclose(read(recording), expected, rtol=1e-13, atol=1e-20)


def test_an_axis_other_than_that_of_the_layout(path: Path) -> None:
    write_mcs(path)
    assert "pass --factor with --axis" in refusal(path, ParameterError, axis=0)
    with open_recording(path, axis=0, factor=1.0) as recording:
        assert (recording.n_samples, recording.n_channels) == (4, 60)


# GWOSC


def test_strain(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["strain/Strain"] = np.zeros(60)
        file["strain/Strain"].attrs["Xspacing"] = 1 / 4096
        file["meta/Detector"] = "H1"
    message = refusal(path, InputError)
    assert "has one channel" in message
    assert "several detectors" in message
