"""How samples are stored in HDF5: in one piece, or in compressed chunks that are written whole."""

import math
import os
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.compression import BITSHUFFLE, check_compression

_CHUNK_BYTES = 1 << 20  # what HDF5 of any version keeps of a dataset in memory
_LZ4 = (0, 2)  # block size: the filter's own choice; and which compressor follows the shuffling


def stored(group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], compression: str) -> Any:
    """Create a dataset.

    Parameters
    ----------
    group : h5py.Group
    name : str
    shape : tuple of int
        The first axis runs over samples.
    dtype : dtype
    compression : {"none", "gzip", "lz4"}
        gzip shuffles bytes first, and is quick rather than thorough: level 4 makes samples at most a
        fiftieth smaller. lz4 shuffles bits first.
    """
    if compression == "none" or 0 in shape:
        # Its place in the file is fixed now, and nothing is put there that samples replace anyway.
        at_once = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        at_once.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        at_once.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        return group.create_dataset(name, shape, dtype, dcpl=at_once)
    check_compression(compression)
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    chunks = (min(shape[0], max(1, _CHUNK_BYTES // row_bytes)), *shape[1:])
    if compression == "gzip":
        return group.create_dataset(
            name, shape, dtype, chunks=chunks, compression="gzip", compression_opts=1, shuffle=True
        )
    return group.create_dataset(
        name, shape, dtype, chunks=chunks, compression=BITSHUFFLE, compression_opts=_LZ4
    )


class Rows:
    """A dataset that waits for its rows.

    Parameters
    ----------
    dataset : h5py.Dataset
        Made by `stored`.
    descriptor : int
        Of the file that it lies in.

    Attributes
    ----------
    shape : tuple of int
        Of the dataset when all rows are there.
    dtype : dtype
    rows, all_rows : int
        Rows that came, and that will be there.
    row_bytes : int
        Bytes of a row before compression.

    Notes
    -----
    HDF5 would hold all threads up while it copies rows, first into a buffer of Python's and then to the
    system. Those of a dataset in one piece are written to their place in the file, past it.
    """

    def __init__(self, dataset: Any, descriptor: int) -> None:
        self.dataset, self._descriptor = dataset, descriptor
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype
        self.rows, self.all_rows = 0, int(self.shape[0])
        self.row_bytes = int(math.prod(self.shape[1:]) * self.dtype.itemsize)
        self._height = None if dataset.chunks is None else int(dataset.chunks[0])
        self._offset: int | None = dataset.id.get_offset()
        self._begun: list[NDArray[Any]] = []  # of a chunk that is not whole yet
        self._n_begun = 0

    def append(self, block: NDArray[Any]) -> None:
        """Write the next rows; of compressed ones, when the chunk they lie in is whole.

        One that is written in pieces would be compressed as often, and lie in the file wherever the last
        of them found room: the bytes would depend on the blocks.
        """
        if self._height is None:
            self._write_past(block)
            self.rows += len(block)
            return
        while len(block):
            part = block[: self._height - self._n_begun]
            self._begun.append(np.array(part))  # the block is not ours
            self._n_begun, self.rows = self._n_begun + len(part), self.rows + len(part)
            if self._n_begun == self._height or self.rows == self.all_rows:
                self.dataset[self.rows - self._n_begun : self.rows] = np.concatenate(self._begun)
                self._begun, self._n_begun = [], 0
            block = block[len(part) :]

    def _write_past(self, block: NDArray[Any]) -> None:
        """Write rows to their place in the file."""
        if self._offset is None:  # a dataset without rows, or without columns, has none
            return
        left = np.ascontiguousarray(block, self.dtype).reshape(-1).view(np.uint8).data
        at = self._offset + self.rows * self.row_bytes
        while left:
            written = os.pwrite(self._descriptor, left, at)
            left, at = left[written:], at + written
