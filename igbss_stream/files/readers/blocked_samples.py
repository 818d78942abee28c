"""Samples stored in blocks, in each of which one channel follows the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


class BlockedSamples:
    """Samples of channels in blocks, indexed like an array of shape (samples, channels).

    Parameters
    ----------
    channels : sequence of ndarray of shape (blocks, samples per block)
        The samples of each channel, usually mapped from a file.

    Attributes
    ----------
    shape : (int, int)
    dtype : dtype
        That of the rows that are returned.
    """

    def __init__(self, channels: Sequence[NDArray[Any]]) -> None:
        self._channels = tuple(channels)
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
        return out


def map_array(
    path: Path,
    dtype: DTypeLike,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
) -> NDArray[Any]:
    """Map an array from a file, which may be interleaved with other numbers.

    Parameters
    ----------
    path : Path
    dtype : dtype
    offset : int
        Position of the first number, in bytes.
    shape : tuple of int
    strides : tuple of int, optional
        In bytes. Default: the numbers follow each other.
    """
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, np.memmap(path, np.uint8, "r"), offset, strides)
