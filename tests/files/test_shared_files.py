"""Every recording in ../shared/data: read without options, or refused with the option to pass."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.files.open import open_recording
from tests.commands import SYSTEMATIC, Command, Refusal, assert_says
from tests.realdata import DATA, needs_data
from tests.recordings import read_output

HDF5 = DATA / "hdf5"
MCS = "mcs_2014-07-09T10-17-35W8_Standard_all_500Hz.h5"
STREAM = "/Data/Recording_0/AnalogStream/Stream_{}/ChannelData"
SEISMIC = "obspy_2005-07-23-1452-04S.CER___030.mseed"
BANDS = "timeflux-demos_bitalino_eeg.hdf5"

# Name: samples, channels, rate, unit, first and last channel.
READ: dict[str, tuple[int, int, float, str | None, str, str]] = {
    "hdf5/eeg32_128hz.h5": (30504, 32, 128.0, "uV", "FPz", "O2"),
    "hdf5/openbci8_250hz.h5": (22490, 8, 250.0, "uV", "EXG0", "EXG7"),
    "hdf5/fetal_ecg8_250hz.h5": (2500, 8, 250.0, "a.u.", "abdomen1", "thorax3"),
    "hdf5/matnwb_ecephys_tutorial.nwb": (1000, 10, 200.0, "V", "channel-0", "channel-9"),
    "hdf5/mne-testing-data_2022-05-23_004.snirf": (96, 40, 10.172526, None, "S1_D1 760", "S8_D8 850"),
    "hdf5/mne-testing-data_220307_opticaldensity.snirf": (500, 72, 50.0, None, "S2_D1 760", "S24_D12 850"),
    "hdf5/test_raw_h5.set": (30504, 32, 128.0, "uV", "channel-0", "channel-31"),
    "eeg/test.edf": (15360, 16, 256.0, "V", "EEG Fp1", "EEG O2"),
    "eeg/test.bdf": (15360, 16, 256.0, "V", "A1", "A16"),
    "eeg/test.xdf": (9520, 8, 1000.0, None, "channel-0", "channel-7"),
    "eeg/testbva.vhdr": (2112, 32, 200.0, None, "Fp1", "Ekg2"),
    "eeg/eeglab_data.set": (30504, 32, 128.0, "V", "FPz", "O2"),
    "ecg/100.hea": (650_000, 2, 360.0, "mV", "MLII", "V5"),
    "ecg/a103l.hea": (82_500, 3, 250.0, None, "II", "PLETH"),
    f"seismic/{SEISMIC}": (10_650, 3, 150.0, None, ".CER.00.BHZ", ".CER.00.BHE"),
    "eeg/OpenBCI_GUI-v6-blinks-jawClench-alpha.txt": (
        22490, 8, 250.0, "uV", "EXG Channel 0", "EXG Channel 7",
    ),
}  # fmt: skip
NEED = dict.fromkeys(("eeg/test.edf", "eeg/test.bdf", "eeg/testbva.vhdr", "eeg/eeglab_data.set"), "mne")
NEED["eeg/test.xdf"] = "pyxdf"
NEED |= dict.fromkeys(("ecg/100.hea", "ecg/a103l.hea", "ecg/s0010_re.hea"), "wfdb")
NEED[f"seismic/{SEISMIC}"] = "obspy"

IMAGES = ("1.07", "2.01", "2.03", "2.05", "2.06", "2.07")
NO_RECORDINGS = {"README.md", "make_h5.py"}  # of the folder itself

# Name: parts of the message.
REFUSED: dict[str, tuple[str, ...]] = {
    f"hdf5/{MCS}": ("2 signals", "--dataset", STREAM.format(0), STREAM.format(1), "8 channels"),
    f"hdf5/{BANDS}": ("50 samples are NaN", "Fpz_delta has 10, from sample 194", "cut them out"),
    "hdf5/ligo_H-H1_LOSC_4_V2-1126259446-32.hdf5": (
        "one channel",
        "at least 2",
        "store the simultaneous strains",
    ),
    "hdf5/ligo_L-L1_LOSC_4_V2-1126259446-32.hdf5": (
        "one channel",
        "at least 2",
        "store the simultaneous strains",
    ),
    "hdf5/matnwb_20080606_R1.nwb": ("1.0.6", "no ElectricalSeries", "--dataset"),
    "hdf5/test_raw.fdt": ("EEGLAB", ".set file next to it"),
    "eeg/eeglab_data.fdt": ("EEGLAB", ".set file next to it"),
    "eeg/eeglab_chan32.locs": ("electrode positions", "pass the recording"),
    "eeg/testbva.dat": ("unknown format", ".vhdr"),
    "eeg/testbva.vmrk": ("markers", ".vhdr file next to it"),
    "ecg/100.dat": ("unknown format",),
    "ecg/a103l.mat": ("val of", "a matrix of 3 x 82500", "--axis 1 if they are channels"),
    "ecg/s0010_re.dat": ("unknown format",),
    "ecg/s0010_re.hea": ("'s0010_re.xyz', which is missing", "--channels 0-11 to read the others"),
    "ecg/daisy_FOETAL_ECG.dat": ("has no sampling rate", "--rate"),
    "sensors/AirQualityUCI_semicolon.csv": ("has no sampling rate", "--rate"),
    "sensors/mobgap_HA001_TimeMeasure1_Test11_Trial1.csv": ("has no sampling rate", "--rate"),
    "sensors/skdh_ambulation_test1.csv": ("has no sampling rate", "--rate"),
    **{f"images/sipi_4.{i}.tiff": ("image", "HDF5") for i in IMAGES},
    "hdf5/test_raw_hdf5.set": ("7 of 271 channels are flat", "--drop-flat"),
}


@needs_data
def test_every_file_is_listed() -> None:
    there = {path.relative_to(DATA).as_posix() for path in DATA.rglob("*") if path.is_file()}
    assert there == READ.keys() | REFUSED.keys() | NO_RECORDINGS


@needs_data
@pytest.mark.parametrize("name", READ)
def test_read_by_its_name_alone(separated: Command, tmp_path: Path, name: str) -> None:
    if name in NEED:
        pytest.importorskip(NEED[name])
    n_samples, n_channels, rate, unit, first, last = READ[name]
    said = separated(DATA / name, *SYSTEMATIC, "--drop-flat").output
    assert f"{n_channels} channels x {n_samples} samples" in said
    output = read_output(tmp_path / "out.h5")
    assert output.sources.shape == (n_samples, n_channels)
    assert output.rate == pytest.approx(rate, rel=1e-8)
    assert output.unit == unit
    assert (output.names["mixing"][0], output.names["mixing"][-1]) == (first, last)


@needs_data
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_what_to_pass(refused: Refusal, tmp_path: Path, name: str) -> None:
    if name in NEED:
        pytest.importorskip(NEED[name])
    assert_says(refused("batch", DATA / name, "-o", tmp_path / "out.h5"), *REFUSED[name])


def read(path: Path, *where: Any, **options: Any) -> NDArray[Any]:
    with open_recording(path, *where, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(777)])


@needs_data
@pytest.mark.parametrize("stream", [0, 1])
def test_electrodes_of_mcs_are_in_volts(stream: int) -> None:
    with h5py.File(HDF5 / MCS) as file:
        stored = file[STREAM.format(stream)][:]
    # InfoChannel of this file states factor 381470, exponent -9, zero 0, unit V for every channel.
    np.testing.assert_allclose(read(HDF5 / MCS, STREAM.format(stream)), stored.T * 381470e-9, rtol=1e-14)


@needs_data
def test_columns_of_timeflux_have_their_names_and_nothing_is_unpickled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*args: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", forbidden)
    with open_recording(HDF5 / BANDS, rate=0.98) as recording:
        assert recording.channels == tuple(
            f"Fpz_{band}" for band in ("delta", "theta", "alpha", "beta", "gamma")
        )
    with h5py.File(HDF5 / BANDS) as file:
        np.testing.assert_array_equal(
            read(HDF5 / BANDS, rate=0.98), file["bands/table"][:]["values_block_0"]
        )


@needs_data
def test_channels_chosen_from_a_short_set(separated: Command, tmp_path: Path) -> None:
    separated(HDF5 / "test_raw_hdf5.set", "--channels", "A1,A2,10-19", *SYSTEMATIC)
    with h5py.File(HDF5 / "test_raw_hdf5.set") as file:
        stored = file["EEG/data"][:]
    np.testing.assert_array_equal(
        read(HDF5 / "test_raw_hdf5.set", channels="A1,A2,10-19"), stored[:, [0, 1, *range(10, 20)]]
    )
    output = read_output(tmp_path / "out.h5")
    assert output.names["mixing"][:2] == ["A1", "A2"]
    assert (output.rate, output.unit) == (1024.0, "uV")


@needs_data
def test_samples_in_another_file_than_the_set() -> None:
    stored = np.fromfile(HDF5 / "test_raw.fdt", "<f4").reshape(30504, 32)
    np.testing.assert_array_equal(read(HDF5 / "test_raw_h5.set"), stored)


@needs_data
@pytest.mark.parametrize(
    "name", ["eeg/test.edf", "eeg/test.bdf", "eeg/testbva.vhdr", "eeg/eeglab_data.set"]
)
def test_blocks_are_what_mne_reads_at_once(name: str) -> None:
    mne = pytest.importorskip("mne")
    raw = mne.io.read_raw(DATA / name, preload=True, verbose="ERROR")
    np.testing.assert_array_equal(
        read(DATA / name), raw.get_data(picks="data" if "bdf" in name else "all").T
    )


@needs_data
@pytest.mark.parametrize("name", ["2022-05-23_004", "220307_opticaldensity"])
def test_snirf_is_what_mne_reads(name: str) -> None:
    mne = pytest.importorskip("mne")
    path = HDF5 / f"mne-testing-data_{name}.snirf"
    raw = mne.io.read_raw_snirf(path, preload=True, verbose="ERROR")
    with open_recording(path) as recording:
        assert recording.rate == pytest.approx(raw.info["sfreq"], rel=1e-6)
        order = [recording.channels.index(channel) for channel in raw.ch_names]
    np.testing.assert_array_equal(read(path)[:, order], raw.get_data().T)


@needs_data
@pytest.mark.parametrize(
    ("name", "channels", "columns", "options"),
    [
        ("ecg/daisy_FOETAL_ECG.dat", "1-8", range(1, 9), {}),
        (
            "sensors/mobgap_HA001_TimeMeasure1_Test11_Trial1.csv",
            None,
            range(1, 7),
            {"delimiter": ",", "skiprows": 1},
        ),
        ("sensors/skdh_ambulation_test1.csv", None, range(3), {"delimiter": ","}),
        ("sensors/AirQualityUCI_semicolon.csv", "2-14", range(2, 15), {"delimiter": ";", "skiprows": 1}),
    ],
)
def test_text_is_what_numpy_reads(name: str, channels: str | None, columns: range, options: Any) -> None:
    expected = np.loadtxt(DATA / name, usecols=list(columns), **options)
    np.testing.assert_array_equal(read(DATA / name, rate=100.0, channels=channels), expected)


@needs_data
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ecg/daisy_FOETAL_ECG.dat", ("increases evenly", "--channels 1-8")),
        ("sensors/AirQualityUCI_semicolon.csv", ("not numbers (Date, Time)", "--channels")),
    ],
)
def test_columns_that_must_be_selected(
    refused: Refusal, tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    assert_says(refused("batch", DATA / name, "-o", tmp_path / "out.h5", "--rate", 9), *words)


@needs_data
@pytest.mark.parametrize(
    ("name", "channels"), [("100", None), ("a103l", None), ("s0010_re", list(range(12)))]
)
def test_wfdb_is_what_wfdb_reads(name: str, channels: list[int] | None) -> None:
    wfdb = pytest.importorskip("wfdb")
    record = wfdb.rdrecord(str(DATA / "ecg" / name), channels=channels)
    options: dict[str, Any] = {} if channels is None else {"channels": "0-11"}
    np.testing.assert_array_equal(read(DATA / "ecg" / f"{name}.hea", **options), record.p_signal)
    with open_recording(DATA / "ecg" / f"{name}.hea", **options) as recording:
        assert (recording.channels, recording.rate) == (tuple(record.sig_name), record.fs)
        assert recording.unit == (record.units[0] if len(set(record.units)) == 1 else None)


@needs_data
def test_miniseed_is_what_obspy_reads() -> None:
    obspy = pytest.importorskip("obspy")
    path = DATA / "seismic" / SEISMIC
    stream = obspy.read(path)
    np.testing.assert_array_equal(read(path), np.stack([trace.data for trace in stream], axis=1))
    with open_recording(path) as recording:
        assert recording.channels == tuple(trace.id for trace in stream)
        assert recording.t0 == stream[0].stats.starttime.timestamp


@needs_data
def test_a_matrix_of_matlab_is_what_wfdb_scales() -> None:
    """The samples of a record are a MATLAB matrix as well: one reader checks the other."""
    wfdb = pytest.importorskip("wfdb")
    stored = wfdb.rdrecord(str(DATA / "ecg" / "a103l"), physical=False).d_signal
    np.testing.assert_array_equal(read(DATA / "ecg" / "a103l.mat", axis=1), stored)


@needs_data
def test_xdf_is_what_pyxdf_reads() -> None:
    pyxdf = pytest.importorskip("pyxdf")
    streams, _ = pyxdf.load_xdf(DATA / "eeg" / "test.xdf", dejitter_timestamps=False)
    (stream,) = (each for each in streams if len(each["time_series"]) and len(each["time_series"][0]) == 8)
    np.testing.assert_array_equal(read(DATA / "eeg" / "test.xdf"), stream["time_series"])
    with open_recording(DATA / "eeg" / "test.xdf") as recording:
        assert recording.rate == float(stream["info"]["nominal_srate"][0])
