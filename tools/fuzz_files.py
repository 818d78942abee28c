"""The smallest recording of each reader, for `fuzz_readers.py`: a file, and the files beside it."""

import struct
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

N_SAMPLES, RATE = 64, 32
NAMES = ("Fz", "Cz", "Pz", "Oz")
X: NDArray[np.float64] = np.random.default_rng(7).laplace(size=(N_SAMPLES, len(NAMES))).round(3) * 10


def _write_hdf5(folder: Path) -> Path:
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset("data", data=X.astype("f4"))
        data.attrs.update(rate=float(RATE), unit="uV", channels=NAMES)
    return folder / "in.h5"


def _write_chunked_hdf5(folder: Path) -> Path:
    gap = np.array(
        [(20, 20, 3, b"lost")], [("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S8")]
    )
    with h5py.File(folder / "in.h5", "w") as file:
        data = file.create_dataset(
            "data", data=X.astype("f4"), chunks=(16, 4), compression="gzip", shuffle=True
        )
        data.attrs.update(rate=float(RATE), unit="uV", channels=NAMES)
        file["gaps"] = gap
    return folder / "in.h5"


def _write_virtual_hdf5(folder: Path) -> Path:
    layout = h5py.VirtualLayout((N_SAMPLES, len(NAMES)), "f8")
    with h5py.File(folder / "in.h5", "w") as file:
        file["a"], file["b"] = X[:40], X[40:]
        for name, start, stop in (("a", 0, 40), ("b", 40, 64)):
            layout[start:stop] = h5py.VirtualSource(".", name, (stop - start, len(NAMES)))
        file.create_virtual_dataset("data", layout).attrs["rate"] = float(RATE)
    return folder / "in.h5"


def _write_nwb(folder: Path) -> Path:
    with h5py.File(folder / "in.nwb", "w") as file:
        file.attrs.update(nwb_version="2.7.0", neurodata_type="NWBFile")
        file["session_start_time"] = "2024-05-01T10:00:00+00:00"
        table = file.create_group("general/extracellular_ephys/electrodes")
        table["id"], table["label"] = np.arange(4), list(NAMES)
        series = file.create_group("acquisition/ephys")
        series.attrs["neurodata_type"] = "ElectricalSeries"
        series["data"] = X
        series["data"].attrs.update(unit="volts", conversion=1e-6, offset=0.0)
        series["timestamps"] = np.arange(N_SAMPLES) / RATE + 5
        series["electrodes"] = np.arange(4)
        series["electrodes"].attrs["table"] = table.ref
        trials = file.create_group("intervals/trials")
        trials.attrs["neurodata_type"] = "TimeIntervals"
        trials["start_time"], trials["stop_time"] = np.array([5.5, 6.0]), np.array([5.7, 6.3])
        trials["label"], trials["id"] = ["left", "right"], np.arange(2)
    return folder / "in.nwb"


def _write_snirf(folder: Path) -> Path:
    with h5py.File(folder / "in.snirf", "w") as file:
        file["formatVersion"] = "1.1"
        run = file.create_group("nirs")
        run["metaDataTags/TimeUnit"], run["metaDataTags/LengthUnit"] = "s", "mm"
        run["probe/wavelengths"] = np.array([760.0, 850.0])
        run["probe/sourcePos3D"] = np.array([[0.0, 80.0, 30.0], [40.0, 60.0, 30.0]])
        run["probe/detectorPos3D"] = np.array([[20.0, 80.0, 30.0], [60.0, 40.0, 30.0]])
        run["data1/dataTimeSeries"], run["data1/time"] = X, np.arange(N_SAMPLES) / RATE
        for i in range(4):
            item = run.create_group(f"data1/measurementList{i + 1}")
            item["sourceIndex"], item["detectorIndex"], item["wavelengthIndex"] = (
                1 + i // 2,
                1 + i // 2,
                1 + i % 2,
            )
            item["dataType"], item["dataUnit"] = 1, "V"
        run["stim1/name"], run["stim1/data"] = "tap", np.array([[0.5, 0.1, 1.0], [1.5, 0.1, 1.0]])
    return folder / "in.snirf"


