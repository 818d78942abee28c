"""`batch --compression`: the sources are the same, and smaller."""

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

import igbss_stream.batch.channels
from igbss_stream.errors import RecordingError
from igbss_stream.files.open import open_recording
from tests.commands import SYSTEMATIC, Command, Refusal
from tests.recordings import noise, read_output, write_recording

FILTERS = {"gzip": [h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE], "lz4": [32008]}


@pytest.fixture
def steps(tmp_path: Path) -> Path:
    """Return the path of a recording of integers whose sources can be compressed."""
    pytest.importorskip("hdf5plugin")
    return write_recording(tmp_path / "in.h5", np.round(20 * noise(50_000, 8)).astype("f4"), rate=250.0)


@pytest.mark.parametrize("compression", ["gzip", "lz4"])
def test_compressed_sources_are_the_same(
    separated: Command, steps: Path, tmp_path: Path, compression: str
) -> None:
    separated(steps, *SYSTEMATIC)  # of integers as well
    plain, size = read_output(tmp_path / "out.h5").sources, (tmp_path / "out.h5").stat().st_size
    separated(steps, *SYSTEMATIC, "--compression", compression, "--overwrite")
    assert (tmp_path / "out.h5").stat().st_size < 0.7 * size
    np.testing.assert_array_equal(read_output(tmp_path / "out.h5").sources, plain)
    with h5py.File(tmp_path / "out.h5") as file:
        plist = file["sources"].id.get_create_plist()
        codes = [plist.get_filter(i)[0] for i in range(plist.get_nfilters())]
        assert file["sources"].chunks == (2**20 // 32, 8)
    assert codes == FILTERS[compression]
    with open_recording(tmp_path / "out.h5", "sources") as recording:
        again = np.concatenate([block.copy() for _, block in recording.read_blocks(7_000)])
    np.testing.assert_array_equal(again, plain)
    assert recording.rate == 250.0


@pytest.mark.jit
@pytest.mark.parametrize("compression", ["gzip", "lz4"])
def test_bytes_do_not_depend_on_the_blocks(
    monkeypatch: pytest.MonkeyPatch, separated: Command, steps: Path, tmp_path: Path, compression: str
) -> None:
    contents = set()
    for block_bytes in (1 << 21, 1 << 21, 100_000, 1 << 30):
        monkeypatch.setattr(igbss_stream.batch.channels, "BLOCK_BYTES", block_bytes)
        separated(steps, "--compression", compression, "--overwrite")
        contents.add((tmp_path / "out.h5").read_bytes())
    assert len(contents) == 1


def test_unknown_compression(batch_refused: Refusal, recording: Path) -> None:
    message = batch_refused(recording, "--compression", "zip")
    assert "--compression must be none, gzip or lz4. Got 'zip' instead." in message


def test_lz4_without_its_library(
    monkeypatch: pytest.MonkeyPatch, batch_refused: Refusal, recording: Path
) -> None:
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    assert "pip install 'igbss-stream[compression]'" in batch_refused(recording, "--compression", "lz4")


@pytest.mark.jit
def test_lz4_cannot_be_read_without_its_library(
    monkeypatch: pytest.MonkeyPatch, separated: Command, steps: Path, tmp_path: Path
) -> None:
    separated(steps, "--compression", "lz4")
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: code != 32008)
    with pytest.raises(RecordingError, match=r"number 32008\), .* 'igbss-stream\[compression\]'"):
        open_recording(tmp_path / "out.h5", "sources")
