"""Rows that come at one end and go at the other."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class RowBuffer:
    """Rows of numbers in one piece of memory, which is about twice as large as what it holds at once.

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
        """The rows that are held; the memory is used again by `append`."""
        return self._memory[self._first : self._stop]

    def append(self, rows: Array) -> None:
        """Take rows in."""
        if self._stop + len(rows) > len(self._memory):
            self._make_room(len(rows))
        self._memory[self._stop : self._stop + len(rows)] = rows
        self._stop += len(rows)

    def drop(self, n: int) -> None:
        """Let the first rows go."""
        self._first += n

    def _make_room(self, n: int) -> None:
        """Move what is held to the front, of larger memory unless half of it is free then."""
        held = self.rows
        memory = self._memory
        if 2 * (len(held) + n) > len(memory):
            memory = np.empty((2 * (len(held) + n), memory.shape[1]))
        memory[: len(held)] = held
        self._memory, self._first, self._stop = memory, 0, len(held)
