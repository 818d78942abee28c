"""Samples that are mapped from a file, interleaved or in blocks in which one channel follows the other."""

import mmap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class MappedFile:
    """A file that is mapped to memory.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def get_array(
        self, dtype: DTypeLike, offset: int, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
    ) -> NDArray[Any]:
        """Return an array in the file, which may be interleaved with other numbers.

        Parameters
        ----------
        dtype : dtype
        offset : int
            Position of the first number, in bytes.
        shape : tuple of int
        strides : tuple of int, optional
            In bytes. Default: the numbers follow each other.

        Raises
        ------
        TypeError, ValueError
            If the file ends before the last number, or the first one is before its beginning.
        """
        if 0 in shape:
            return np.empty(shape, dtype)
        if offset < 0:  # NumPy checks the end alone
            raise ValueError(f"samples that begin at byte {offset}")
        return np.ndarray(shape, dtype, self._map, offset, strides)

    def release(self) -> None:
        """Release the memory of what has been read; it is read again when it is needed."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class MappedSamples:
    """Samples of channels in a file, indexed like an array of shape (samples, channels).

    Parameters
    ----------
    file : MappedFile
    channels : sequence of ndarray of shape (blocks, samples per block)
        The samples of each channel; blocks of one sample are interleaved.

    Attributes
    ----------
    shape : (int, int)
    dtype : dtype
        That of the rows that are returned.
    """

    def __init__(self, file: MappedFile, channels: Sequence[NDArray[Any]]) -> None:
        self._file, self._channels = file, tuple(channels)
        n_blocks, self._length = self._channels[0].shape
        self.shape = n_blocks * self._length, len(self._channels)
        self.dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        """Return a range of samples."""
        start, stop, _ = rows.indices(len(self))
        first, last = start // self._length, -(-stop // self._length)
        start, stop = start - first * self._length, stop - first * self._length
        out = np.empty((max(0, stop - start), self.shape[1]))
        for i, channel in enumerate(self._channels):
            with np.errstate(invalid="ignore"):  # of signalling NaN in damaged files
                out[:, i] = channel[first:last].reshape(-1)[start:stop]
        self._file.release()
        return out
