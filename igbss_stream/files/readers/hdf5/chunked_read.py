"""Read HDF5 datasets in chunks faster than h5py, with the same result.

Chunks that are not compressed are read directly from the file into the block, and other threads run
meanwhile. gzip chunks are decompressed in several threads, one block ahead; h5py uses one.
"""

import itertools
import math
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.compute_pool import get_n_threads
from igbss_stream.files.readers.hdf5.chunk_index import ChunkIndex, find_chunks
from igbss_stream.files.readers.hdf5.fast_read import is_plain, read_fully
from igbss_stream.files.recording import Fill

_LARGEST_BAND = 1 << 25  # bytes of the chunks that contain one sample
_TASK_BYTES = 1 << 18  # bytes that a thread decompresses at once, at least: a task costs 50 microseconds
_Chunk = NDArray[np.void] | OSError
"""The rows of a chunk, or why it cannot be decompressed: an error only if it is needed."""
_GZIP_FILTERS = ((h5py.h5z.FILTER_DEFLATE,), (h5py.h5z.FILTER_SHUFFLE, h5py.h5z.FILTER_DEFLATE))


def make_chunked_fill(handle: Any) -> Fill | None:
    """Return a function that reads rows of a dataset in chunks; None for datasets that h5py must read.

    Parameters
    ----------
    handle : h5py.Dataset
        Of shape (samples, channels).
    """
    if handle.chunks is None or not is_plain(handle):
        return None
    plist = handle.id.get_create_plist()
    codes = tuple(plist.get_filter(i)[0] for i in range(plist.get_nfilters()))
    if codes and not (codes in _GZIP_FILTERS and get_n_threads() > 1 and _is_narrow(handle)):
        return None
    index = find_chunks(handle)
    if index is None:
        return None
    return _GzipChunks(handle, codes, index).fill if codes else _PlainChunks(handle, index).fill


def _is_narrow(handle: Any) -> bool:
    across = math.ceil(handle.shape[1] / handle.chunks[1])
    return bool(across * math.prod(handle.chunks) * handle.dtype.itemsize <= _LARGEST_BAND)