def _write_pandas(folder: Path) -> Path:
    import pandas as pd

    index = pd.date_range("2024-05-01", periods=N_SAMPLES, freq=pd.Timedelta(seconds=1 / RATE))
    pd.DataFrame(X, index, list(NAMES)).to_hdf(folder / "in.h5", key="eeg", format="table")
    return folder / "in.h5"


def _write_set_of_hdf5(folder: Path) -> Path:
    with h5py.File(folder / "in.set", "w", userblock_size=512) as file:
        group = file.create_group("EEG")
        group["srate"], group["nbchan"], group["pnts"], group["trials"] = (
            [[float(n)]] for n in (RATE, 4, 64, 1)
        )
        group["data"] = X.astype("f4")
        labels = [
            file.create_dataset(f"#refs#/{i}", data=[[ord(c)] for c in name])
            for i, name in enumerate(NAMES)
        ]
        refs = group.create_dataset("chanlocs/labels", (4, 1), h5py.ref_dtype)
        for i, label in enumerate(labels):
            refs[i, 0] = label.ref
    content = bytearray((folder / "in.set").read_bytes())
    content[:512] = b"MATLAB 7.3 MAT-file".ljust(512)
    (folder / "in.set").write_bytes(content)
    return folder / "in.set"


def _write_set(folder: Path) -> Path:
    from scipy.io import savemat

    locations = np.array([(name, float(i)) for i, name in enumerate(NAMES)], [("labels", "O"), ("X", "O")])
    events = np.array([("go", 10.0, 1.0)], [("type", "O"), ("latency", "O"), ("duration", "O")])
    eeg = {
        "setname": "x", "srate": float(RATE), "nbchan": 4, "pnts": N_SAMPLES, "trials": 1, "xmin": 0.0,
        "xmax": (N_SAMPLES - 1) / RATE, "data": X.T.astype("f4"), "ref": "common", "icawinv": [],
        "icaweights": [], "icasphere": [], "icachansind": [], "chanlocs": locations, "event": events,
        "epoch": [],
    }  # fmt: skip
    savemat(folder / "in.set", {"EEG": eeg}, appendmat=False)
    content = (folder / "in.set").read_bytes()
    (folder / "in.set").write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content[116:])  # without the time
    return folder / "in.set"


def _write_edf_like(folder: Path, kind: str) -> Path:
    import edfio

    signal, file = (edfio.EdfSignal, edfio.Edf) if kind == "edf" else (edfio.BdfSignal, edfio.Bdf)
    signals: Any = [
        signal(X[:, i], RATE, label=name, physical_dimension="uV") for i, name in enumerate(NAMES)
    ]
    file(signals, annotations=[edfio.EdfAnnotation(0.5, 0.1, "go")]).write(folder / f"in.{kind}")
    return folder / f"in.{kind}"


def _write_brainvision(folder: Path) -> Path:
    events = [{"onset": 10, "duration": 2, "type": "Stimulus", "description": 7}]
    import pybv

    pybv.write_brainvision(
        data=X.T * 1e-6,
        sfreq=RATE,
        ch_names=list(NAMES),
        fname_base="in",
        folder_out=str(folder),
        events=events,
    )
    return folder / "in.vhdr"


def _write_fif(folder: Path) -> Path:
    from unittest import mock

    import mne

    info = mne.create_info(list(NAMES), RATE, "eeg")
    raw = mne.io.RawArray(X.T * 1e-6, info, verbose="ERROR")
    raw.set_annotations(mne.Annotations([0.5], [0.1], ["go"]))
    who = {"version": 65540, "machid": np.zeros(2, np.int32), "secs": 0, "usecs": 0}
    with mock.patch("mne._fiff.write._generate_meas_id", return_value=who):
        raw.save(folder / "in_raw.fif", overwrite=True, verbose="ERROR")
    return folder / "in_raw.fif"


