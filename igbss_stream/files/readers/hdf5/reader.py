"""Read a recording from HDF5.

A layout (`layouts`) states where in the file the samples are and what they mean; `ReadOptions` override it.
The axis of the samples is never guessed: the layout or an option defines it, or it is the first axis.
"""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
import numpy.typing as npt

from igbss_stream._util.dtypes import get_working_dtype
from igbss_stream.errors import InputError, ParameterError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.gaps import get_gap_rows
from igbss_stream.files.messages import as_one_line, check_counts, complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.hdf5.chunked_read import make_chunked_fill
from igbss_stream.files.readers.hdf5.columns import fill_from_columns
from igbss_stream.files.readers.hdf5.fast_read import make_contiguous_fill
from igbss_stream.files.readers.hdf5.file import (
    LIBRARY_ERRORS,
    check_dataset,
    check_filters,
    get_block_dtype,
    list_filters,
    name_dataset,
    open_file,
    report_damage,
)
from igbss_stream.files.readers.hdf5.layouts import match_layout
from igbss_stream.files.readers.hdf5.links import check_parts
from igbss_stream.files.readers.hdf5.selection import choose_signal
from igbss_stream.files.readers.hdf5.signal import LayoutMatch, Signal
from igbss_stream.files.readers.hdf5.written_rows import find_written_rows
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.positions import Positions

_DEFAULT_CACHE = 2**20  # bytes of chunks that every version of HDF5 caches by default
_LARGEST_CACHE = 2**26


class Hdf5Recording(Recording):
    """A recording in an open HDF5 file; created by `open_recording`.

    Parameters
    ----------
    path : Path
    signal : Signal
        Location of the samples.
    axis : int
        Axis of the samples in the dataset.
    handle : h5py.Dataset
    raw : file or None
        Open file that contains the samples instead of the dataset.
    **facts
        Parameters of `Recording`.

    Attributes
    ----------
    axis : int
        Axis of the samples in the dataset.
    """

    def __init__(
        self, path: Path, signal: Signal, axis: int, handle: Any, raw: BinaryIO | None, **facts: Any
    ) -> None:
        super().__init__(path, **facts)
        self.axis = axis
        self._signal, self._handle, self._file, self._raw = signal, handle, handle.file, raw

    @property
    def is_costly_to_read(self) -> bool:
        """Whether samples are compressed, or not stored row by row."""
        if self._raw is not None:
            return False
        is_by_row = self.axis == 0 and not self._signal.fields and not self._signal.columns
        return not is_by_row or bool(list_filters(self._handle))

    def close(self) -> None:
        """Close the file. Closing it twice is allowed."""
        self._file.close()
        if self._raw is not None:
            self._raw.close()

    def _make_filler(self, n: int) -> Fill:
        if self._raw is not None:
            return self._guard(self._fill_from_raw)
        if self._signal.fields:
            return self._guard(self._fill_from_fields)
        if self._signal.columns:
            return self._guard(partial(fill_from_columns, self._file, self._signal.columns))
        if self.axis == 0:
            direct = make_contiguous_fill(self._handle) or make_chunked_fill(self._handle)
            return self._guard(direct or self._fill_as_stored)
        transposed = np.empty((self._n_stored, n), self.dtype)

        def fill_transposed(start: int, out: npt.NDArray[Any]) -> None:
            rows = len(out)
            everything = slice(None)
            self._handle.read_direct(
                transposed, (everything, slice(start, start + rows)), (everything, slice(0, rows))
            )
            out[:] = transposed[:, :rows].T

        return self._guard(fill_transposed)

    def _guard(self, fill: Fill) -> Fill:
        """Wrap a function so that errors of h5py become a `RecordingError`."""

        def fill_guarded(start: int, out: npt.NDArray[Any]) -> None:
            if not self._file:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            try:
                fill(start, out)
            except LIBRARY_ERRORS as error:
                raise RecordingError(
                    f"samples {start} to {start + len(out)} of dataset {self.dataset!r} of "
                    f"{str(self.path)!r} cannot be read: {as_one_line(error)}; copy or record it again"
                ) from error

        return fill_guarded

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
            raise RuntimeError("the signal has no raw file")
        self._raw.seek(start * out.shape[1] * raw.dtype.itemsize)
        content = self._raw.read(out.size * raw.dtype.itemsize)
        if len(content) < out.size * raw.dtype.itemsize:
            raise OSError(f"{str(raw.path)!r} became shorter")
        out[:] = np.frombuffer(content, raw.dtype).reshape(out.shape)


