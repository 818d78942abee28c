"""Read a recording from HDF5.

A layout (`layouts`) states where in the file the samples are and what they mean; options of the caller
override it. Which axis runs over samples is never guessed: the layout knows it, the caller
says it, or it is the first one.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
import numpy.typing as npt

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.files.channel_selection import picked
from igbss_stream.files.messages import check_counts, numbered, one_line
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.readers.hdf5.fast_read import inflating, straight
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    check_filters,
    checked,
    checked_type,
    damage_reported,
    naming,
    open_file,
)
from igbss_stream.files.readers.hdf5.layouts import contents
from igbss_stream.files.readers.hdf5.selection import chosen
from igbss_stream.files.readers.hdf5.signal import Contents, Signal
from igbss_stream.files.recording import Facts, Fill, Recording

_DEFAULT_CACHE = 2**20  # bytes of chunks that every version of HDF5 keeps unasked
_LARGEST_CACHE = 2**26


class Hdf5Recording(Recording):
    """A recording in an open HDF5 file; `open_recording` makes it.

    Parameters
    ----------
    path : Path
    signal : Signal
        Where the samples are.
    axis : int
        Axis of the dataset that runs over samples.
    handle : h5py.Dataset
    raw : file or None
        The open file beside it that holds the samples instead.
    **facts
        What `Recording` takes.

    Attributes
    ----------
    axis : int
        Axis of the dataset that runs over samples.
    """

    def __init__(
        self, path: Path, signal: Signal, axis: int, handle: Any, raw: BinaryIO | None, **facts: Any
    ) -> None:
        super().__init__(path, **facts)
        self.axis = axis
        self._signal, self._handle, self._file, self._raw = signal, handle, handle.file, raw

    def close(self) -> None:
        """Close the file. Closing it twice is allowed."""
        self._file.close()
        if self._raw is not None:
            self._raw.close()

    def _make_filler(self, n: int) -> Fill:
        if self._raw is not None:
            return self._guarded(self._fill_from_raw)
        if self._signal.fields:
            return self._guarded(self._fill_from_fields)
        if self.axis == 0:
            direct = straight(self._handle) or inflating(self._handle)
            return self._guarded(direct or self._fill_as_stored)
        turned = np.empty((self._n_stored, n), self.dtype)

        def fill_turned(start: int, out: npt.NDArray[Any]) -> None:
            rows = len(out)
            everything = slice(None)
            self._handle.read_direct(
                turned, (everything, slice(start, start + rows)), (everything, slice(0, rows))
            )
            out[:] = turned[:, :rows].T

        return self._guarded(fill_turned)

    def _guarded(self, fill: Fill) -> Fill:
        """Return the same, with the errors of the library in the user's words."""

        def guarded(start: int, out: npt.NDArray[Any]) -> None:
            if not self._file:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            try:
                fill(start, out)
            except LIBRARY_ERRORS as error:
                raise RecordingError(
                    f"samples {start} to {start + len(out)} of dataset {self.dataset!r} of "
                    f"{str(self.path)!r} cannot be read: {one_line(error)}; copy or record it again"
                ) from error

        return guarded

    def _fill_as_stored(self, start: int, out: npt.NDArray[Any]) -> None:
        self._handle.read_direct(out, slice(start, start + len(out)), slice(0, len(out)))

    def _fill_from_fields(self, start: int, out: npt.NDArray[Any]) -> None:
        column = 0
        for field in self._signal.fields:
            values = np.asarray(self._handle.fields(field)[start : start + len(out)]).reshape(len(out), -1)
            out[:, column : column + values.shape[1]] = values
            column += values.shape[1]

    def _fill_from_raw(self, start: int, out: npt.NDArray[Any]) -> None:
        raw = self._signal.raw
        if raw is None or self._raw is None:
            raise RuntimeError("there is no file beside this one")
        self._raw.seek(start * out.shape[1] * raw.dtype.itemsize)
        content = self._raw.read(out.size * raw.dtype.itemsize)
        if len(content) < out.size * raw.dtype.itemsize:
            raise OSError(f"{str(raw.path)!r} has become shorter")
        out[:] = np.frombuffer(content, raw.dtype).reshape(out.shape)


def open_wanted(path: Path, wanted: Wanted) -> Hdf5Recording:
    """Open what is wanted of an HDF5 file.

    The layout of the file is found by its marks (see docs/reading.md), and says where the samples are,
    their rate, scale, unit and the names of the channels. In a plain file that is ``/data``, or the one
    dataset of two axes, with attributes ``rate`` (Hz), ``unit`` and ``channels`` (one name each); the
    unit is dropped if ``conversion`` or ``offset`` say that the stored numbers are not in it yet.

    Parameters
    ----------
    path : Path
    wanted : Wanted

    Returns
    -------
    Hdf5Recording
        To be used in a ``with`` statement, or closed.

    Raises
    ------
    ParameterError
        If an option has an impossible value.
    RecordingError
        If the file cannot be opened, does not tell which samples are meant, has no such dataset, needs a
        filter that is not installed, or states an impossible rate.
    InputError
        If the samples cannot be separated: not numbers, not two-dimensional, fewer than two channels
        or samples, more channels than samples.

    Notes
    -----
    For a compressed dataset up to 64 MiB of decompressed chunks are kept in memory, as many as blocks
    in sequence need; otherwise every block would decompress large chunks anew.
    """
    file = open_file(path)
    try:
        with damage_reported(path):
            found = contents(file, path)
            layout, signal = chosen(file, found, path, wanted)
            return _recording(file, layout, _corrected(signal, wanted, path), path, wanted)
    except BaseException:
        file.close()
        raise


