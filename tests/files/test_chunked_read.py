"""Datasets in chunks are read without h5py: what that costs, and that it reads the same."""

import os
import struct
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.files.open import open_recording
from igbss_stream.files.readers.hdf5 import chunk_index
from igbss_stream.files.readers.hdf5.chunked_read import make_chunked_fill

SAMPLES = np.random.default_rng(0).integers(-100, 100, (50, 4)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in.h5"


def read_all(path: Path, n: int) -> NDArray[Any]:
    with open_recording(path) as recording:
        return np.concatenate([block.copy() for _, block in recording.read_blocks(n)])


class Counted:
    """A dataset that counts how often each method of its identifier is called."""

    def __init__(self, dataset: Any) -> None:
        self.dataset, self.counts = dataset, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataset, name)

    @property
    def id(self) -> Any:
        return CountedId(self.dataset.id, self.counts)


class CountedId:
    def __init__(self, identifier: Any, counts: Counter[str]) -> None:
        self._id, self._counts = identifier, counts

    def __getattr__(self, name: str) -> Any:
        self._counts[name] += 1
        return getattr(self._id, name)


@pytest.mark.parametrize("storage", [{}, {"compression": "gzip"}], ids=["plain", "gzip"])
def test_cost_of_chunks_is_linear(
    monkeypatch: pytest.MonkeyPatch, path: Path, storage: dict[str, Any]
) -> None:
    """HDF5 finds one chunk in time proportional to their number, so all are found in one pass."""
    monkeypatch.setattr("igbss_stream.files.readers.hdf5.chunked_read.get_n_threads", lambda: 2)
    samples = np.arange(12_000, dtype=np.float32).reshape(-1, 3)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=samples, chunks=(1, 3), **storage)
    reads, decoded = list[int](), list[int]()
    for name, calls in (("pread", reads), ("preadv", reads)):
        monkeypatch.setattr(os, name, _noting(getattr(os, name), calls))
    monkeypatch.setattr(zlib, "decompress", _noting(zlib.decompress, decoded))
    with h5py.File(path) as file:
        counted = Counted(file["data"])
        fill = make_chunked_fill(counted)
        assert fill is not None
        block = np.empty((100, 3), np.float32)
        for start in range(0, len(samples), 100):
            fill(start, block)
            np.testing.assert_array_equal(block, samples[start : start + 100])
    assert counted.counts["chunk_iter"] == 1
    assert not [name for name in counted.counts if "chunk_info" in name or "direct" in name]
    assert len(reads) <= 2 * 40 + 200  # blocks, and places where HDF5 stored something between chunks
    assert len(decoded) == (4000 if storage else 0)


def _noting(function: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
    def noted(*given: Any, **named: Any) -> Any:
        calls.append(1)
        return function(*given, **named)

    return noted


def test_index_of_chunks_is_bounded(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setattr(chunk_index, "_MOST_CHUNKS", 49)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=SAMPLES, chunks=(1, 4), compression="gzip").attrs["rate"] = 1.0
    with h5py.File(path) as file:
        assert make_chunked_fill(file["data"]) is None
    np.testing.assert_array_equal(read_all(path, 6), SAMPLES)


@pytest.mark.parametrize("n_rows", [2, 3, 9])
def test_chunks_of_another_length_are_damaged(
    monkeypatch: pytest.MonkeyPatch, path: Path, n_rows: int
) -> None:
    monkeypatch.setattr("igbss_stream.files.readers.hdf5.chunked_read.get_n_threads", lambda: 2)
    with h5py.File(path, "w") as file:
        data = file.create_dataset("data", data=SAMPLES, chunks=(8, 2), compression="gzip")
        data.attrs["rate"] = 1.0
        data.id.write_direct_chunk((16, 2), zlib.compress(bytes(n_rows * 8)))
    with open_recording(path) as recording:
        blocks = recording.read_blocks(8)
        for start in (0, 8):
            np.testing.assert_array_equal(next(blocks)[1], SAMPLES[start : start + 8])
        with pytest.raises(RecordingError, match=f"a chunk cannot be decompressed .it has {n_rows} rows"):
            next(blocks)


def test_plain_chunks_that_were_never_written(path: Path) -> None:
    for width in (4, 3):
        with h5py.File(path, "w") as file:
            data = file.create_dataset("data", (50, 4), "f4", chunks=(8, width), fillvalue=7)
            data[16:24] = SAMPLES[16:24]
            data[40:50] = SAMPLES[40:50]
            expected = data[:]
        for n in (5, 50):
            np.testing.assert_array_equal(read_all(path, n), expected)


def test_places_beside_the_dataset_in_a_damaged_index(path: Path) -> None:
    """HDF5 never reads the chunks that a damaged index places there."""
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=SAMPLES, chunks=(16, 4), compression="gzip").attrs["rate"] = 1.0
    content = path.read_bytes()
    at = content.index(
        struct.pack("<QQQ", 16, 0, 0), content.index(b"TREE\x01")
    )  # offset of the second chunk
    for row, column in ((1 << 20, 0), (16, 1 << 20)):
        path.write_bytes(content[:at] + struct.pack("<QQ", row, column) + content[at + 16 :])
        with h5py.File(path) as file:
            expected = file["data"][:]
        np.testing.assert_array_equal(read_all(path, 6), expected)
