"""How samples are stored in HDF5: in one piece, or in compressed chunks that are written whole."""

import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from igbss_stream._util.compression import BITSHUFFLE, check_compression

_CHUNK_BYTES = 1 << 20  # what HDF5 of any version keeps of a dataset in memory
_IN_MEMORY = 1 << 20  # bytes; what is more goes to the disk
_BLOCK = 1 << 16  # rows that are given back at a time
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


class Gathered:
    """Numbers that wait for their dataset, in memory and then in a file without a name: no kill leaves it.

    In the file they lie in one piece then, as other datasets do; one that grew would lie in chunks.

    Parameters
    ----------
    folder : Path
        Of the output: the disk that has room for it.
    dtype : dtype

    Attributes
    ----------
    rows : int
        That have come.
    """

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self.dtype, self.rows = dtype, 0
        self._file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY, dir=str(folder))

    def append(self, block: NDArray[Any]) -> None:
        """Take the next rows, (rows,)."""
        self._file.write(np.ascontiguousarray(block, self.dtype).view(np.uint8).data)
        self.rows += len(block)

    def read_blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows, some at a time."""
        self._file.seek(0, os.SEEK_SET)
        while data := self._file.read(_BLOCK * self.dtype.itemsize):
            yield np.frombuffer(data, self.dtype)

    def close(self) -> None:
        """Forget them."""
        self._file.close()


def create_virtual(
    group: Any, name: str, shape: tuple[int, int], dtype: npt.DTypeLike, pieces: Sequence[tuple[str, int]]
) -> Any:
    """Create a dataset whose rows are those of others, one after the other.

    Parameters
    ----------
    group : h5py.Group
    name : str
        Of the dataset here and in the other files.
    shape : (int, int)
    dtype : dtype
        Of real numbers. Rows whose file is not there are read as NaN.
    pieces : sequence of (str, int)
        The other files, relative to the folder of this one, and how many rows each has.

    Returns
    -------
    h5py.Dataset
    """
    there = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    there.set_obj_track_times(False)
    there.set_fill_value(np.full(1, np.nan, dtype))
    space, row = h5py.h5s.create_simple(shape), 0
    for file, n_rows in pieces:
        space.select_hyperslab((row, 0), (n_rows, shape[1]))
        whole = h5py.h5s.create_simple((n_rows, shape[1]))
        there.set_virtual(space, file.encode("utf-8", "surrogateescape"), name.encode(), whole)
        row += n_rows
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    space.select_all()
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, there))


def create_file(stream: Any, oldest: int = h5py.h5f.LIBVER_V18, newest: int = h5py.h5f.LIBVER_V18) -> Any:
    """Create an HDF5 file without times in it, which most versions of h5py would store.

    Parameters
    ----------
    stream : file object
        What HDF5 writes through.
    oldest, newest : int
        Versions of the format to use, of ``h5py.h5f.LIBVER_*``.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, stream)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    # The format of HDF5 1.8: every reader in use knows it, and it has no limit of 64 KiB on an
    # attribute, which the names of 4096 channels exceed. The default depends on the version of HDF5.
    access.set_libver_bounds(oldest, newest)
    untimed = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    untimed.set_obj_track_times(False)
    return h5py.File(h5py.h5f.create(b"stream", h5py.h5f.ACC_TRUNC, untimed, access))


def _group(file: Any, name: str) -> Any:
    """Return the group that a dataset belongs in, created without times where it is missing."""
    untimed = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    untimed.set_obj_track_times(False)
    group = file
    for part in name.strip("/").split("/")[:-1]:
        if part not in group:
            h5py.h5g.create(group.id, part.encode(), gcpl=untimed)
        group = group[part]
    return group


def _last(name: str) -> str:
    """Return the last part of a name."""
    return name.rsplit("/", 1)[-1]


def set_attributes(target: Any, attrs: dict[str, Any]) -> None:
    """Set the attributes that are not None."""
    for name, value in attrs.items():
        if value is not None:
            target.attrs[name] = _storable(value)


def _storable(value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Turn a value into an array that h5py stores; text becomes UTF-8 of variable length."""
    array = np.asarray(value)
    return array.astype(h5py.string_dtype()) if array.dtype.kind in "UO" else array