def _chunk_of_xdf(tag: int, content: bytes) -> bytes:
    return b"\x04" + struct.pack("<IH", len(content) + 2, tag) + content


def _write_xdf(folder: Path) -> Path:
    names = "".join(f"<channel><label>{name}</label><unit>microvolts</unit></channel>" for name in NAMES)
    header = (
        "<info><name>{}</name><type>{}</type><channel_count>{}</channel_count><nominal_srate>{}</nominal_srate>"
        "<channel_format>{}</channel_format><desc><channels>{}</channels></desc></info>"
    )
    out = b"XDF:" + _chunk_of_xdf(1, b"<info><version>1.0</version></info>")
    streams = (("eeg", "EEG", 4, RATE, "float32", names), ("m", "Markers", 1, 0, "string", ""))
    for number, facts in enumerate(streams, 1):
        out += _chunk_of_xdf(2, struct.pack("<I", number) + header.format(*facts).encode())
    for at in range(0, N_SAMPLES, 32):
        rows = b"".join(
            b"\x08" + struct.pack("<d", 100 + i / RATE) + X[i].astype("<f4").tobytes()
            for i in range(at, at + 32)
        )
        out += _chunk_of_xdf(3, struct.pack("<I", 1) + b"\x01\x20" + rows)
        out += _chunk_of_xdf(4, struct.pack("<Idd", 1, 100 + at / RATE, 0.25))
    marker = b"\x08" + struct.pack("<d", 100.5) + b"\x01\x02go"
    out += _chunk_of_xdf(3, struct.pack("<I", 2) + b"\x01\x01" + marker)
    (folder / "in.xdf").write_bytes(out)
    return folder / "in.xdf"


def _write_text(folder: Path, head: str, with_index: bool = False, separator: str = ",") -> Path:
    rows = [[*([str(i % 256)] if with_index else []), *map(str, row)] for i, row in enumerate(X.tolist())]
    text = head + "".join(separator.join(row) + "\n" for row in rows)
    (folder / "in.txt").write_text(text, encoding="utf-8")
    return folder / "in.txt"


def _write_csv(folder: Path) -> Path:
    rows = "".join(f"{i / RATE},{','.join(map(str, row))}\n" for i, row in enumerate(X.tolist()))
    (folder / "in.csv").write_text("time (s),Fz (uV),Cz (uV),Pz (uV),Oz (uV)\n" + rows, encoding="utf-8")
    return folder / "in.csv"


_OPENBCI = "%OpenBCI Raw EEG Data\n%Number of channels = 4\n%Sample Rate = 250 Hz\n%Board = x\n"
_LABCHART = "Interval=\t0.004 s\nChannelTitle=\tFz\tCz\tPz\tOz\nRange=\t10 V\t10 V\t10 V\t10 V\n"


def _write_npy(folder: Path) -> Path:
    np.save(folder / "in.npy", X)
    return folder / "in.npy"


