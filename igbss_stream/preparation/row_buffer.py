"""Buffer rows: append at one end, drop at the other."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RowBuffer:
    """Rows in contiguous memory, about twice as large as the buffered rows.

    Parameters
    ----------
    n_columns : int
    """

    def __init__(self, n_columns: int) -> None:
        self._memory = np.empty((0, n_columns))
        self._first = self._stop = 0

    def __len__(self) -> int:
        return self._stop - self._first

    @property
    def rows(self) -> Array:
        """The buffered rows; `append` may overwrite their memory."""
        return self._memory[self._first : self._stop]

    def append(self, rows: Array) -> None:
        """Append rows."""
        if self._stop + len(rows) > len(self._memory):
            self._make_room(len(rows))
        self._memory[self._stop : self._stop + len(rows)] = rows
        self._stop += len(rows)

    def drop(self, n: int) -> None:
        """Drop the first n rows."""
        self._first += n

    def _make_room(self, n: int) -> None:
        """Move the rows to the front; allocate larger memory unless half of it is free then."""
        rows = self.rows
        memory = self._memory
        if 2 * (len(rows) + n) > len(memory):
            memory = np.empty((2 * (len(rows) + n), memory.shape[1]))
        memory[: len(rows)] = rows
        self._memory, self._first, self._stop = memory, 0, len(rows)
