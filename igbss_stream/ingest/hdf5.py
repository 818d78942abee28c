"""Read a recording from HDF5.

Samples leave here time-major, C-ordered and in native byte order, as float32 or float64. Which axis
runs over samples is never guessed: it is the first one unless the caller says otherwise.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from igbss_stream.closing import Closing
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.ingest.hdf5_contents import DatasetDescription, descriptions
from igbss_stream.ingest.hdf5_file import (
    LIBRARY_ERRORS,
    channel_names,
    checked,
    damage_reported,
    naming,
    one_line,
    open_file,
    positive,
    stated_rate,
    stated_unit,
)

_LISTED = 8  # datasets that an error message names
_DEFAULT_CACHE = 2**20  # bytes of chunks that every version of HDF5 keeps unasked
_LARGEST_CACHE = 2**26


class Hdf5Recording(Closing):
    """A recording in an open HDF5 file; `open_recording` makes it.

    A context manager, which closes the file.

    Attributes
    ----------
    path : Path
        The file.
    dataset : str
        Full name of the dataset, e.g. ``"/data"``.
    axis : int
        Axis of the dataset that runs over samples.
    n_samples, n_channels : int
        Size of the recording.
    dtype : dtype
        Type of the blocks, native float32 or float64.
    rate : float or None
        Sampling rate in Hz, if known.
    unit : str or None
        Unit of the samples, if known.
    channels : tuple of str
        Names of the channels; ``"channel-0"`` and so on where the file has none.
    """

    def __init__(
        self,
        path: Path,
        dataset: str,
        axis: int,
        rate: float | None,
        handle: Any,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
    ) -> None:
        self.path = path
        self.dataset = dataset
        self.axis = axis
        self.n_samples, self.n_channels = shape
        self.dtype = dtype
        self.rate = rate
        self.unit = stated_unit(handle)
        self.channels = channel_names(handle, self.n_channels)
        self._handle = handle
        self._file = handle.file

    def close(self) -> None:
        """Close the file. Closing it twice is allowed."""
        self._file.close()

    def blocks(self, n: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Read the recording from start to end, `n` samples at a time.

        Parameters
        ----------
        n : int
            Number of samples in a block, at least 1; the last block may be shorter.

        Returns
        -------
        iterator of (start, block)
            Index of the first sample of the block, and the samples: an array of shape
            (at most `n`, `n_channels`), C-ordered, of type `dtype`. Every block lies in the same
            memory: it may be changed, but holds good only until the next one is asked for.

        Raises
        ------
        ParameterError
            If `n` is not a positive integer.
        RecordingError
            While reading, if the file is damaged or closed.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ParameterError(f"the block size is {n!r}; it must be an integer of at least 1")
        return self._blocks(min(int(n), self.n_samples))

    def _blocks(self, n: int) -> Iterator[tuple[int, npt.NDArray[Any]]]:
        """Yield the blocks that `blocks` promises."""
        block = np.empty((n, self.n_channels), self.dtype)
        stored = block if self.axis == 0 else np.empty((self.n_channels, n), self.dtype)
        for start in range(0, self.n_samples, n):
            rows = min(n, self.n_samples - start)
            self._read(start, rows, stored)
            if self.axis == 1:
                block[:rows] = stored[:, :rows].T
            yield start, block[:rows]

    def _read(self, start: int, rows: int, out: npt.NDArray[Any]) -> None:
        """Read `rows` samples into the front of `out`, which has the axes of the dataset."""
        before = (slice(None),) * self.axis
        source = (*before, slice(start, start + rows))
        if not self._file:
            raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
        try:
            self._handle.read_direct(out, source, (*before, slice(0, rows)))
        except LIBRARY_ERRORS as error:
            raise RecordingError(
                f"samples {start} to {start + rows} of dataset {self.dataset!r} of "
                f"{str(self.path)!r} cannot be read: {one_line(error)}; copy or record it again"
            ) from error


def open_recording(
    path: str | os.PathLike[str],
    dataset: str = "/data",
    axis: int | None = None,
    rate: float | None = None,
) -> Hdf5Recording:
    """Open a recording in an HDF5 file.

    The dataset is two-dimensional and holds integers or floats. Its attributes ``rate`` (Hz), ``unit``
    and ``channels`` (one name a channel) are used where they exist. The unit is dropped if attributes
    ``conversion`` or ``offset`` say that the stored numbers are not in it yet.

    Parameters
    ----------
    path : str or path
        The file.
    dataset : str, default="/data"
        Name of the dataset.
    axis : {0, 1}, optional
        The axis that runs over samples, by default 0.
    rate : float, optional
        Sampling rate in Hz, in place of the one in the file.

    Returns
    -------
    Hdf5Recording
        The open recording, to be used in a ``with`` statement or closed.

    Raises
    ------
    ParameterError
        If `axis` or `rate` has an impossible value.
    RecordingError
        If the file cannot be opened, has no such dataset, needs a filter that is not installed, or
        states an impossible rate.
    InputError
        If the samples cannot be separated: not numbers, not two-dimensional, fewer than two channels
        or samples, more channels than samples.

    Notes
    -----
    For a compressed dataset up to 64 MiB of decompressed chunks are kept in memory, as many as blocks
    in sequence need; otherwise every block would decompress large chunks anew.
    """
    if axis not in (None, 0, 1):
        raise ParameterError(f"axis is {axis!r}; it must be 0 or 1")
    if rate is not None:
        rate = _checked_rate(rate)
    file = open_file(Path(path))
    try:
        with damage_reported(Path(path)):
            return _recording(file, Path(path), "/" + dataset.strip("/"), axis or 0, rate)
    except BaseException:
        file.close()
        raise


def _checked_rate(rate: float) -> float:
    """Return a sampling rate that the caller gave, if it is possible."""
    value = positive(rate)
    if value is None:
        raise ParameterError(f"rate is {rate!r}; it must be a positive number of Hz")
    return value


def _recording(file: Any, path: Path, name: str, axis: int, rate: float | None) -> Hdf5Recording:
    """Check a dataset of an open file and wrap it."""
    what = naming(name, path)
    handle = _find(file, name, path)
    shape, dtype = checked(handle, axis, what)
    if rate is None:
        rate = stated_rate(handle, what)
    cache = _cache_bytes(handle, axis)
    if cache > _DEFAULT_CACHE:
        # A dataset takes a new cache only when it is opened, so it must be closed before.
        del handle
        handle = _open_with_cache(file, name, cache)
    return Hdf5Recording(path, name, axis, rate, handle, shape, dtype)


def _find(file: Any, name: str, path: Path) -> Any:
    """Return a dataset, or say which ones there are."""
    try:
        found = file[name]
    except LIBRARY_ERRORS as error:
        raise RecordingError(f"{_missing(file, name, path)}; {_choices(file, path)}") from error
    if isinstance(found, h5py.Dataset):
        return found
    if isinstance(found, h5py.Group):
        raise RecordingError(
            f"{name!r} in {str(path)!r} is a group, not a dataset; {_choices(found, path)}"
        )
    raise RecordingError(f"{name!r} in {str(path)!r} is not a dataset; {_choices(file, path)}")


def _missing(file: Any, name: str, path: Path) -> str:
    """Say that a dataset is missing, and whether its name is that of a broken link."""
    try:
        link = file.get(name, getlink=True)
    except LIBRARY_ERRORS:
        link = None
    if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
        return f"{name!r} in {str(path)!r} is a link to a dataset that is missing"
    return f"{str(path)!r} has no dataset {name!r}"


def _choices(group: Any, path: Path) -> str:
    """List the datasets of a group, the likeliest recordings first."""

    def likeliest(d: DatasetDescription) -> tuple[bool, bool, int, str]:
        return not d.usable, "--axis" not in d.note, -math.prod(d.shape or (0,)), d.name

    found = sorted(descriptions(group, path), key=likeliest)
    if not found:
        return "there are no datasets in it"
    listed = [_choice(d) for d in found[:_LISTED]]
    if len(found) > _LISTED:
        listed.append(f"and {len(found) - _LISTED} more")
    return "pass --dataset with one of: " + ", ".join(listed)


def _choice(d: DatasetDescription) -> str:
    """Name a dataset as one to choose."""
    shape = "no data" if d.shape is None else str(d.shape)
    return f"{d.name!r} {shape} {d.dtype}" + (" (with --axis 1)" if "--axis" in d.note else "")


def _cache_bytes(handle: Any, axis: int) -> int:
    """Return the memory in bytes for the chunks that two neighbouring blocks can share."""
    chunks: tuple[int, ...] | None = handle.chunks
    if chunks is None:
        return 0
    across = math.ceil(int(handle.shape[1 - axis]) / chunks[1 - axis])
    return min(2 * across * math.prod(chunks) * int(handle.dtype.itemsize), _LARGEST_CACHE)


def _open_with_cache(file: Any, name: str, n_bytes: int) -> Any:
    """Open a dataset with room for `n_bytes` bytes of chunks."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    # A prime number of slots, far more than there are chunks in the cache, keeps them apart.
    plist.set_chunk_cache(100_003, n_bytes, 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode("utf-8", "surrogateescape"), plist))
