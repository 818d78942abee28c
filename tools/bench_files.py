"""Recordings made for benchmarks, and plain copies of them with h5py: the floor of what a run can take."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.batch.channels import BLOCK_BYTES

RATE = 1000.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """Where and on what a part that takes long measures.

    Parameters
    ----------
    folder : Path
        Where it makes its files.
    megabytes : int
        Size of recordings whose speed counts.
    gigabytes : int
        Size of the one whose memory counts.
    rounds : int
    recordings : tuple of Path
        Real ones.
    """

    folder: Path
    megabytes: int
    gigabytes: int
    rounds: int
    recordings: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Stored:
    """How a recording is stored.

    Parameters
    ----------
    name : str
    n_channels : int
    dtype : str
    storage : dict
        Further arguments of h5py.
    """

    name: str
    n_channels: int
    dtype: str = "f4"
    storage: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path, n_bytes: int) -> Path:
        """Write a recording of a given size in bytes: mixed sources, quantised as by a converter."""
        rng = np.random.default_rng(0)
        n_samples = n_bytes // np.dtype(self.dtype).itemsize // self.n_channels
        mixing = rng.random((self.n_channels, self.n_channels), dtype=np.float32)
        with h5py.File(path, "w") as file:
            data = file.create_dataset("data", (n_samples, self.n_channels), self.dtype, **self.storage)
            data.attrs["rate"] = RATE
            for at in range(0, n_samples, 1 << 16):
                rows = min(1 << 16, n_samples - at)
                data[at : at + rows] = np.round(100 * _sources(rng, rows, self.n_channels) @ mixing)
        return path


def _sources(rng: np.random.Generator, n_samples: int, n_sources: int) -> NDArray[np.float32]:
    """Return sources with heavy tails, as most that are recorded have."""
    drawn = rng.standard_normal((n_samples, n_sources), dtype=np.float32)
    loud: NDArray[np.float32] = drawn * np.abs(drawn)
    return loud


def read_through(source: Path) -> None:
    """Read a dataset once, block by block, as the type that it is separated in."""
    with h5py.File(source) as file:
        data = file["data"]
        block, step = _block(data)
        for at in range(0, len(data), step):
            rows = min(step, len(data) - at)
            data.read_direct(block, np.s_[at : at + rows], np.s_[:rows])


def plain_copy(source: Path, target: Path) -> None:
    """Read a dataset block by block, and write as many numbers in one piece, to the disk."""
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        data = old["data"]
        block, step = _block(data)
        copy = new.create_dataset("data", data.shape, block.dtype)
        for at in range(0, len(data), step):
            rows = min(step, len(data) - at)
            data.read_direct(block, np.s_[at : at + rows], np.s_[:rows])
            copy[at : at + rows] = block[:rows]
    with open(target, "rb") as written:
        os.fsync(written.fileno())


def _block(data: Any) -> tuple[NDArray[Any], int]:
    """Return memory for a block of the size that `batch` takes, and its rows."""
    dtype = get_working_dtype(data.dtype, "the samples")
    step = max(1, BLOCK_BYTES // (data.shape[1] * dtype.itemsize))
    return np.empty((step, data.shape[1]), dtype), step
