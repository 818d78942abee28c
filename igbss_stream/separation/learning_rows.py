"""Choose the samples that a model is learned from: all but those that a recording marks as bad."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LearningRows:
    """The rows of a recording that statistics are taken from.

    Parameters
    ----------
    n_samples : int
        Number of samples to come.
    excluded : sequence of (int, int)
        Start and stop of the rows to leave out: sorted, without overlaps.
    breaks : sequence of int
        Rows that do not continue the row before them, for example after a gap.

    Attributes
    ----------
    n_samples : int
        Number of rows that are left.
    breaks : list of int
        Rows, counted without those that are left out, that do not continue the row before them.
    """

    def __init__(
        self, n_samples: int, excluded: Sequence[tuple[int, int]] = (), breaks: Sequence[int] = ()
    ) -> None:
        spans = np.asarray(excluded, np.int64).reshape(-1, 2)
        self._starts, self._stops = spans[:, 0], spans[:, 1]
        self._n_seen = 0
        self.n_samples = n_samples - int(np.sum(self._stops - self._starts))
        joints = [*breaks, *self._stops.tolist()] if len(spans) else breaks
        self.breaks = [row - self._count_excluded(row) for row in joints]

    def take(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of the next block, (samples, channels), that are not left out."""
        first, last = self._n_seen, self._n_seen + len(x)
        self._n_seen = last
        inside = np.flatnonzero((self._starts < last) & (self._stops > first))
        if not len(inside):
            return x
        kept = np.ones(len(x), np.bool_)
        for i in inside:
            kept[max(0, self._starts[i] - first) : self._stops[i] - first] = False
        return x[kept]

    def _count_excluded(self, row: int) -> int:
        """Return the number of rows before a row that are left out."""
        return int(np.sum(np.clip(row - self._starts, 0, self._stops - self._starts)))
