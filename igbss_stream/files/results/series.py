"""Read samples from our own files in blocks."""

from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.files.gaps import count_missing
from igbss_stream.files.messages import as_one_line, complete_names
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    get_block_dtype,
    name_dataset,
    read_channel_names,
    read_rate,
    read_unit,
)
from igbss_stream.files.readers.hdf5.layouts.plain import (
    read_events,
    read_gaps,
    read_positions,
    read_start_of_rows,
)
from igbss_stream.positions import Positions

_ALL = slice(None)


class Series:
    """Samples in an output or in a recording of a stream, with what its file states of them.

    Parameters
    ----------
    path : Path
    name : str
        Of the dataset.
    file : h5py.File
    handle : h5py.Dataset
        Of shape (samples, channels).

    Attributes
    ----------
    name : str
    n_samples, n_channels : int
    dtype : dtype
        Dtype of the blocks, float32 or float64.
    rate : float or None
        In Hz.
    unit : str or None
    channels : tuple of str
    gaps : tuple of Gap
        Missing samples, in order; indices count from the first row.
    events : Events
        Those of the rows, and of the gaps between them.
    t0 : float or None
        Unix time of the first row, in seconds, if known.
    positions : Positions or None
        Of the channels.
    """

    def __init__(self, path: Path, name: str, file: Any, handle: Any) -> None:
        self.name = name.strip("/")
        what = name_dataset(f"/{self.name}", path)
        self.what = what
        self._handle = handle
        self.n_samples, self.n_channels = handle.shape
        self.dtype = get_block_dtype(handle, what)
        self.rate, self.unit = read_rate(handle, what), read_unit(handle)
        self.channels = complete_names(read_channel_names(handle), self.n_channels)
        self.gaps: tuple[Gap, ...] = read_gaps(file, self.n_samples)
        n_indices = self.n_samples + count_missing(self.gaps)
        self.events: Events = read_events(file).select_samples(n_indices)
        self.positions: Positions | None = read_positions(file, handle)
        self.t0 = read_start_of_rows(file, handle, self.rate)
        self._columns: NDArray[np.intp] | None = None

    @property
    def has_sources(self) -> bool:
        """Whether the channels are sources, by the name of the dataset, or theirs in a recorded stream."""
        named = tuple(f"source-{n}" for n in range(self.n_channels))
        return self.name == "sources" or (self.name == "data" and self.channels == named)

    def pick(self, names: Sequence[str]) -> "Series":
        """Return the same samples of some channels only.

        Parameters
        ----------
        names : sequence of str
            Those that do not exist are left out.
        """
        columns = [self.channels.index(name) for name in names if name in self.channels]
        picked = copy(self)
        picked._columns = np.array(columns, np.intp)
        picked.channels, picked.n_channels = tuple(self.channels[i] for i in columns), len(columns)
        return picked

    def read_blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples) in blocks of at most `n` samples, of shape (samples, channels).

        Raises
        ------
        RecordingError
            If they cannot be read.
        """
        for start in range(0, self.n_samples, n):
            yield start, self.read(start, start + n)

    def read(self, start: int, stop: int, channel: slice | int = _ALL) -> NDArray[Any]:
        """Read rows `start` to `stop`, of all channels or of one.

        Raises
        ------
        RecordingError
            If they cannot be read.
        """
        try:
            if self._columns is None:
                return np.asarray(self._handle[start:stop, channel], self.dtype)
            return np.asarray(self._handle[start:stop], self.dtype)[:, self._columns[channel]]
        except LIBRARY_ERRORS as error:
            raise RecordingError(
                f"samples {start} to {stop} of {self.what} cannot be read: {as_one_line(error)}; copy the "
                "file again"
            ) from error
