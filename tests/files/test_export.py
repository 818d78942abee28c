"""The command `export`: files are read again with MNE, edfio and our own reader."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from igbss_stream.errors import ParameterError
from igbss_stream.files.export.records import find_cuts
from igbss_stream.files.open import open_recording
from tests.commands import Command, Refusal, assert_says, contents

mne = pytest.importorskip("mne")
edfio = pytest.importorskip("edfio")
pytest.importorskip("pybv")

RATE = 250.0
GAP = [("row", "i8"), ("start", "i8"), ("n_samples", "i8"), ("reason", "S40")]
ENDINGS = [".edf", ".bdf", ".vhdr", ".fif"]
BITS = {".edf": 16, ".bdf": 24}


def output_of_batch(path: Path, x: Any, gaps: Any = (), dataset: str = "sources", **attrs: Any) -> Path:
    with h5py.File(path, "w") as file:
        names = [f"source-{n}" for n in range(x.shape[1])]
        file.create_dataset(dataset, data=x).attrs.update({"rate": RATE, "channels": names} | attrs)
        if gaps:
            file["gaps"] = np.array(gaps, GAP)
    return path


@pytest.fixture
def sources() -> np.ndarray:
    """Return sources of 4.004 s: a whole number of records, but not of seconds."""
    rng = np.random.default_rng(1)
    x = rng.laplace(size=(1001, 3)) * [1.0, 3.0, 0.01] + [0.0, 20.0, -5.0]
    return np.asarray(x, np.float32)


def exported(igbss: Command, source: Path, target: Path, *options: object) -> str:
    result = igbss("export", source, "-o", target, *options)
    assert result.exit_code == 0, result.output
    assert not [path for path in target.parent.iterdir() if "partial" in path.name]
    return str(result.output)


def read_by_us(path: Path) -> np.ndarray:
    with open_recording(path) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(300)])


def stated_rounding(output: str) -> float:
    found = re.search(r"rounds by at most (\S+) of a channel's", output)
    assert found, output
    return float(found[1])


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip(igbss: Command, tmp_path: Path, sources: np.ndarray, ending: str) -> None:
    source = output_of_batch(tmp_path / "out.h5", sources)
    target = tmp_path / f"x{ending}"
    output = exported(igbss, source, target)
    raw = mne.io.read_raw(target, verbose="ERROR")
    assert (raw.ch_names, raw.info["sfreq"]) == (["source-0", "source-1", "source-2"], RATE), raw.info
    back = raw.get_data().T
    assert back.shape == sources.shape
    share = float((np.abs(back - sources).max(axis=0) / sources.std(axis=0)).max())
    assert stated_rounding(output) == pytest.approx(share, rel=0.06, abs=1e-12)
    if ending in BITS:
        assert share < 1.01 * float((np.ptp(sources, axis=0) / sources.std(axis=0)).max()) / 2 ** (
            BITS[ending] + 1
        )
    else:
        np.testing.assert_array_equal(back, sources)
    np.testing.assert_allclose(read_by_us(target), back, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("unit", "volts"), [("V", 1.0), ("uV", 1e-6), ("mV", 1e-3)])
def test_units_of_voltage(
    igbss: Command, tmp_path: Path, sources: np.ndarray, ending: str, unit: str, volts: float
) -> None:
    x = sources * 1e-5 / volts
    source = output_of_batch(tmp_path / "out.h5", x, unit=unit, dataset="cleaned")
    exported(igbss, source, tmp_path / f"x{ending}", "--dataset", "cleaned")
    raw = mne.io.read_raw(tmp_path / f"x{ending}", verbose="ERROR")
    assert set(raw.get_channel_types()) == {"eeg"}
    np.testing.assert_allclose(raw.get_data().T, x * volts, atol=2e-4 * 1e-5 * sources.std())


@pytest.mark.parametrize("ending", ENDINGS)
def test_gaps_are_marked_and_read_again(
    igbss: Command, tmp_path: Path, sources: np.ndarray, ending: str
) -> None:
    gaps = [(20, 20, 40, b"missing"), (500, 540, 0, b"boundary")]
    target = tmp_path / f"x{ending}"
    assert "2 gaps marked" in exported(igbss, output_of_batch(tmp_path / "out.h5", sources, gaps), target)
    found = mne.io.read_raw(target, verbose="ERROR").annotations
    assert found.onset.tolist() == pytest.approx([20 / RATE, 500 / RATE], abs=1e-6)
    assert [text.removeprefix("Comment/").removeprefix("BAD boundary, ") for text in found.description] == [
        "gap: 40 samples missing",
        "gap: unknown number of samples missing (boundary)",
    ]
    with open_recording(target) as recording:
        assert [(gap.start, gap.n_samples) for gap in recording.gaps] == [(20, 40), (540, 0)]


def test_the_last_record_is_padded(igbss: Command, tmp_path: Path, sources: np.ndarray) -> None:
    source = output_of_batch(tmp_path / "out.h5", np.tile(sources, (3, 1))[:2999])  # a prime number
    said = exported(igbss, source, tmp_path / "x.edf")
    assert_says(said, "Note", "padding: 1 samples", "an annotation marks it")
    raw = mne.io.read_raw(tmp_path / "x.edf", verbose="ERROR")
    assert raw.n_times == 3000
    assert (raw.annotations.onset[0], raw.annotations.description[0]) == (
        pytest.approx(2999 / RATE),
        "end: 1 samples of padding follow",
    )
    np.testing.assert_array_equal(raw.get_data()[:, 2999], raw.get_data()[:, 2998])


def test_rates_that_are_not_integers(igbss: Command, tmp_path: Path, sources: np.ndarray) -> None:
    for rate in (1000 / 3, 128.0123, np.pi * 100, 1 / 3600):
        source = output_of_batch(tmp_path / "out.h5", sources, rate=rate)
        output = exported(igbss, source, tmp_path / "x.edf", "--overwrite")
        assert "drifts" not in output  # negligible in a short recording
        assert edfio.read_edf(tmp_path / "x.edf").signals[0].sampling_frequency == pytest.approx(
            rate, rel=1e-6
        )
        exported(igbss, source, tmp_path / "x.vhdr", "--overwrite")
        sfreq = mne.io.read_raw(tmp_path / "x.vhdr", verbose="ERROR").info["sfreq"]
        assert sfreq == pytest.approx(rate, rel=1e-12)


def test_a_drift_is_noted(igbss: Command, tmp_path: Path) -> None:
    source = output_of_batch(tmp_path / "out.h5", np.arange(1e6).reshape(-1, 2) % 97, rate=0.31415926)
    assert_says(
        exported(igbss, source, tmp_path / "x.edf"),
        "0.31415926 Hz is stated as 3 samples in 9.549297 s",
        "which drifts",
    )
    first = edfio.read_edf(tmp_path / "x.edf").signals[0]
    assert first.sampling_frequency == pytest.approx(0.31415926, rel=1e-7)
    assert first.sampling_frequency != 0.31415926


@given(
    st.integers(1, 10**8),
    st.one_of(st.sampled_from([250.0, 256.0, 512.0, 1000.0, 2048.0, 24414.0625]), st.floats(0.01, 3e4)),
    st.integers(2, 1024),
)
def test_record_lengths_are_valid(n_samples: int, rate: float, row_bytes: int) -> None:
    try:
        cut = find_cuts(n_samples, rate, row_bytes)[0]
    except ParameterError:
        return
    assert len(str(cut.seconds)) <= 8
    assert cut.rate == pytest.approx(rate, rel=1.01e-6)
    assert (n_samples + cut.padding) % cut.length == 0
    assert 0 <= cut.padding < cut.length
    if rate == int(rate):
        assert cut.drift == 0


def test_existing_files_are_not_replaced(
    igbss: Command, refused: Refusal, tmp_path: Path, sources: np.ndarray
) -> None:
    source = output_of_batch(tmp_path / "out.h5", sources)
    for name in ("x.edf", "y.vmrk"):
        (tmp_path / name).write_bytes(b"mine")
    assert_says(refused("export", source, "-o", tmp_path / "x.edf"), "x.edf' already exists", "--overwrite")
    assert_says(refused("export", source, "-o", tmp_path / "y.vhdr"), "y.vmrk' already exists")
    exported(igbss, source, tmp_path / "y.vhdr", "--overwrite")
    assert mne.io.read_raw(tmp_path / "y.vhdr", verbose="ERROR").n_times == 1001


def test_a_failed_brainvision_export_keeps_the_older_file(
    refused: Refusal, igbss: Command, tmp_path: Path, sources: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = output_of_batch(tmp_path / "out.h5", sources)
    exported(igbss, source, tmp_path / "x.vhdr")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    before = contents(tmp_path)
    for part in ("_write_vhdr_file", "_write_bveeg_file"):
        with monkeypatch.context() as patch:
            patch.setattr(f"pybv.io.{part}", full)
            assert_says(refused("export", source, "-o", tmp_path / "x.vhdr", "--overwrite"), "disk is full")
    assert contents(tmp_path) == before


def test_fif_of_several_files(
    igbss: Command, refused: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("igbss_stream.mne.fif._LARGEST", "2MB")
    x = np.random.default_rng(2).normal(size=(300_000, 3)).astype(np.float32)
    source = output_of_batch(tmp_path / "out.h5", x)
    (tmp_path / "x_eeg-1.fif").write_bytes(b"mine")
    assert_says(refused("export", source, "-o", tmp_path / "x_eeg.fif"), "x_eeg-1.fif' already exists")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", "x_eeg-1.fif"]
    exported(igbss, source, tmp_path / "x_eeg.fif", "--overwrite")
    assert len(list(tmp_path.glob("*.fif"))) > 1
    np.testing.assert_array_equal(read_by_us(tmp_path / "x_eeg.fif"), x)


def test_a_header_refers_to_complete_files(
    igbss: Command, tmp_path: Path, sources: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = output_of_batch(tmp_path / "out.h5", sources)
    exported(igbss, source, tmp_path / "x.vhdr")
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.suffix == ".vmrk":
            raise OSError(28, "No space left on device")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    result = igbss("export", source, "-o", tmp_path / "x.vhdr", "--overwrite")
    assert (result.exit_code, "disk is full" in result.output) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.h5", "x.eeg", "x.vmrk"]


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        ({}, ("-o", "x.csv"), ["must end in .edf, .bdf, .vhdr, .fif", "Got 'x.csv'"]),
        (
            {},
            ("-o", "x.edf", "--dataset", "cleaned"),
            ["no samples in a dataset 'cleaned'", "are: sources"],
        ),
        ({}, ("-o", "nowhere/x.edf"), ["there is no directory"]),
        ({}, ("-o", "x.edf", "--rate", -1), ["--rate must be a number of Hz above 0"]),
        ({"rate": 0.0}, ("-o", "x.edf"), ["has the rate"]),
        ({"unit": "V", "scale": 1e-14}, ("-o", "x.edf"), ["without exponent; export to .vhdr"]),
        ({"scale": 1e12}, ("-o", "x.edf"), ["without exponent; export to .vhdr"]),
        (
            {"channels": ["a" * 16, "a" * 17, "b"]},
            ("-o", "x.bdf"),
            ["have the same label", "export to .vhdr"],
        ),
        ({"channels": ["a", "a", "b"]}, ("-o", "x.vhdr"), ["unique channel names"]),
        ({"channels": ["a", "a", "b"]}, ("-o", "x.fif"), ["unique channel names"]),
        ({"channels": ["a", "a\nb", "c"]}, ("-o", "x.vhdr"), ["line break"]),
        ({"nan": True}, ("-o", "x.edf"), ["has nan at sample 7 of source-1"]),
        ({"rate": 123456.78901}, ("-o", "x.edf"), []),
    ],
)
def test_samples_that_the_format_cannot_represent_are_refused(
    igbss: Command,
    refused: Refusal,
    tmp_path: Path,
    sources: np.ndarray,
    change: Any,
    options: Any,
    says: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    attrs = {name: value for name, value in change.items() if name in ("rate", "unit", "channels")}
    x = sources * change.get("scale", 1.0)
    if change.get("nan"):
        x[7, 1] = np.nan
    output_of_batch(tmp_path / "out.h5", x, **attrs)
    if says:
        assert_says(refused("export", "out.h5", *options), *says)
    else:
        assert igbss("export", "out.h5", *options).exit_code == 0


def test_missing_memory_and_libraries_are_reported(
    refused: Refusal, tmp_path: Path, sources: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = output_of_batch(tmp_path / "out.h5", sources)
    with monkeypatch.context() as patch:
        patch.setattr("igbss_stream._util.memory.get_available_memory", lambda: 10000)
        for name, library in (("x.edf", "edfio"), ("x.bdf", "edfio"), ("x.vhdr", "pybv"), ("x.fif", "MNE")):
            assert_says(
                refused("export", source, "-o", tmp_path / name), library, "GB of memory at once where"
            )
    for name, library in (("x.edf", "edfio"), ("x.vhdr", "pybv")):
        monkeypatch.setitem(sys.modules, library, None)
        said = refused("export", source, "-o", tmp_path / name)
        assert_says(said, f"with {library}, which cannot be imported", "pip install 'igbss-stream[export]'")
    for module in [name for name in sys.modules if name.startswith("igbss_stream.mne")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "mne", None)
    said = refused("export", source, "-o", tmp_path / "x.fif")
    assert_says(said, "which cannot be imported", "pip install 'igbss-stream[mne]'")


def test_json_describes_the_export(igbss: Command, tmp_path: Path, sources: np.ndarray) -> None:
    source = output_of_batch(
        tmp_path / "out.h5", sources, [(20, 20, 40, b"missing")], unit="degrees Kelvin"
    )
    target = tmp_path / "x.edf"
    report = json.loads(exported(igbss, source, target, "--json", "--quiet"))
    raw = mne.io.read_raw(target, verbose="ERROR")
    assert (report["output"], report["n_samples"], report["rate"]) == (str(target), len(sources), RATE)
    assert (report["n_channels"], report["gaps"]) == (len(raw.ch_names), len(raw.annotations)) == (3, 1)
    deviations = sources.std(axis=0, dtype=np.float64)
    error = np.abs(read_by_us(target)[: len(sources)] - sources.astype(float)).max(axis=0) / deviations
    assert report["rounding_channel"] == raw.ch_names[int(error.argmax())]
    assert error.max() == pytest.approx(report["rounding"], rel=1e-4)
    assert any("degrees Kelvin" in note for note in report["notes"])


def test_changed_labels_and_units_are_noted(igbss: Command, tmp_path: Path, sources: np.ndarray) -> None:
    names = ["Fü", "a label of more than sixteen", "ok"]
    source = output_of_batch(tmp_path / "out.h5", sources, channels=names, unit="degrees Celsius")
    said = exported(igbss, source, tmp_path / "x.edf")
    assert_says(said, "'Fü' is 'F?'", "is 'a label of more '", "unit 'degrees Celsius' does not fit")
    said = exported(igbss, source, tmp_path / "x.vhdr")
    assert_says(said, "may not support 'degrees Celsius'")
    assert mne.io.read_raw(tmp_path / "x.vhdr", verbose="ERROR").ch_names == names
