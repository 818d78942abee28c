"""Read files of other libraries with MNE, and refuse some."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.errors import IgbssError
from igbss_stream.files.gaps import get_gap_rows, make_gaps
from igbss_stream.files.inspection import as_json, examine
from igbss_stream.files.open import open_recording
from igbss_stream.files.read_options import ReadOptions

mne = pytest.importorskip("mne")
edfio = pytest.importorskip("edfio")

X = np.random.default_rng(5).normal(0, 50, (1024, 3))


def write_edf(path: Path, rates: tuple[int, ...] = (256, 256, 256)) -> Path:
    signals = [
        edfio.EdfSignal(X[: 4 * rate, i % 3], rate, label=f"C{i}", physical_dimension="uV")
        for i, rate in enumerate(rates)
    ]
    edfio.Edf(signals).write(path)
    return path


def read(path: Path, n: int = 100, **options: Any) -> Any:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


def test_edf_by_its_content(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf")
    step = np.ptp(X) / 65535 * 1e-6
    with open_recording(path) as recording:
        assert (recording.layout, recording.rate, recording.unit) == ("EDF", 256.0, "V")
        assert recording.channels == ("C0", "C1", "C2")
    np.testing.assert_allclose(read(path), X * 1e-6, atol=step)
    np.testing.assert_array_equal(read(path, channels="C2,0"), read(path)[:, [2, 0]])
    with open_recording(path, rate=99.0, unit="mV", factor=1e3) as recording:
        assert (recording.rate, recording.unit) == (99.0, "mV")


def test_facts_are_written_as_json(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf")
    report = json.loads(as_json(path, examine(path, ReadOptions()), None))
    assert (report["recording"]["n_samples"], report["recording"]["layout"]) == (1024, "EDF")


def test_channels_of_different_rates_are_read_separately(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf", (256, 128, 256, 128, 1))
    with pytest.raises(
        IgbssError, match=r"256 Hz: 0,2; 128 Hz: 1,3; 1 Hz: 4\); pass --channels with channels"
    ):
        open_recording(path)
    with pytest.raises(IgbssError, match=r"different rates .*must have the same rate"):
        open_recording(path, channels="C0,C1")
    with pytest.raises(IgbssError, match="one channel"):
        open_recording(path, channels="C4")
    edf = edfio.read_edf(path)  # an independent reader
    for channels, rate, picks in (("C3,1", 128.0, [3, 1]), ("0,C2", 256.0, [0, 2])):
        with open_recording(path, channels=channels) as recording:
            assert (recording.rate, recording.n_samples) == (rate, 4 * rate)
            assert recording.channels == tuple(f"C{i}" for i in picks)
        stored = np.stack([edf.signals[i].data for i in picks], axis=1) * 1e-6
        np.testing.assert_allclose(read(path, channels=channels), stored, rtol=1e-9, atol=1e-15)


def interrupted(path: Path, onsets: list[str], kind: str = "EDF") -> Path:
    """Write a file of records of 1 s with given start times."""
    signal, file = (edfio.EdfSignal, edfio.Edf) if kind == "EDF" else (edfio.BdfSignal, edfio.Bdf)
    signals = [signal(X[:, i], 256, label=f"C{i}", physical_dimension="uV") for i in range(3)]
    file(signals, annotations=[edfio.EdfAnnotation(1.5, None, "x" * 30)]).write(path)
    content, width = bytearray(path.read_bytes()), 2 if kind == "EDF" else 3
    content[192:197] = f"{kind}+D".encode()
    n = int(content[252:256])
    counts = [int(content[256 + 216 * n + 8 * i :][:8]) for i in range(n)]
    assert counts[:3] == [256] * 3
    assert len(counts) == 4
    for i, onset in enumerate(onsets):
        at = int(content[184:192]) + width * (i * sum(counts) + 3 * 256)
        assert content[at : at + 4] == f"+{i}\x14\x14".encode()
        content[at : at + width * counts[3]] = f"+{onset}\x14\x14".encode().ljust(width * counts[3], b"\0")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", ["EDF", "BDF"])
def test_discontinuous_files_without_gaps_are_read(tmp_path: Path, kind: str) -> None:
    path = interrupted(tmp_path / f"in.{kind.lower()}", ["0", "1", "2.0004", "2.9996"], kind)
    with open_recording(path) as recording:
        assert (recording.n_samples, recording.gaps) == (1024, ())
    np.testing.assert_allclose(read(path), X * 1e-6, atol=np.ptp(X) / 65535 * 1e-6)


@pytest.mark.parametrize("kind", ["EDF", "BDF"])
def test_interruptions_are_gaps_of_known_length(tmp_path: Path, kind: str) -> None:
    path = interrupted(tmp_path / f"in.{kind.lower()}", ["0", "1.5", "2.5", "100.25"], kind)
    with open_recording(path) as recording:
        assert recording.n_samples == 1024
        assert recording.gaps == make_gaps([(256, 128, "missing"), (768, 24768, "missing")])
    np.testing.assert_allclose(read(path), X * 1e-6, atol=np.ptp(X) / 65535 * 1e-6)


def test_a_damaged_label_of_annotations_is_a_channel(tmp_path: Path) -> None:
    """As for MNE, which strips blanks of ASCII alone."""
    path = interrupted(tmp_path / "in.bdf", ["0", "1", "2", "3"], "BDF")
    content = path.read_bytes().replace(b"BDF+D", b"BDF+C", 1)
    path.write_bytes(content.replace(b"BDF Annotations ", b"BDF Annotations\xa0", 1))
    with pytest.raises(IgbssError, match="channels with different rates"):
        open_recording(path)
    assert read(path, channels="C0,C1,C2").shape == (1024, 3)


@pytest.mark.parametrize(
    ("onsets", "words"),
    [
        (["0", "0.5"], "record 1 begins 0.5 s before"),
        (["0", "x"], "record 1 does not state its start time"),
    ],
)
def test_records_that_cannot_be_placed_are_refused(tmp_path: Path, onsets: list[str], words: str) -> None:
    path = interrupted(tmp_path / "in.edf", onsets)
    with pytest.raises(IgbssError, match=words):
        open_recording(path)
    content = bytearray(path.read_bytes())
    content[244:252] = b"0       "
    path.write_bytes(content)
    with pytest.raises(IgbssError, match="damaged EDF header"):
        open_recording(path)


@pytest.mark.parametrize("meas_date", [None, 1.7e9])
@pytest.mark.parametrize("first", [0, 300])
def test_skips_of_fif_take_no_rows(tmp_path: Path, meas_date: float | None, first: int) -> None:
    path = tmp_path / "in_raw.fif"
    info = mne.create_info(["a", "b", "c"], 256.0, "eeg")
    raw = mne.io.RawArray(X.T * 1e-6, info, first_samp=first, verbose="ERROR")
    raw.set_meas_date(meas_date)
    spans = [(0, 64), (256, 320), (512, 640), (576, 704), (1000, 1024)]
    raw.set_annotations(
        mne.Annotations(
            [a / 256 for a, _ in spans] + [0.5],
            [(b - a) / 256 for a, b in spans] + [0.0],
            ["BAD_ACQ_SKIP"] * 5 + ["boundary"],
        )
    )
    raw.save(path, fmt="double", buffer_size_sec=0.25, verbose="ERROR")
    kept = np.ones(1024, bool)
    for a, b in spans:
        kept[a:b] = False
    with open_recording(path) as recording:
        assert recording.gaps == make_gaps([(64, 0, "boundary"), (192, 64, "skip"), (384, 192, "skip")])  # fmt: skip
    for n in (1, 100, 1024):
        np.testing.assert_array_equal(read(path, n), X[kept] * 1e-6)


def test_fif_and_its_bad_channels(tmp_path: Path) -> None:
    raw = mne.io.RawArray(X.T * 1e-6, mne.create_info(["a", "b", "c"], 256.0, "eeg"), verbose="ERROR")
    raw.info["bads"] = ["b"]
    raw.set_annotations(mne.Annotations([1.0], [0.0], ["BAD boundary"]))
    raw.save(tmp_path / "in_raw.fif", fmt="double", verbose="ERROR")
    with open_recording(tmp_path / "in_raw.fif") as recording:
        assert (recording.layout, recording.bad, recording.types) == ("FIF", ("b",), ("eeg",) * 3)
        assert get_gap_rows(recording.gaps) == [256]
    np.testing.assert_array_equal(read(tmp_path / "in_raw.fif"), X * 1e-6)


def test_without_mne_the_message_states_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(IgbssError, match=r"pip install 'igbss-stream\[mne\]'"):
        open_recording(write_edf(tmp_path / "in.edf"))


def test_suffixes_that_mne_does_not_accept_are_reported(tmp_path: Path) -> None:
    with pytest.raises(IgbssError, match=r"is EDF, which MNE reads only where the name ends in \.edf"):
        open_recording(write_edf(tmp_path / "in.rec"))
    assert read(write_edf(tmp_path / "in.EDF")).shape == (1024, 3)


@pytest.mark.parametrize(
    ("dimensions", "unit", "scale"),
    [
        (("uV", "mV", "V"), "V", (1e-6, 1e-3, 1)),
        (("mmHg",) * 3, "mmHg", (1,) * 3),
        (("uV", "mmHg", ""), None, (1e-6, 1, 1)),
    ],
)
def test_units_other_than_volts_are_those_of_the_file(
    tmp_path: Path, dimensions: tuple[str, ...], unit: str | None, scale: tuple[float, ...]
) -> None:
    path = tmp_path / "in.edf"
    signals = [
        edfio.EdfSignal(X[:, i], 256, label=f"C{i}", physical_dimension=dimension)
        for i, dimension in enumerate(dimensions)
    ]
    edfio.Edf(signals).write(path)
    with open_recording(path) as recording:
        assert recording.unit == unit
    np.testing.assert_allclose(read(path) / scale, X, atol=np.ptp(X) / 65535)


@pytest.mark.parametrize("options", [{"dataset": "/data"}, {"axis": 1}])
def test_options_of_hdf5_are_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(IgbssError, match="omit --dataset and --axis"):
        open_recording(write_edf(tmp_path / "in.edf"), **options)
