"""Arrays of NumPy, SciPy and other libraries, which the tests write with these libraries."""

import io
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat, wavfile

from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.gaps import make_gaps
from igbss_stream.files.open import open_recording
from igbss_stream.files.signal_choice import SeveralSignalsError

X = np.random.default_rng(4).normal(size=(500, 4))
NAMES = ("a", "b", "c", "d")


def read(path: Path, **options: Any) -> NDArray[Any]:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(77)])


@pytest.mark.parametrize("dtype", ["f4", "<f8", ">f8", "i2", ">i4", "u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path: Path, dtype: str, order: Any) -> None:
    path, x = tmp_path / "in.npy", np.asarray(100 * np.abs(X), dtype, order=order)
    np.save(path, x)
    np.testing.assert_array_equal(read(path), x)
    with open_recording(path, rate=250.0, unit="uV", channels="3,0-1", factor=2) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("NumPy", 250.0, "uV")
        assert recording.channels == ("channel-3", "channel-0", "channel-1")
        np.testing.assert_array_equal(next(iter(recording.read_blocks(500)))[1], 2.0 * x[:, [3, 0, 1]])
    np.save(path, x.T)
    with pytest.raises(IgbssError, match=r"more channels \(500\) than samples \(4\); pass --axis 1"):
        open_recording(path)
    np.testing.assert_array_equal(read(path, axis=1), x)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([{}], object), "save it again"),
        (X[:, 0], "has the shape"),
        (X[None], "has the shape"),
        (X.astype("c16"), "needs real numbers"),
        (X[:, :1], "one channel"),
        (np.zeros(5, "f8,i4"), "has the shape"),
    ],
)
def test_npy_that_is_no_recording(tmp_path: Path, array: Any, message: str) -> None:
    np.save(tmp_path / "in.npy", array, allow_pickle=True)
    with pytest.raises(IgbssError, match=message):
        open_recording(tmp_path / "in.npy")


def test_npy_that_claims_more_than_it_has(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1 << 10)}
    )
    (tmp_path / "in.npy").write_bytes(content.getvalue() + X.tobytes())
    with pytest.raises(RecordingError, match=r"cannot be read as \.npy"):
        open_recording(tmp_path / "in.npy")


