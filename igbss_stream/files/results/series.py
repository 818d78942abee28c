"""Read samples from our own files in blocks."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.files.messages import as_one_line, complete_names
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    get_block_dtype,
    name_dataset,
    read_channel_names,
    read_rate,
    read_start,
    read_unit,
)
from igbss_stream.positions import Positions

_ALL = slice(None)


class Series:
    """Samples in an output, read in blocks.

    Parameters
    ----------
    path : Path
    name : str
    handle : h5py.Dataset
    gaps : tuple of Gap
    events : Events, optional
    positions : Positions, optional
        Of the channels.

    Attributes
    ----------
    n_samples, n_channels : int
    dtype : dtype
        Dtype of the blocks, float32 or float64.
    rate : float or None
        In Hz.
    unit : str or None
    channels : tuple of str
    gaps : tuple of Gap
        Missing samples, in order.
    events : Events
    t0 : float or None
        Unix time of index 0, in seconds, if known.
    positions : Positions or None
    """

    def __init__(
        self,
        path: Path,
        name: str,
        handle: Any,
        gaps: tuple[Gap, ...],
        events: Events | None = None,
        positions: Positions | None = None,
    ) -> None:
        what = name_dataset(f"/{name.strip('/')}", path)
        self.what = what
        self._handle = handle
        self.n_samples, self.n_channels = handle.shape
        self.dtype = get_block_dtype(handle, what)
        self.rate, self.unit = read_rate(handle, what), read_unit(handle)
        self.channels = complete_names(read_channel_names(handle), self.n_channels)
        self.gaps, self.events = gaps, Events() if events is None else events
        self.t0, self.positions = read_start(handle), positions

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
            return np.asarray(self._handle[start:stop, channel], self.dtype)
        except LIBRARY_ERRORS as error:
            raise RecordingError(
                f"samples {start} to {stop} of {self.what} cannot be read: {as_one_line(error)}; copy the "
                "file again"
            ) from error