def open_hdf5(path: Path, options: ReadOptions) -> Hdf5Recording:
    """Open a recording in an HDF5 file.

    The layout of the file is detected (see docs/reading.md). It defines where the samples are, their rate,
    scale and unit, and the names of the channels. In a plain file the samples are in ``/data``, or in the
    only two-dimensional dataset, with attributes ``rate`` (Hz), ``unit`` and ``channels`` (names). The unit
    is ignored if ``conversion`` or ``offset`` state that the stored numbers have another one.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    Hdf5Recording
        Use it in a ``with`` statement, or close it.

    Raises
    ------
    ParameterError
        If an option does not apply to the file.
    RecordingError
        If the file cannot be opened, the choice of the signal is ambiguous, the dataset does not exist, a
        filter is not installed, or the rate in the file is invalid.
    InputError
        If the samples cannot be separated: not numbers, not two-dimensional, fewer than two channels
        or samples; or if there are more channels than samples, and nothing states the axis.

    Notes
    -----
    For a compressed dataset, up to 64 MiB of decompressed chunks are cached. Otherwise each block would
    decompress large chunks again.
    """
    file = open_file(path)
    try:
        with report_damage(path):
            found = match_layout(file, path)
            layout, signal = choose_signal(file, found, path, options)
            return _make_recording(file, layout, _apply_options(signal, options, path), path, options)
    except BaseException:
        file.close()
        raise


def _apply_options(signal: Signal, options: ReadOptions, path: Path) -> Signal:
    """Override the description of a signal with the options."""
    what = name_dataset(signal.dataset, path)
    if options.rate is not None:
        # Timestamps that do not define a rate do not define gaps either.
        signal = replace(signal, rate=options.rate, gaps=() if signal.needs_rate else signal.gaps)
    if signal.axis is not None and signal.find_axis(options.axis) != signal.axis:
        if signal.fields or signal.raw or signal.columns:
            raise ParameterError(f"{what} has only one possible axis of samples; omit --axis")
        if signal.gain is not None and options.factor is None:
            raise ParameterError(
                f"{what} has a scale for each channel along the other axis; pass --factor with --axis"
            )
        signal = replace(
            signal, channels=(), types=(), bad=(), bad_rows=(), gaps=(), events=Events(), positions=None
        )
    if options.factor is not None:
        signal = replace(signal, gain=None, offset=None, unit=None)
    return replace(signal, unit=options.unit or signal.unit)


def _make_recording(
    file: Any, layout: LayoutMatch, signal: Signal, path: Path, options: ReadOptions
) -> Hdf5Recording:
    """Check a signal, and return it as a recording."""
    what = name_dataset(signal.dataset, path)
    handle = file[signal.dataset]
    stated_axis = signal.find_axis(options.axis)
    axis = stated_axis or 0
    n_samples, n_channels, dtype = _find_shape(handle, signal, stated_axis, what)
    if not (signal.raw or signal.fields or signal.columns):
        signal, n_samples = _leave_out_unwritten(handle, signal, axis, what)
    names = complete_names(signal.channels, n_channels)
    picks = None if options.channels is None else pick_channels(options.channels, names, what)
    triggers = pick_channels(options.event_names, names, what) if options.event_names else ()
    if picks is None and triggers:
        picks = tuple(i for i in range(n_channels) if i not in triggers)
    check_counts(n_samples, n_channels if picks is None else len(picks), what, signal.advice)
    gain = signal.gain if options.factor is None else np.full(n_channels, float(options.factor))
    if gain is not None and len(gain) != n_channels:
        raise ParameterError(
            f"{what} has a scale for each of {len(gain)} channels; pass --factor with --axis"
        )
    cache = 0 if signal.raw else _compute_cache_size(handle, axis)
    if cache > _DEFAULT_CACHE:
        # The cache is set when a dataset is opened, so close it first.
        del handle
        handle = _open_with_cache(file, signal.dataset, cache)
    raw = _open_raw(signal.raw.path) if signal.raw else None
    return Hdf5Recording(
        path,
        signal,
        axis,
        handle,
        raw,
        facts=_make_facts(layout, signal, names, n_samples),
        n_samples=n_samples,
        dtype=dtype,
        picks=picks,
        gain=gain,
        offset=signal.offset,
        triggers=triggers,
    )


