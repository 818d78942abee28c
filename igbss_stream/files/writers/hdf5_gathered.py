"""Rows of a dataset whose number is known only when the last has come."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_IN_MEMORY = 1 << 20  # bytes; what is more goes to the disk
_BLOCK = 1 << 16  # rows that are given back at a time


class Gathered:
    """Numbers that wait for their dataset, in memory and then in a file without a name: no kill leaves it.

    In the file they lie in one piece then, as other datasets do; one that grew would lie in chunks.

    Parameters
    ----------
    folder : Path
        Of the output: the disk that has room for it.
    dtype : dtype

    Attributes
    ----------
    rows : int
        That have come.
    """

    def __init__(self, folder: Path, dtype: np.dtype[Any]) -> None:
        self.dtype, self.rows = dtype, 0
        self._file = tempfile.SpooledTemporaryFile[bytes](_IN_MEMORY, dir=str(folder))

    def append(self, block: NDArray[Any]) -> None:
        """Take the next rows, (rows,)."""
        self._file.write(np.ascontiguousarray(block, self.dtype).view(np.uint8).data)
        self.rows += len(block)

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield all rows, some at a time."""
        self._file.seek(0, os.SEEK_SET)
        while data := self._file.read(_BLOCK * self.dtype.itemsize):
            yield np.frombuffer(data, self.dtype)

    def close(self) -> None:
        """Forget them."""
        self._file.close()