@pytest.mark.parametrize("dtype", ["i2", "i4", "u1", "f4", "f8"])
def test_wav(tmp_path: Path, dtype: str) -> None:
    x = np.asarray(20 * X + 128, dtype)
    wavfile.write(tmp_path / "in.wav", 8000, x)
    np.testing.assert_array_equal(read(tmp_path / "in.wav"), x)
    with open_recording(tmp_path / "in.wav") as recording:
        assert (recording.layout, recording.rate, recording.unit, recording.notes) == (
            "WAV",
            8000.0,
            None,
            (),
        )
    content = (tmp_path / "in.wav").read_bytes()
    (tmp_path / "in.wav").write_bytes(content[: len(content) // 2])
    try:
        with open_recording(tmp_path / "in.wav") as recording:
            assert recording.notes
    except RecordingError as error:
        assert "SciPy cannot read it" in str(error)  # noqa: PT017 - either is right


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("version", ["5", "4"])
def test_matlab_before_7_3(tmp_path: Path, compress: bool, version: Any) -> None:
    path = tmp_path / "in.mat"
    savemat(
        path,
        {"x": X, "fs": 250.0, "name": "text"},
        format=version,
        do_compression=compress and version == "5",
    )
    with pytest.raises(
        IgbssError, match=r"x of .* is a matrix of 500 x 4 in MATLAB; pass --axis 0 if its rows"
    ):
        open_recording(path)
    with open_recording(path, axis=0) as recording:
        assert (recording.layout, recording.dataset, recording.rate) == ("MATLAB", "x", 250.0)
    np.testing.assert_array_equal(read(path, axis=0), X)
    savemat(path, {"x": X.T, "y": X[:, :3]}, format=version)
    with pytest.raises(
        SeveralSignalsError, match=r"2 matrices; pass --dataset with one of: x \(4 x 500\), y"
    ):
        open_recording(path, axis=0)
    np.testing.assert_array_equal(read(path, axis=1, dataset="x"), X)
    savemat(path, {"s": {"x": X}, "t": "text"})
    with pytest.raises(RecordingError, match="no matrix of numbers on its top level"):
        open_recording(path, axis=0)


def write_tdms(path: Path, parts: list[NDArray[Any]]) -> Path:
    import nptdms

    facts = {
        "wf_increment": 0.004,
        "unit_string": "mV",
        "wf_start_time": np.datetime64("2024-05-01T10:00:00"),
    }
    with nptdms.TdmsWriter(path) as writer:
        for part in parts:
            writer.write_segment(
                [nptdms.ChannelObject("eeg", name, part[:, i], facts) for i, name in enumerate(NAMES)]
            )
    return path


def test_tdms(tmp_path: Path) -> None:
    pytest.importorskip("nptdms")
    path = write_tdms(tmp_path / "in.tdms", [X[:200], X[200:]])
    np.testing.assert_array_equal(read(path), X)
    with open_recording(path) as recording:
        assert (recording.rate, recording.unit, recording.channels) == (250.0, "mV", NAMES)
        assert recording.t0 == 1714557600.0
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(IgbssError, match="has channels of different lengths"):
        open_recording(path)
    with open_recording(write_tdms(path, [X[:200], X[200:]]), "eeg") as recording:
        assert recording.n_samples == 500
    path.write_bytes(path.read_bytes() + path.read_bytes()[:60])  # a segment that is cut off
    with open_recording(path) as recording:
        assert any(note.startswith("npTDMS warns: ") for note in recording.notes)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(IgbssError, match="no group with several channels of numbers"):
        open_recording(path)


def test_wfdb(tmp_path: Path) -> None:
    wfdb = pytest.importorskip("wfdb")
    with warnings.catch_warnings(action="ignore"):  # of pandas about wfdb
        wfdb.wrsamp("in", 250, ["mV"] * 4, list(NAMES), X, fmt=["16"] * 4, write_dir=str(tmp_path))
    path = tmp_path / "in.hea"
    np.testing.assert_array_equal(read(path), wfdb.rdrecord(str(tmp_path / "in")).p_signal)
    np.testing.assert_allclose(read(path, channels="c,0"), X[:, [2, 0]], atol=1e-3)
    text = path.read_text()
    path.write_text(text.replace("in.dat", "../in.dat"))
    with pytest.raises(IgbssError, match=r"WFDB, and wfdb cannot read it|may be outside its folder"):
        open_recording(path)
    path.write_text(text.replace("in.dat", "on.dat", 2))
    with pytest.raises(IgbssError, match=r"'on.dat', which is missing; restore it, or pass --channels 2-3"):
        open_recording(path)


def test_annotations_beside_a_wfdb_record_are_events(tmp_path: Path) -> None:
    wfdb = pytest.importorskip("wfdb")
    with warnings.catch_warnings(action="ignore"):  # of pandas about wfdb
        wfdb.wrsamp("in", 250, ["mV"] * 4, list(NAMES), X, fmt=["16"] * 4, write_dir=str(tmp_path))
        at, symbols = np.array([0, 3, 20, len(X) + 5]), ["N", "+", "V", "N"]
        notes = ["", "(AFIB", "", ""]
        wfdb.wrann("in", "atr", at, symbols, aux_note=notes, fs=250, write_dir=str(tmp_path))
        wfdb.wrann(
            "in", "qrs", np.array([6, 10]), ["N", "N"], fs=500, write_dir=str(tmp_path)
        )  # another rate
        (tmp_path / "in.st").write_bytes(b"\xff" * 7)
        stored = wfdb.rdann(str(tmp_path / "in"), "atr")
    with open_recording(tmp_path / "in.hea") as recording:
        found = [(e.index, e.label, e.source) for e in recording.events]
        assert found == [
            (0.0, "N", "in.atr"), (3.0, "+ (AFIB", "in.atr"), (3.0, "N", "in.qrs"), (5.0, "N", "in.qrs"),
            (20.0, "V", "in.atr"),
        ]  # fmt: skip
        assert recording.notes[:2] == (
            "4 annotations in 'in.atr' are events",
            "2 annotations in 'in.qrs' are events",
        )
        assert "'in.st' beside the record is not read as annotations" in recording.notes[2]
    assert stored.sample.tolist()[:3] == [e[0] for e in found if e[2] == "in.atr"]


def write_sac(folder: Path, order: str = "<") -> Path:
    """Write three components of a station, of which the second begins 5 samples later, and other files."""
    obspy = pytest.importorskip("obspy")
    start = obspy.UTCDateTime(2020, 1, 2, 3, 4, 5)
    for i, (station, channel, late) in enumerate(
        (
            ("A", "BHE", 0),
            ("A", "BHN", 5),
            ("A", "BHZ", 0),
            ("B", "BHZ", 0),
            ("A", "HHZ", 0),
            ("A", "BHZ", 9999),
        )
    ):
        stats: dict[str, Any] = {"network": "XX", "station": station, "location": "00", "channel": channel}
        stats |= {"sampling_rate": 100.0, "starttime": start + late / 100}
        trace = obspy.Trace(X[late % 9999 :, i % 4].astype("f4"), stats)
        trace.stats.sac = {"b": 2.5, "t1": 2.5 + 0.2, "kt1": "P"} if i < 3 else {"b": 0.0}
        trace.write(str(folder / f"{i}.sac"), format="SAC", byteorder=order)
    (folder / "notes.sac").write_text("text")
    return folder / "2.sac"


@pytest.mark.parametrize("order", ["<", ">"])
def test_sac_files_of_a_station_are_read_together(tmp_path: Path, order: str) -> None:
    path = write_sac(tmp_path, order)
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("SAC", 100.0, None)
        assert recording.channels == ("XX.A.00.BHE", "XX.A.00.BHN", "XX.A.00.BHZ")
        assert recording.notes[0] == "the components of the station are in: 0.sac, 1.sac, 2.sac"
        assert recording.t0 == pytest.approx(1577934245.05, abs=1e-3)
        found = [(round(e.index, 2), e.label, e.source) for e in recording.events]
        assert found == [(15.0, "P", "XX.A.00.BHE"), (20.0, "P", "XX.A.00.BHN")]
    np.testing.assert_array_equal(read(path), X[5:, :3].astype("f4"))
    (tmp_path / "copy.sac").write_bytes((tmp_path / "0.sac").read_bytes())
    with pytest.raises(IgbssError, match=r"two files of channel 'BHE' .*'0.sac' and 'copy.sac'; move one"):
        open_recording(path)
    with pytest.raises(IgbssError, match="has one channel; separation needs at least 2"):
        open_recording(tmp_path / "3.sac")
    content = path.read_bytes()
    path.write_bytes(
        content[:144] + struct.pack(f"{order}f", -1e30) + content[148:]
    )  # ObsPy would not return
    with pytest.raises(IgbssError, match="damaged: its header states a longitude of -1e\\+30"):
        open_recording(path)


def test_miniseed_with_gaps_and_other_ends(tmp_path: Path) -> None:
    obspy = pytest.importorskip("obspy")
    path, stream = tmp_path / "in.mseed", obspy.Stream()
    spans = {"a": [(0, 200), (230, 500)], "b": [(10, 500)], "c": [(0, 300), (301, 490)]}
    for i, (name, parts) in enumerate(spans.items()):
        for start, stop in parts:
            head = {
                "station": "X",
                "channel": name,
                "sampling_rate": 50.0,
                "starttime": obspy.UTCDateTime(1e9 + start / 50),
            }
            stream.append(obspy.Trace(X[start:stop, i].copy(), head))
    stream.write(path, format="MSEED")
    with open_recording(path) as recording:
        assert recording.channels == (".X..a", ".X..b", ".X..c")
        assert recording.gaps == make_gaps([(190, 30, "missing"), (260, 1, "missing")])
        assert recording.t0 == pytest.approx(1e9 + 0.2)
        assert recording.notes == ("20 samples at the ends, which not all channels have, are left out",)
    kept = np.r_[10:200, 230:300, 301:490]
    np.testing.assert_array_equal(read(path), X[kept, :3])


@pytest.mark.parametrize(
    ("name", "head", "message"),
    [
        ("in.cnt", b"RIFF\x80\0\0\0CNT LIST", r"is CNT of ANT, .*mne\.io\.read_raw_ant\("),
        ("in.cnt", b"RF64\x80\0\0\0\0\0\0\0CNT LIST", "is CNT of ANT"),
        ("in.cnt", b"Version 2.0", "neither CNT of Neuroscan, version 3"),
        ("in.eeg", b"\0\1", "contains the samples of a BrainVision recording"),
    ],
)
def test_formats_that_are_not_read_are_refused_by_name(
    tmp_path: Path, name: str, head: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(head.ljust(600, b"\0"))
    with pytest.raises(RecordingError, match=message):
        open_recording(tmp_path / name)
