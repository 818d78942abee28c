"""Find out which rows of a dataset were written: HDF5 returns fill values for all others.

Recorders allocate rows in advance. The storage shows which chunks exist; within the last of them, and in
contiguous storage, only the values show it.
"""

import math
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np

from igbss_stream.files.readers.hdf5.file import LIBRARY_ERRORS
from igbss_stream.files.timing import Times

_MOST_BYTES = 1 << 26  # read at the end of a dataset
_MOST_CHUNKS = 1 << 22
_FEWEST = 16  # rows of fill values at the end that are noted


@dataclass(frozen=True)
class WrittenRows:
    """Rows of a dataset that were written.

    Parameters
    ----------
    n_rows : int
        Number of rows up to the last one that was written.
    notes : tuple of str
    """

    n_rows: int
    notes: tuple[str, ...] = ()


def find_written_rows(handle: Any, axis: int, times: Times | None = None) -> WrittenRows:
    """Return the rows of a dataset that were written.

    Parameters
    ----------
    handle : h5py.Dataset
    axis : int
        Axis of the rows.
    times : Times or None
        Timestamps of the rows. Rows of fill values whose timestamps were not written either are no samples.
    """
    n_rows = int(handle.shape[axis])
    if n_rows == 0 or handle.is_virtual:
        return WrittenRows(n_rows)
    if handle.chunks is not None:
        per_axis = zip(handle.shape, handle.chunks, strict=True)
        expected = math.prod(math.ceil(n / chunk) for n, chunk in per_axis)
        if int(handle.id.get_num_chunks()) < expected <= _MOST_CHUNKS:
            return _count_chunks(handle, axis, n_rows, expected)
    elif handle.id.get_storage_size() == 0:
        return WrittenRows(0, ("none of its rows was written",))
    untimed = 0 if times is None else _count_untimed(times, n_rows)
    n = _count_last_fill(handle, axis, n_rows, untimed) if untimed else 0
    if n:
        return WrittenRows(n_rows - n, (_describe_unwritten(n, n_rows),))
    return WrittenRows(n_rows, _note_fill(handle, axis, n_rows))


def _count_untimed(times: Times, n_rows: int) -> int:
    """Return the number of timestamps at the end that are NaN, or all equal and below the one before."""
    n = min(times.n_samples, n_rows)
    try:
        values = np.asarray(times.read(max(0, n - _MOST_BYTES // 8), n))
    except LIBRARY_ERRORS:  # whoever measures the rate gets the error
        return 0
    if len(values) < 2:
        return 0
    last = values[-1]
    written = np.flatnonzero(~np.isnan(values) if np.isnan(last) else values != last)
    if not len(written) or values[written[-1]] < last:
        return 0
    return int(len(values) - 1 - written[-1])


def _count_last_fill(handle: Any, axis: int, n_rows: int, most: int) -> int:
    """Return the number of rows at the end that have fill values alone, of as many as may have."""
    n, step = 0, _count_affordable(handle, axis)
    while n < most:
        rows = min(step, most - n)
        found = _count_fill(handle, axis, n_rows - n - rows, n_rows - n)
        n += found
        if found < rows:
            break
    return n


def _describe_unwritten(n: int, n_rows: int) -> str:
    return f"the last {n} of {n_rows} rows were never written, so they are left out"


def _count_chunks(handle: Any, axis: int, n_rows: int, expected: int) -> WrittenRows:
    """Return the rows in chunks that exist, without fill values at the end of the last one."""
    height = int(handle.chunks[axis])
    per_row = np.zeros(math.ceil(n_rows / height), np.int64)

    def count(chunk: Any) -> None:
        per_row[chunk.chunk_offset[axis] // height] += 1

    _visit_chunks(handle, count)
    there = np.flatnonzero(per_row)
    if not len(there):
        return WrittenRows(0, ("none of its rows was written",))
    stop = min(n_rows, (int(there[-1]) + 1) * height)
    first = max(int(there[-1]) * height, stop - _count_affordable(handle, axis))
    stop -= _count_fill(handle, axis, first, stop)
    notes = list[str]()
    if stop < n_rows:
        notes.append(_describe_unwritten(n_rows - stop, n_rows))
    missing = int(np.sum(per_row[: there[-1]] < expected // len(per_row))) * height
    if missing:
        notes.append(
            f"about {missing} rows before the end were not written; they are read as {_get_fill(handle):g}"
        )
    return WrittenRows(stop, tuple(notes))


def _visit_chunks(handle: Any, visit: Any) -> None:
    if hasattr(handle.id, "chunk_iter"):
        handle.id.chunk_iter(visit)
        return
    for i in range(handle.id.get_num_chunks()):
        visit(handle.id.get_chunk_info(i))


def _note_fill(handle: Any, axis: int, n_rows: int) -> tuple[str, ...]:
    """Return a note if the last rows are fill values."""
    rows = min(n_rows, _count_affordable(handle, axis))
    if rows < _FEWEST or _count_fill(handle, axis, n_rows - _FEWEST, n_rows) < _FEWEST:
        return ()
    n = _count_fill(handle, axis, n_rows - rows, n_rows)
    least = "at least " if n == rows < n_rows else ""
    return (f"the last {least}{n} rows are {_get_fill(handle):g} in all channels; maybe never written",)


def _count_affordable(handle: Any, axis: int) -> int:
    """Return the number of rows that can be read at once."""
    n_bytes = int(math.prod(handle.shape)) * int(handle.dtype.itemsize)
    per_row = n_bytes // max(1, int(handle.shape[axis]))
    return max(1, _MOST_BYTES // max(1, per_row))


def _count_fill(handle: Any, axis: int, first: int, stop: int) -> int:
    """Return the number of rows at the end of a range that have fill values alone."""
    try:
        values = handle[first:stop] if axis == 0 else handle[:, first:stop].T
    except LIBRARY_ERRORS:  # whoever reads the samples gets the error
        return 0
    fill, x = _get_fill(handle), np.asarray(values).reshape(stop - first, -1)
    written = np.flatnonzero((~np.isnan(x) if fill != fill else x != fill).any(axis=1))
    n: int = stop - first
    return n - 1 - int(written[-1]) if len(written) else n


def _get_fill(handle: Any) -> Any:
    plist = handle.id.get_create_plist()
    return handle.fillvalue if plist.fill_value_defined() != h5py.h5d.FILL_VALUE_UNDEFINED else 0
