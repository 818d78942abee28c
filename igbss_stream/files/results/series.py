"""Samples in a file of ours, read block by block."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.messages import numbered, one_line
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    checked_type,
    naming,
    stated_channels,
    stated_rate,
    stated_unit,
)

_ALL = slice(None)


class Series:
    """Samples in an output, in blocks.

    Parameters
    ----------
    path : Path
    name : str
    handle : h5py.Dataset
    gaps : tuple of Gap

    Attributes
    ----------
    n_samples, n_channels : int
    dtype : dtype
        float32 or float64, of the blocks.
    rate : float or None
        In Hz.
    unit : str or None
    channels : tuple of str
    gaps : tuple of Gap
        Where samples are missing.
    """

    def __init__(self, path: Path, name: str, handle: Any, gaps: tuple[Gap, ...]) -> None:
        what = naming(f"/{name.strip('/')}", path)
        self.what = what
        self._handle = handle
        self.n_samples, self.n_channels = handle.shape
        self.dtype = checked_type(handle, what)
        self.rate, self.unit = stated_rate(handle, what), stated_unit(handle)
        self.channels = numbered(stated_channels(handle), self.n_channels)
        self.gaps = gaps

    def read_blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples), at most `n` samples at a time, of shape (samples, channels).

        Raises
        ------
        RecordingError
            If they cannot be read.
        """
        for start in range(0, self.n_samples, n):
            yield start, self.read(start, start + n)

    def read(self, start: int, stop: int, channel: slice | int = _ALL) -> NDArray[Any]:
        """Return samples from one row to another, of all channels or of one.

        Raises
        ------
        RecordingError
            If they cannot be read.
        """
        try:
            return np.asarray(self._handle[start:stop, channel], self.dtype)
        except LIBRARY_ERRORS as error:
            raise RecordingError(
                f"samples from {start} on of {self.what} cannot be read: {one_line(error)}"
            ) from error
