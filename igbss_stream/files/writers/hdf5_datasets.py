"""Create HDF5 files, datasets and attributes, and write rows of datasets."""

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

_CHUNK_BYTES = 1 << 20  # the default chunk cache of all HDF5 versions
_IN_MEMORY = 1 << 20  # bytes; larger buffers are on disk
_BLOCK = 1 << 16  # rows read at a time
_LZ4 = (0, 2)  # block size (0: automatic), and the code of LZ4


def create_dataset(
    group: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], compression: str
) -> Any:
    """Create a dataset for samples.

    Parameters
    ----------
    group : h5py.Group
    name : str
    shape : tuple of int
        The first axis is samples.
    dtype : dtype
    compression : {"none", "gzip", "lz4"}
        gzip uses byte shuffling and level 1; level 4 reduces the size by at most 2 % more. lz4 uses bit
        shuffling.
    """
    if compression == "none" or 0 in shape:
        # Allocate the dataset now, and do not fill it: samples overwrite it anyway.
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        return group.create_dataset(name, shape, dtype, dcpl=plist)
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


class RowWriter:
    """Writes the rows of a dataset in order.

    Parameters
    ----------
    dataset : h5py.Dataset
        Created by `create_dataset`.
    descriptor : int
        Descriptor of its file.

    Attributes
    ----------
    shape : tuple of int
        Shape of the complete dataset.
    dtype : dtype
    rows, all_rows : int
        Number of rows written, and of all rows.
    row_bytes : int
        Size of a row before compression.

    Notes
    -----
    HDF5 blocks all threads while it copies rows to a Python buffer and then to the system. Rows of a
    contiguous dataset are therefore written directly to the file.
    """

    def __init__(self, dataset: Any, descriptor: int) -> None:
        self.dataset, self._descriptor = dataset, descriptor
        self.shape: tuple[int, ...] = dataset.shape
        self.dtype: np.dtype[Any] = dataset.dtype
        self.rows, self.all_rows = 0, int(self.shape[0])
        self.row_bytes = int(math.prod(self.shape[1:]) * self.dtype.itemsize)
        self._height = None if dataset.chunks is None else int(dataset.chunks[0])
        self._offset: int | None = dataset.id.get_offset()
        self._pending: list[NDArray[Any]] = []  # of an incomplete chunk
        self._n_pending = 0

    def append(self, block: NDArray[Any]) -> None:
        """Write the next rows; compressed rows are written when their chunk is complete.

        A chunk that is written in parts would be compressed several times and moved in the file, so the
        bytes of the file would depend on the blocks.
        """
        if self._height is None:
            self._write_directly(block)
            self.rows += len(block)
            return
        while len(block):
            part = block[: self._height - self._n_pending]
            self._pending.append(np.array(part))  # the caller may reuse the block
            self._n_pending, self.rows = self._n_pending + len(part), self.rows + len(part)
            if self._n_pending == self._height or self.rows == self.all_rows:
                self.dataset[self.rows - self._n_pending : self.rows] = np.concatenate(self._pending)
                self._pending, self._n_pending = [], 0
            block = block[len(part) :]

    def _write_directly(self, block: NDArray[Any]) -> None:
        """Write rows to the file without HDF5."""
        if self._offset is None:  # an empty dataset has no offset
            return
        left = np.ascontiguousarray(block, self.dtype).reshape(-1).view(np.uint8).data
        at = self._offset + self.rows * self.row_bytes
        while left:
            written = os.pwrite(self._descriptor, left, at)
            left, at = left[written:], at + written


class SpooledRows:
    """Buffers numbers until the length of their dataset is known, in memory or a temporary file.

    The temporary file has no name, so a killed process leaves nothing. The dataset is then contiguous like
    others; a dataset that grows would need chunks.

    Parameters
    ----------
    folder : Path
        Folder of the temporary file: that of the output, whose disk has room.
    dtype : dtype

    Attributes
    ----------
    rows : int
        Number of rows in the buffer.
    """

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self.dtype, self.rows = dtype, 0
        self._file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY, dir=str(folder))

    def append(self, block: NDArray[Any]) -> None:
        """Append the next rows, of shape (rows,)."""
        self._file.write(np.ascontiguousarray(block, self.dtype).view(np.uint8).data)
        self.rows += len(block)

    def read_blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows in blocks."""
        self._file.seek(0, os.SEEK_SET)
        while data := self._file.read(_BLOCK * self.dtype.itemsize):
            yield np.frombuffer(data, self.dtype)

    def close(self) -> None:
        """Release the buffer."""
        self._file.close()


def create_virtual(
    group: Any, name: str, shape: tuple[int, int], dtype: npt.DTypeLike, pieces: Sequence[tuple[str, int]]
) -> Any:
    """Create a virtual dataset that concatenates the rows of datasets in other files.

    Parameters
    ----------
    group : h5py.Group
    name : str
        Name of the dataset, here and in the other files.
    shape : (int, int)
    dtype : dtype
        A dtype of real numbers. Rows of a missing file are read as NaN.
    pieces : sequence of (str, int)
        Path of each file relative to the folder of this one, and its number of rows.

    Returns
    -------
    h5py.Dataset
    """
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_obj_track_times(False)
    plist.set_fill_value(np.full(1, np.nan, dtype))
    space, row = h5py.h5s.create_simple(shape), 0
    for file, n_rows in pieces:
        space.select_hyperslab((row, 0), (n_rows, shape[1]))
        source = h5py.h5s.create_simple((n_rows, shape[1]))
        plist.set_virtual(space, file.encode("utf-8", "surrogateescape"), name.encode(), source)
        row += n_rows
    kind = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    space.select_all()
    return h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, plist))


def create_file(
    stream: Any,
    oldest: int = h5py.h5f.LIBVER_V18,
    newest: int = h5py.h5f.LIBVER_V18,
    *,
    user_block: int = 0,
) -> Any:
    """Create an HDF5 file without timestamps, so that equal contents give equal bytes.

    Parameters
    ----------
    stream : file object
        File object through which HDF5 writes.
    oldest, newest : int
        Bounds of the format version, ``h5py.h5f.LIBVER_*``.
    user_block : int, default=0
        Bytes at the start of the file that HDF5 skips.
    """
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, stream)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    # All readers support the format of HDF5 1.8. Unlike older ones, it has no limit of 64 KiB on an
    # attribute, which the names of 4096 channels exceed. The default depends on the version of HDF5.
    access.set_libver_bounds(oldest, newest)
    untimed = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    untimed.set_obj_track_times(False)
    untimed.set_userblock(user_block)
    return h5py.File(h5py.h5f.create(b"stream", h5py.h5f.ACC_TRUNC, untimed, access))


def get_group(file: Any, name: str) -> Any:
    """Return the group of a dataset; create it without timestamps if it is missing."""
    untimed = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
    untimed.set_obj_track_times(False)
    group = file
    for part in name.strip("/").split("/")[:-1]:
        if part not in group:
            h5py.h5g.create(group.id, part.encode(), gcpl=untimed)
        group = group[part]
    return group


def get_base_name(name: str) -> str:
    """Return the last part of the name of a dataset."""
    return name.rsplit("/", 1)[-1]


def set_attributes(target: Any, attrs: dict[str, Any]) -> None:
    """Set attributes; skip those that are None."""
    for name, value in attrs.items():
        if value is not None:
            target.attrs[name] = as_storable(value)


def as_storable(value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert a value to an array that h5py can store; text becomes UTF-8 of variable length."""
    array = np.asarray(value)
    return array.astype(h5py.string_dtype()) if array.dtype.kind in "UO" else array