def _leave_out_unwritten(handle: Any, signal: Signal, axis: int, what: str) -> tuple[Signal, int]:
    """Return a signal and its number of rows, without those at the end that were never written."""
    written = signal.written or find_written_rows(handle, axis)
    if not written.n_rows and handle.shape[axis]:
        raise InputError(f"{what} has no samples: {written.notes[0]}; record it again")
    rows = get_gap_rows(signal.gaps)
    gaps = tuple(gap for gap, row in zip(signal.gaps, rows, strict=True) if row < written.n_rows)
    return replace(signal, notes=signal.notes + written.notes, gaps=gaps), written.n_rows


def _make_facts(layout: LayoutMatch, signal: Signal, names: tuple[str, ...], n_samples: int) -> Facts:
    signal = signal.place_events(n_samples)
    return Facts(
        layout.layout,
        layout.why,
        signal.dataset,
        signal.rate,
        signal.unit,
        names,
        signal.types if len(signal.types) == len(names) else (),
        signal.bad,
        signal.bad_rows,
        signal.gaps,
        signal.notes,
        signal.events,
        signal.t0,
        _find_positions(signal, names),
    )


def _find_positions(signal: Signal, names: tuple[str, ...]) -> Positions | None:
    """Return the positions of a signal, under the names of its channels."""
    found = None if signal.positions is None else signal.positions()
    return None if found is None or len(found.names) != len(names) else replace(found, names=names)


def _find_shape(handle: Any, signal: Signal, axis: int | None, what: str) -> tuple[int, int, np.dtype[Any]]:
    """Return the numbers of samples and channels, and the dtype of the blocks."""
    check_parts(handle, what)
    if signal.columns:
        kinds = [get_block_dtype(handle.file[name], name) for name in signal.columns]
        return signal.shape[0], signal.shape[1], np.result_type(*kinds)
    if signal.raw:
        return *signal.raw.shape, get_working_dtype(signal.raw.dtype, what)
    if signal.fields:
        check_filters(handle, what)
        kinds = [get_working_dtype(handle.dtype[field].base, what) for field in signal.fields]
        return signal.shape[0], signal.shape[1], np.result_type(*kinds)
    if axis is None or signal.axis is None or len(handle.shape) > 2:
        shape, dtype = check_dataset(handle, axis, what)
        return *shape, dtype
    check_filters(handle, what)
    n_channels = handle.shape[1 - axis] if len(handle.shape) == 2 else 1
    return handle.shape[axis], n_channels, get_block_dtype(handle, what)


def _open_raw(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error


def _compute_cache_size(handle: Any, axis: int) -> int:
    """Return the size in bytes of the chunks that two consecutive blocks can share."""
    chunks: tuple[int, ...] | None = handle.chunks
    if chunks is None:
        return 0
    across = math.ceil(int(handle.shape[1 - axis]) / chunks[1 - axis]) if len(chunks) == 2 else 1
    return min(2 * across * math.prod(chunks) * int(handle.dtype.itemsize), _LARGEST_CACHE)


def _open_with_cache(file: Any, name: str, n_bytes: int) -> Any:
    """Open a dataset with a chunk cache of `n_bytes` bytes."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    # A prime number of slots, much larger than the number of cached chunks, avoids collisions.
    plist.set_chunk_cache(100_003, n_bytes, 1.0)
    return h5py.Dataset(h5py.h5d.open(file.id, name.encode("utf-8", "surrogateescape"), plist))