class _PlainChunks:
    """Reads chunks that are not compressed, directly into blocks of whole rows."""

    def __init__(self, handle: Any, index: ChunkIndex) -> None:
        self._index, self._fill_value = index, handle.fillvalue
        self._shape, self._chunk, self._dtype = handle.shape, handle.chunks, handle.dtype

    def fill(self, start: int, out: NDArray[Any]) -> None:
        """Read rows from `start` on."""
        height, width = self._chunk
        stop = start + len(out)
        if width == out.shape[1]:
            stored = out if out.dtype == self._dtype else np.empty(out.shape, self._dtype)
            for first, last, at in self._find_runs(start // height, -(-stop // height)):
                a, b = max(start, first * height), min(stop, last * height)
                self._read(stored[a - start : b - start], first * height, a, at)
            if stored is not out:
                out[:] = stored
            return
        for row in range(start // height, -(-stop // height)):
            a, b = max(start, row * height), min(stop, (row + 1) * height)
            for column in range(self._index.n_across):
                stored = np.empty((b - a, width), self._dtype)
                at = int(self._index.offsets[row * self._index.n_across + column])
                self._read(stored, row * height, a, at)
                part = out[a - start : b - start, column * width : (column + 1) * width]
                part[:] = stored[:, : part.shape[1]]

    def _find_runs(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield first chunk, stop and offset of chunks that follow each other in the file."""
        offsets = self._index.offsets[first:last]
        size = math.prod(self._chunk) * self._dtype.itemsize
        follows = (offsets[1:] == offsets[:-1] + size) & (offsets[:-1] >= 0)
        starts = [0, *(np.flatnonzero(~follows) + 1).tolist(), len(offsets)]
        for begin, end in itertools.pairwise(starts):
            yield first + begin, first + end, int(offsets[begin])

    def _read(self, out: NDArray[Any], first: int, start: int, at: int) -> None:
        """Read rows from `start` on; those from `first` on are stored at offset `at`."""
        if at < 0:
            out[:] = self._fill_value
        else:
            row_bytes = self._chunk[1] * self._dtype.itemsize
            read_fully(self._index.file, out, at + (start - first) * row_bytes)


class _GzipChunks:
    """Decompresses the chunks of a dataset in threads, one block ahead.

    A task decompresses consecutive chunks: one if it is large, many if they are small. A row of a chunk is
    copied as one item: chunks may be a few columns wide, and NumPy copies rows of few numbers slowly.
    """

    def __init__(self, handle: Any, codes: tuple[int, ...], index: ChunkIndex) -> None:
        self._index, self._codes, self._fill_value = index, codes, handle.fillvalue
        self._shape, self._chunk, self._dtype = handle.shape, handle.chunks, handle.dtype
        self._row_type = np.dtype((np.void, self._chunk[1] * self._dtype.itemsize))
        self._rows = np.empty((0, index.n_across), self._row_type)
        self._n_bytes = math.prod(self._chunk) * self._dtype.itemsize
        self._per_task = max(1, _TASK_BYTES // self._n_bytes)
        self._waiting: dict[int, Future[list[_Chunk]]] = {}
        self._pool = ThreadPoolExecutor(get_n_threads(), "inflating")  # stops on garbage collection

    def fill(self, start: int, out: NDArray[Any]) -> None:
        """Read rows from `start` on."""
        stop = start + len(out)
        needed = self._list_tasks(start, stop)
        ahead = self._list_tasks(start, min(stop + len(out), self._shape[0]))
        self._waiting = {task: self._waiting.get(task) or self._submit(task) for task in ahead}
        if len(self._rows) < len(out):
            self._rows = np.empty((len(out), self._index.n_across), self._row_type)
        rows = self._rows[: len(out)]
        for task in needed:
            self._copy(task, self._waiting[task].result(), start, rows)
        out[:] = rows.view(self._dtype)[:, : out.shape[1]]

    def _list_tasks(self, start: int, stop: int) -> range:
        """Return the tasks that decompress rows `start` to `stop`."""
        height, across = self._chunk[0], self._index.n_across
        first, last = start // height * across, -(-stop // height) * across
        return range(first // self._per_task, -(-last // self._per_task))

    def _submit(self, task: int) -> Future[list[_Chunk]]:
        first = task * self._per_task
        return self._pool.submit(self._unpack, first, min(first + self._per_task, len(self._index.offsets)))

    def _copy(self, task: int, chunks: list[_Chunk], start: int, out: NDArray[np.void]) -> None:
        """Copy the rows of a block, (rows, chunks side by side), from the chunks of a task."""
        height = self._chunk[0]
        for i, chunk in enumerate(chunks, task * self._per_task):
            row, column = i // self._index.n_across * height, i % self._index.n_across
            first, last = max(start, row), min(start + len(out), row + height)
            if first >= last:
                continue
            if isinstance(chunk, OSError):
                raise chunk
            out[first - start : last - start, column] = chunk[first - row : last - row]

    def _unpack(self, first: int, stop: int) -> list[_Chunk]:
        """Return consecutive chunks."""
        stored, masks = self._index.read(first, stop), self._index.masks[first:stop].tolist()
        return [self._decode(mask, content) for mask, content in zip(masks, stored, strict=True)]

    def _decode(self, mask: int, content: Any) -> _Chunk:
        """Return a chunk from its bytes, and the mask of the filters that were skipped."""
        if content is None:
            return np.full(self._chunk, self._fill_value, self._dtype).view(self._row_type)[:, 0]
        try:
            for i, code in reversed(list(enumerate(self._codes))):
                if mask >> i & 1:
                    continue
                inflates = code == h5py.h5z.FILTER_DEFLATE
                content = (
                    zlib.decompress(content, bufsize=self._n_bytes)
                    if inflates
                    else self._unshuffle(content)
                )
            rows = np.frombuffer(content, self._row_type)
            if len(rows) != self._chunk[0]:
                raise ValueError(f"it has {len(rows)} rows, not {self._chunk[0]}")
            return rows
        except (zlib.error, ValueError) as error:
            return OSError(f"a chunk cannot be decompressed ({error})")

    def _unshuffle(self, content: Any) -> NDArray[np.uint8]:
        planes = np.frombuffer(content, np.uint8).reshape(self._dtype.itemsize, -1)
        numbers = np.empty((planes.shape[1], len(planes)), np.uint8)
        for place, plane in enumerate(planes):  # several times faster than copying the transpose
            numbers[:, place] = plane
        return numbers
