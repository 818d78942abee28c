"""Files that MNE reads, written by other libraries, and what is refused of them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from igbss_stream.errors import IgbssError
from igbss_stream.ingest.files import open_recording

mne = pytest.importorskip("mne")
edfio = pytest.importorskip("edfio")

X = np.random.default_rng(5).normal(0, 50, (1024, 3))


def write_edf(path: Path, rates: tuple[int, ...] = (256, 256, 256)) -> Path:
    signals = [
        edfio.EdfSignal(X[: 4 * rate, i], rate, label=f"C{i}", physical_dimension="uV")
        for i, rate in enumerate(rates)
    ]
    edfio.Edf(signals).write(path)
    return path


def read(path: Path, n: int = 100, **options: Any) -> Any:
    with open_recording(path, **options) as recording:
        return np.concatenate([block.copy() for _, block in recording.blocks(n)])


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


def test_channels_of_different_rates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IgbssError, match=r"different rates .*C0 256, C1 128, C2 256"):
        open_recording(write_edf(tmp_path / "in.edf", (256, 128, 256)))


def test_interrupted_edf_is_refused(tmp_path: Path) -> None:
    path = write_edf(tmp_path / "in.edf")
    content = bytearray(path.read_bytes())
    content[192:197] = b"EDF+D"
    path.write_bytes(content)
    with pytest.raises(IgbssError, match=r"EDF\+D: interrupted, which is not read yet; convert it"):
        open_recording(path)


def test_fif_and_its_bad_channels(tmp_path: Path) -> None:
    raw = mne.io.RawArray(X.T * 1e-6, mne.create_info(["a", "b", "c"], 256.0, "eeg"), verbose="ERROR")
    raw.info["bads"] = ["b"]
    raw.set_annotations(mne.Annotations([1.0], [0.0], ["BAD boundary"]))
    raw.save(tmp_path / "in_raw.fif", fmt="double", verbose="ERROR")
    with open_recording(tmp_path / "in_raw.fif") as recording:
        assert (recording.layout, recording.bad, recording.types) == ("FIF", ("b",), ("eeg",) * 3)
        assert [gap.row for gap in recording.breaks] == [256]
    np.testing.assert_array_equal(read(tmp_path / "in_raw.fif"), X * 1e-6)


def test_without_mne_the_message_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mne", None)
    with pytest.raises(IgbssError, match=r"pip install 'igbss-stream\[mne\]'"):
        open_recording(write_edf(tmp_path / "in.edf"))


@pytest.mark.parametrize("options", [{"dataset": "/data"}, {"axis": 1}])
def test_options_of_hdf5_are_refused(tmp_path: Path, options: Any) -> None:
    with pytest.raises(IgbssError, match="leave --dataset and --axis out"):
        open_recording(write_edf(tmp_path / "in.edf"), **options)