def _write_mat(folder: Path) -> Path:
    from scipy.io import savemat

    savemat(folder / "in.mat", {"x": X, "fs": float(RATE), "about": "a text"}, do_compression=True)
    content = (folder / "in.mat").read_bytes()
    (folder / "in.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content[116:])  # without the time
    return folder / "in.mat"


def _write_wav(folder: Path) -> Path:
    from scipy.io import wavfile

    wavfile.write(folder / "in.wav", RATE, (100 * X).astype("i2"))
    return folder / "in.wav"


def _write_wfdb(folder: Path) -> Path:
    import wfdb

    with warnings.catch_warnings(action="ignore"):  # of pandas about wfdb
        wfdb.wrsamp("in", RATE, ["mV"] * len(NAMES), list(NAMES), X, fmt=["16"] * 4, write_dir=str(folder))
    return folder / "in.hea"


def _write_tdms(folder: Path) -> Path:
    import nptdms

    facts = {"wf_increment": 1 / RATE, "unit_string": "V"}
    channels = [nptdms.ChannelObject("eeg", name, X[:, i], facts) for i, name in enumerate(NAMES)]
    with nptdms.TdmsWriter(folder / "in.tdms") as writer:
        writer.write_segment(channels)
    return folder / "in.tdms"


def _write_miniseed(folder: Path) -> Path:
    import obspy

    traces = [
        obspy.Trace(X[:, i].astype("f4"), {"station": "A", "channel": name, "sampling_rate": RATE})
        for i, name in enumerate(NAMES)
    ]
    obspy.Stream(traces).write(folder / "in.mseed", format="MSEED")
    return folder / "in.mseed"


def _write_as_test(module: str, function: str, name: str = "") -> Callable[[Path], Path]:
    """Return a function that writes the recording of a test into a folder, under a name if it takes one."""

    def write(folder: Path) -> Path:
        made: Path = getattr(import_module(f"tests.files.{module}"), function)(folder / name)
        return made

    return write


SMALLEST: dict[str, Callable[[Path], Path]] = {
    "hdf5": _write_hdf5,
    "hdf5-chunked": _write_chunked_hdf5,
    "hdf5-virtual": _write_virtual_hdf5,
    "nwb": _write_nwb,
    "snirf": _write_snirf,
    "pandas": _write_pandas,
    "set-7.3": _write_set_of_hdf5,
    "set": _write_set,
    "edf": lambda folder: _write_edf_like(folder, "edf"),
    "bdf": lambda folder: _write_edf_like(folder, "bdf"),
    "brainvision": _write_brainvision,
    "fif": _write_fif,
    "xdf": _write_xdf,
    "csv": _write_csv,
    "openbci": lambda folder: _write_text(folder, _OPENBCI, with_index=True),
    "labchart": lambda folder: _write_text(folder, _LABCHART, with_index=True, separator="\t"),
    "npy": _write_npy,
    "mat": _write_mat,
    "wav": _write_wav,
    "wfdb": _write_wfdb,
    "tdms": _write_tdms,
    "miniseed": _write_miniseed,
    "sac": _write_as_test("test_arrays", "write_sac"),
    "gdf": _write_as_test("binary.test_gdf", "write_gdf", "in.gdf"),
    "cnt": _write_as_test("binary.test_neuroscan", "write_cnt", "in.cnt"),
    "egi": _write_as_test("binary.test_egi", "write_egi", "in.raw"),
    "persyst": _write_as_test("binary.test_persyst", "write_persyst"),
    "curry": _write_as_test("test_mne_formats", "write_curry"),
    "nedf": _write_as_test("test_mne_formats", "write_nedf", "in.nedf"),
    "nihon-kohden": _write_as_test("test_mne_formats", "write_nihon_kohden", "in.EEG"),
}
"""Functions that write the smallest recording of a reader into an empty folder, and return its path."""


NEEDS = {
    "pandas": ("pandas", "tables"),
    "set": ("mne", "pymatreader"),
    "edf": ("mne", "edfio"),
    "bdf": ("mne", "edfio"),
    "brainvision": ("mne", "pybv"),
    "fif": ("mne",),
    "xdf": ("pyxdf",),
    "wfdb": ("wfdb",),
    "tdms": ("nptdms",),
    "miniseed": ("obspy",),
    "sac": ("obspy",),
    "curry": ("mne", "curryreader"),
    "nedf": ("mne", "defusedxml"),
    "nihon-kohden": ("mne",),
}
"""Libraries that write or read the recordings."""


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the contents of the files in a folder, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write_smallest(reader: str, folder: Path) -> tuple[str, dict[str, bytes]]:
    """Write the smallest recording of a reader; return the name to open, and all files by name."""
    path: Any = SMALLEST[reader](folder)
    return path.name, read_folder(folder)
