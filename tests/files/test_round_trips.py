"""Read files of other libraries: samples, rate, names and unit are the same as in the libraries."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from numpy.typing import NDArray

from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording
from tests.realdata import DATA, needs_data

N, RATE, NAMES = 1000, 250.0, ("Fz", "Cz", "Pz")
X = np.random.default_rng(7).normal(0, 50, (N, 3))  # microvolts


def read(path: Path, **options: Any) -> tuple[NDArray[Any], Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(77)]), recording


# EDF, BDF, BrainVision and FIF, which MNE reads: compared with edfio and the written samples


def write_edf(folder: Path) -> Path:
    edfio = pytest.importorskip("edfio")
    signals = [edfio.EdfSignal(X[:, i], RATE, label=NAMES[i], physical_dimension="uV") for i in range(3)]
    edfio.Edf(signals).write(folder / "in.edf")
    return folder / "in.edf"


def write_bdf(folder: Path) -> Path:
    edfio = pytest.importorskip("edfio")
    signals = [edfio.BdfSignal(X[:, i], RATE, label=NAMES[i], physical_dimension="uV") for i in range(3)]
    edfio.Bdf(signals).write(folder / "in.bdf")
    return folder / "in.bdf"


def write_brainvision(folder: Path) -> Path:
    pybv = pytest.importorskip("pybv")
    pybv.write_brainvision(
        data=X.T * 1e-6,
        sfreq=RATE,
        ch_names=list(NAMES),
        fname_base="in",
        folder_out=str(folder),
        unit="µV",
        fmt="binary_float32",
        resolution=1.0,
        events=[
            {"onset": 400, "duration": 1, "type": "Comment", "description": "x", "channels": "all"},
        ],
    )
    return folder / "in.vhdr"


def write_fif(folder: Path) -> Path:
    mne = pytest.importorskip("mne")
    raw = mne.io.RawArray(X.T * 1e-6, mne.create_info(list(NAMES), RATE, "eeg"), verbose="ERROR")
    raw.save(folder / "in_raw.fif", fmt="double", verbose="ERROR")
    return folder / "in_raw.fif"


@pytest.mark.parametrize(
    ("write", "layout", "error"),
    [
        (write_edf, "EDF", np.ptp(X) / 2**16),
        (write_bdf, "BDF", np.ptp(X) / 2**24),
        (write_brainvision, "BrainVision", 1e-6 * np.abs(X).max()),
        (write_fif, "FIF", 0.0),
    ],
)
def test_samples_are_read_in_volts(
    tmp_path: Path, write: Callable[[Path], Path], layout: str, error: float
) -> None:
    pytest.importorskip("mne")
    samples, recording = read(write(tmp_path))
    assert (recording.layout, recording.rate, recording.unit) == (layout, RATE, "V")
    assert (recording.channels, recording.gaps) == (NAMES, ())
    np.testing.assert_allclose(samples, X * 1e-6, rtol=1e-12, atol=error * 1e-6)


@pytest.mark.parametrize("write", [write_edf, write_bdf])
def test_edf_and_bdf_are_what_edfio_reads(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    edfio = pytest.importorskip("edfio")
    pytest.importorskip("mne")
    path = write(tmp_path)
    file = edfio.read_edf(path) if path.suffix == ".edf" else edfio.read_bdf(path)
    stored = np.stack([signal.data for signal in file.signals], axis=1)
    np.testing.assert_allclose(read(path)[0], stored * 1e-6, rtol=1e-9, atol=1e-15)


# EEGLAB


@pytest.mark.parametrize(("beside", "cut"), [(False, 25.0), (True, 25.0), (True, np.nan)])
def test_a_set_before_matlab_7_3(tmp_path: Path, beside: bool, cut: float) -> None:
    pytest.importorskip("mne")
    x = X.astype(np.float32)
    x.tofile(tmp_path / "in.fdt")
    names = np.array([(name, "EEG") for name in NAMES], [("labels", "O"), ("type", "O")])
    fields = {
        "setname": "in", "nbchan": 3.0, "pnts": float(N), "trials": 1.0, "srate": RATE,
        "xmin": 0.0, "xmax": (N - 1) / RATE, "data": "in.fdt" if beside else x.T, "chanlocs": names,
        "event": np.array(
            [("boundary", 401.5, cut), ("go", 401.0, 0.0), ("go", 402.25, 0.0)],
            [("type", "O"), ("latency", "f8"), ("duration", "f8")],
        ),
        "icawinv": [], "icaweights": [], "icasphere": [], "icaact": [], "epoch": [], "urevent": [],
    }  # fmt: skip
    scipy.io.savemat(tmp_path / "in.set", {"EEG": fields}, appendmat=False)
    samples, recording = read(tmp_path / "in.set")
    assert (recording.rate, recording.unit, recording.channels) == (RATE, "V", NAMES)
    assert recording.gaps == make_gaps([(401, 25 if cut > 0 else 0, "boundary")])
    np.testing.assert_allclose(samples, x * 1e-6, rtol=1e-6)
    after = 401.25 + (25 if cut > 0 else 0)
    assert [(one.index, one.label) for one in recording.events] == [(400, "go"), (after, "go")]


@needs_data
@pytest.mark.parametrize("name", ["test_raw_h5.set", "test_raw_hdf5.set"])
@pytest.mark.filterwarnings("ignore:Complex objects:UserWarning")
def test_sets_of_matlab_7_3_are_what_mne_reads(name: str) -> None:
    mne = pytest.importorskip("mne")
    pytest.importorskip("pymatreader")
    raw = mne.io.read_raw_eeglab(DATA / "hdf5" / name, preload=True, verbose="ERROR")
    samples, recording = read(DATA / "hdf5" / name, channels="0-31")
    assert recording.rate == raw.info["sfreq"]
    np.testing.assert_allclose(samples, raw.get_data()[:32].T * 1e6, rtol=1e-6, atol=1e-12)
    marks = [text != "boundary" for text in raw.annotations.description]
    np.testing.assert_allclose(
        recording.events.index, raw.annotations.onset[marks] * recording.rate, atol=1e-3
    )
    assert list(recording.events.label) == list(raw.annotations.description[marks])


@needs_data
@pytest.mark.parametrize("name", ["220307_opticaldensity", "2022-05-23_004"])
def test_stimuli_and_date_of_snirf_are_what_mne_reads(name: str) -> None:
    mne = pytest.importorskip("mne")
    path = DATA / f"hdf5/mne-testing-data_{name}.snirf"
    raw = mne.io.read_raw_snirf(path, verbose="ERROR")
    with open_recording(path) as recording:
        assert len(recording.events)
        assert sorted(recording.events.label) == sorted(raw.annotations.description)
        onsets = np.sort(raw.annotations.onset) * raw.info["sfreq"]
        np.testing.assert_allclose(recording.events.index, onsets, atol=0.5)
        assert recording.t0 == pytest.approx(raw.info["meas_date"].timestamp(), abs=1.0)


# NWB


def write_nwb(path: Path, timed: dict[str, Any], *, with_events: bool = True) -> NDArray[np.float64]:
    """Write a series with pynwb, and return its samples in volts as pynwb reads them."""
    pynwb = pytest.importorskip("pynwb")
    file = pynwb.NWBFile("a test", "x", datetime(2024, 5, 1, tzinfo=UTC))
    group = file.create_electrode_group("shank", "a probe", "cortex", file.create_device("probe"))
    file.add_electrode_column("label", "name of the electrode")
    for name in ("unused", *NAMES):
        file.add_electrode(group=group, location="cortex", label=name)
    file.add_acquisition(
        pynwb.ecephys.ElectricalSeries(
            name="ephys",
            data=np.round(X * 10).astype(np.int16),
            electrodes=file.create_electrode_table_region([1, 3, 2], "in another order"),
            channel_conversion=[1.0, 2.0, 0.5],
            conversion=1e-7,
            offset=3e-6,
            **timed,
        )
    )
    if with_events:
        add_nwb_events(file)
    with pynwb.NWBHDF5IO(path, "w") as io:
        io.write(file)
    with pynwb.NWBHDF5IO(path, "r") as io:
        series = io.read().acquisition["ephys"]
        scaled = series.data[:] * np.asarray(series.channel_conversion[:]) * series.conversion
        return np.asarray(scaled + series.offset)


def add_nwb_events(file: Any) -> None:
    """Add trials with a condition, epochs with tags, intervals without names, and annotations."""
    pynwb = pytest.importorskip("pynwb")
    file.add_trial_column("condition", "of the trial")
    file.add_trial(start_time=3.5, stop_time=4.0, condition="left")
    file.add_trial(start_time=4.25, stop_time=4.5, condition="right")
    file.add_epoch(start_time=3.0, stop_time=3.25, tags=["rest", "eyes open"])
    file.add_time_intervals(pynwb.epoch.TimeIntervals(name="artefacts", description="by eye"))
    file.intervals["artefacts"].add_row(start_time=3.1, stop_time=3.2)
    file.add_acquisition(pynwb.misc.AnnotationSeries(name="notes", data=["ü", "b"], timestamps=[3.75, 1e6]))


def assert_nwb_events(recording: Any, after_gap: float) -> None:
    assert [(one.label, one.source) for one in recording.events] == [
        ("rest, eyes open", "epochs"), ("artefacts", "artefacts"), ("left", "trials"), ("ü", "notes"),
        ("right", "trials"),
    ]  # fmt: skip
    np.testing.assert_allclose(recording.events.index / RATE, [0, 0.1, 0.5, 0.75, after_gap], atol=1e-6)
    np.testing.assert_allclose(recording.events.duration, [0.25, 0.1, 0.5, 0, 0.25])
    assert recording.t0 == datetime(2024, 5, 1, 0, 0, 3, tzinfo=UTC).timestamp()


@pytest.mark.filterwarnings("ignore:AnnotationSeries is deprecated:UserWarning")
def test_a_series_that_pynwb_wrote(tmp_path: Path) -> None:
    stored = write_nwb(tmp_path / "in.nwb", {"starting_time": 3.0, "rate": RATE})
    samples, recording = read(tmp_path / "in.nwb")
    assert (recording.layout, recording.rate, recording.unit) == ("NWB", RATE, "V")
    assert recording.channels == ("Fz", "Pz", "Cz")
    np.testing.assert_allclose(samples, stored, rtol=1e-5, atol=1e-10)
    assert_nwb_events(recording, 1.25)


def test_a_table_of_events_that_pynwb_wrote(tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb", minversion="4.0")
    write_nwb(tmp_path / "in.nwb", {"starting_time": 3.0, "rate": RATE}, with_events=False)
    with pynwb.NWBHDF5IO(tmp_path / "in.nwb", "a") as io:
        file = io.read()
        table = file.create_events_table(name="stimuli", description="what was shown")
        table.add_column("annotation", "of the stimulus")
        table.add_row(timestamp=4.0, annotation="flash")
        table.add_row(timestamp=3.5, annotation="beep")
        io.write(file)
    _, recording = read(tmp_path / "in.nwb")
    found = [(one.index, one.label, one.source) for one in recording.events]
    assert found == [(0.5 * RATE, "beep", "stimuli"), (RATE, "flash", "stimuli")]


@pytest.mark.filterwarnings("ignore:AnnotationSeries is deprecated:UserWarning")
def test_timestamps_that_pynwb_wrote(tmp_path: Path) -> None:
    index = np.arange(N) + 500 * (np.arange(N) >= 400)
    write_nwb(tmp_path / "in.nwb", {"timestamps": 3.0 + index / RATE})
    _, recording = read(tmp_path / "in.nwb")
    assert recording.rate == pytest.approx(RATE)
    assert recording.gaps == make_gaps([(400, 500, "missing")])
    assert_nwb_events(recording, 1.25)


# pandas with PyTables


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4"])
def test_a_table_that_pandas_wrote(tmp_path: Path, unit: str, dtype: str) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    rate = 1.0 if unit == "s" else RATE
    index = np.arange(N) + 8 * (np.arange(N) >= 400)
    times = (1_700_000_000_000 + (index * 1000 / rate).astype("i8")).astype("datetime64[ms]")
    table = pandas.DataFrame(
        X.astype(dtype), columns=list(NAMES), index=times.astype(f"datetime64[{unit}]")
    )
    table.to_hdf(tmp_path / "in.h5", key="eeg", format="table")
    samples, recording = read(tmp_path / "in.h5")
    assert (recording.layout, recording.rate, recording.channels) == ("pandas table", rate, NAMES)
    assert recording.gaps == make_gaps([(400, 8, "missing")])
    np.testing.assert_array_equal(samples, pandas.read_hdf(tmp_path / "in.h5", "eeg").to_numpy())


def test_a_table_of_several_types_and_a_text(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("tables")
    table = pandas.DataFrame({"a": X[:, 0], "n": np.arange(N) ** 2 % 11, "who": ["x"] * N, "b": X[:, 1]})
    table.to_hdf(tmp_path / "in.h5", key="eeg", format="table")
    samples, recording = read(tmp_path / "in.h5", rate=10.0)
    found = dict(zip(recording.channels, samples.T, strict=True))
    assert set(found) == {"a", "b", "n"}
    for name, column in found.items():
        np.testing.assert_array_equal(column, table[name])
    assert "not numbers are omitted" in recording.notes[0]
    with h5py.File(tmp_path / "in.h5") as file:
        assert file["eeg/table"].dtype.names is not None