def _corrected(signal: Signal, wanted: Wanted, path: Path) -> Signal:
    """Put what the caller says in the place of what the file says."""
    what = naming(signal.dataset, path)
    if wanted.rate is not None:
        # Times that could not be told a rate from cannot tell gaps either.
        signal = replace(signal, rate=wanted.rate, gaps=() if signal.untimed else signal.gaps)
    if wanted.axis is not None and wanted.axis != signal.axis and signal.axis is not None:
        if signal.fields or signal.raw:
            raise ParameterError(f"{what} has one axis that can run over samples; leave --axis out")
        if signal.gain is not None and wanted.factor is None:
            raise ParameterError(
                f"{what} has a scale for each channel along the other axis; pass --factor with --axis"
            )
        signal = replace(signal, channels=(), types=(), bad=(), gaps=())
    if wanted.factor is not None:
        signal = replace(signal, gain=None, offset=None, unit=None)
    return replace(signal, unit=wanted.unit or signal.unit)


def _recording(file: Any, layout: Contents, signal: Signal, path: Path, wanted: Wanted) -> Hdf5Recording:
    """Check a signal and wrap it."""
    what = naming(signal.dataset, path)
    handle = file[signal.dataset]
    axis = next(a for a in (wanted.axis, signal.axis, 0) if a is not None)
    n_samples, n_channels, dtype = _size(handle, signal, axis, what)
    names = numbered(signal.channels, n_channels)
    picks = None if wanted.channels is None else picked(wanted.channels, names, what)
    _check_size(n_samples, n_channels if picks is None else len(picks), what, signal.advice)
    gain = signal.gain if wanted.factor is None else np.full(n_channels, float(wanted.factor))
    cache = 0 if signal.raw else _cache_bytes(handle, axis)
    if cache > _DEFAULT_CACHE:
        # A dataset takes a new cache only when it is opened, so it must be closed before.
        del handle
        handle = _open_with_cache(file, signal.dataset, cache)
    raw = _opened(signal.raw.path) if signal.raw else None
    return Hdf5Recording(
        path,
        signal,
        axis,
        handle,
        raw,
        facts=_facts(layout, signal, names),
        n_samples=n_samples,
        dtype=dtype,
        picks=picks,
        gain=gain,
        offset=signal.offset,
    )


def _facts(layout: Contents, signal: Signal, names: tuple[str, ...]) -> Facts:
    return Facts(
        layout.layout,
        layout.why,
        signal.dataset,
        signal.rate,
        signal.unit,
        names,
        signal.types if len(signal.types) == len(names) else (),
        signal.bad,
        signal.gaps,
        signal.notes,
    )


def _size(handle: Any, signal: Signal, axis: int, what: str) -> tuple[int, int, np.dtype[Any]]:
    """Return samples, channels and the type of the blocks."""
    if signal.raw:
        return *signal.raw.shape, get_working_dtype(signal.raw.dtype, what)
    if signal.fields:
        check_filters(handle, what)
        kinds = [get_working_dtype(handle.dtype[field].base, what) for field in signal.fields]
        return signal.shape[0], signal.shape[1], np.result_type(*kinds)
    if signal.axis is None or len(handle.shape) > 2:
        shape, dtype = checked(handle, axis, what)
        return *shape, dtype
    check_filters(handle, what)
    n_channels = handle.shape[1 - axis] if len(handle.shape) == 2 else 1
    return handle.shape[axis], n_channels, checked_type(handle, what)


def _check_size(n_samples: int, n_channels: int, what: str, advice: str) -> None:
    """Refuse what cannot be separated, where the axes are known."""
    check_counts(n_samples, n_channels, what, advice)
    if n_channels > n_samples:
        raise InputError(
            f"{what} has {n_channels} channels and {n_samples} samples, fewer than channels; pass "
            f"--channels with at most {n_samples} of them, or give a longer recording"
        )


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _cache_bytes(handle: Any, axis: int) -> int:
    """Return the memory in bytes for the chunks that two neighbouring blocks can share."""
    chunks: tuple[int, ...] | None = handle.chunks
    if chunks is None:
        return 0
    across = math.ceil(int(handle.shape[1 - axis]) / chunks[1 - axis]) if len(chunks) == 2 else 1
    return min(2 * across * math.prod(chunks) * int(handle.dtype.itemsize), _LARGEST_CACHE)


def _open_with_cache(file: Any, name: str, n_bytes: int) -> Any:
    """Open a dataset with room for `n_bytes` bytes of chunks."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    # A prime number of slots, far more than there are chunks in the cache, keeps them apart.
    plist.set_chunk_cache(100_003, n_bytes, 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode("utf-8", "surrogateescape"), plist))
