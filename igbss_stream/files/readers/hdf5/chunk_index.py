"""Find where the chunks of an HDF5 dataset are in its file, all in one pass.

HDF5 finds a chunk by its coordinates in time proportional to the number of chunks, so that asking for one
after the other takes quadratic time. Iterating over all of them takes a microsecond a chunk.
"""

import math
import os
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

_MOST_CHUNKS = 1 << 20  # chunks whose places are kept: 20 MB
_LARGEST_HOLE = 1 << 16  # bytes between chunks that are read with them: one read more takes as long


@dataclass(frozen=True, eq=False)
class ChunkIndex:
    """Places of the chunks of a dataset in its file.

    Chunks are numbered in C-order: ``row of chunks * n_across + column of chunks``.

    Parameters
    ----------
    file : int
        Descriptor of the open file.
    n_across : int
        Number of chunks side by side.
    offsets : ndarray of int
        First byte of each chunk; -1 for chunks that were never written.
    sizes : ndarray of int
        Bytes of each chunk as stored.
    masks : ndarray of int
        Filters that were skipped for each chunk, one bit a filter.
    """

    file: int
    n_across: int
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    masks: NDArray[np.uint32]

    def read(self, first: int, stop: int) -> list[memoryview | None]:
        """Return the stored bytes of consecutive chunks; None for those that were never written.

        Neighbours in the file are read at once.
        """
        offsets, sizes = self.offsets[first:stop], self.sizes[first:stop]
        there = offsets >= 0
        if not there.any():
            return [None] * len(offsets)
        begin, end = int(offsets[there].min()), int((offsets + sizes)[there].max())
        if end - begin > 2 * sizes[there].sum() + _LARGEST_HOLE:
            middle = (first + stop) // 2
            return self.read(first, middle) + self.read(middle, stop)
        if end > os.fstat(self.file).st_size:
            raise OSError("chunks lie behind the end of the file")
        content = memoryview(os.pread(self.file, end - begin, begin))
        starts = offsets - begin
        return [
            content[at : at + size] if known else None
            for at, size, known in zip(starts.tolist(), sizes.tolist(), there.tolist(), strict=True)
        ]


def find_chunks(handle: Any) -> ChunkIndex | None:
    """Return where the chunks of a dataset are.

    Parameters
    ----------
    handle : h5py.Dataset
        Of shape (samples, channels), in chunks.

    Returns
    -------
    ChunkIndex or None
        None if the file is not open by the usual driver, or there are too many chunks; h5py reads these.
    """
    grid = [math.ceil(n / chunk) for n, chunk in zip(handle.shape, handle.chunks, strict=True)]
    n_chunks = math.prod(grid)
    if (
        handle.file.driver != "sec2"
        or n_chunks > _MOST_CHUNKS
        or not hasattr(h5py.h5d.DatasetID, "chunk_iter")
    ):
        return None
    offsets, sizes = np.full(n_chunks, -1, np.int64), np.zeros(n_chunks, np.int64)
    masks = np.zeros(n_chunks, np.uint32)
    (n_rows, n_columns), (height, width) = handle.shape, handle.chunks

    def note(chunk: Any) -> None:
        row, column = chunk.chunk_offset
        if row >= n_rows or column >= n_columns:
            return  # of a damaged index; HDF5 never reads it
        i = row // height * grid[1] + column // width
        offsets[i], sizes[i], masks[i] = chunk.byte_offset, chunk.size, chunk.filter_mask

    handle.id.chunk_iter(note)
    index = ChunkIndex(handle.file.id.get_vfd_handle(), grid[1], offsets, sizes, masks)
    return index if handle.file.userblock_size == 0 or _is_confirmed(index, handle) else None


def _is_confirmed(index: ChunkIndex, handle: Any) -> bool:
    """Return whether the first chunk is where the index says: not if HDF5 forgets the user block."""
    known = np.flatnonzero(index.offsets >= 0)
    if not len(known):
        return True
    row, column = divmod(int(known[0]), index.n_across)
    place = row * handle.chunks[0], column * handle.chunks[1]
    found = index.read(int(known[0]), int(known[0]) + 1)[0]
    return found is not None and bytes(found) == handle.id.read_direct_chunk(place)[1]
