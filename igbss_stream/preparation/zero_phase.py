"""Filters forward and backward in bounded memory: as `scipy.signal.sosfiltfilt` does on the whole stretch.

The pass forward carries its state from row to row. The pass backward runs over blocks of fixed length and
starts a look-ahead beyond the end of each, in the steady state of the sample there: long enough that the
state it began with is forgotten. The grid of blocks begins with the stretch, so that nothing depends on how
samples come.
"""

from collections.abc import Iterator

import numpy as np
import scipy  # its parts are loaded where they are first used: signal takes half a second and 50 MB

from igbss_stream.preparation.filters import Sections, compute_padding
from igbss_stream.preparation.row_buffer import Array, RowBuffer

_LEAST_BLOCK = 4096  # samples: the look-ahead is reckoned once more for each block
_GROUP = 1 << 21  # numbers that are filtered backward at a time: 16 MB


class ZeroPhaseFilter:
    """Filters one stretch forward and backward.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    look_ahead : int
        As `filters.ringing` has it.
    n_channels : int

    Notes
    -----
    Both ends are extended by the odd extension of SciPy, by as many samples as there; less if the stretch
    is shorter.
    """

    def __init__(self, sos: Sections, look_ahead: int, n_channels: int) -> None:
        self._sos, self._steady = sos, scipy.signal.sosfilt_zi(sos)[:, :, None]
        self._padding = compute_padding(sos)
        self._look_ahead = max(look_ahead, self._padding)
        self._block = max(_LEAST_BLOCK, self._look_ahead)
        self._ends = RowBuffer(
            n_channels
        )  # samples as they came: the first ones, then always the last ones
        self._forward = RowBuffer(n_channels)  # what was filtered forward and not yet backward
        self._state: Array | None = None
        self._n_left = 0  # rows of the stretch that have not left

    def push(self, x: Array) -> Iterator[Array]:
        """Take samples in; yield those that are done."""
        self._ends.append(x)
        self._n_left += len(x)
        if self._state is None:
            if len(self._ends) <= self._padding:
                return
            x = self._begin(self._padding)
        self._ends.drop(len(self._ends) - self._padding - 1)
        yield from self._filtered(x)

    def finish(self) -> Iterator[Array]:
        """Yield the rest; the stretch has ended."""
        if not self._n_left:
            return
        reach = min(self._padding, len(self._ends) - 1)
        if self._state is None:
            yield from self._filtered(self._begin(reach))
        ends = self._ends.rows
        yield from self._filtered(2 * ends[-1] - ends[-2 : -reach - 2 : -1])
        while self._n_left:
            yield self._backward(min(self._block, self._n_left))

    def _begin(self, reach: int) -> Array:
        """Start at the extension of the first end; return what is to be filtered forward."""
        ends = self._ends.rows
        x = np.concatenate([2 * ends[0] - ends[reach:0:-1], ends])
        self._state = self._steady * x[0]
        if reach:  # only the stretch itself goes backward: the extension leads up to it
            _, self._state = scipy.signal.sosfilt(self._sos, x[:reach], axis=0, zi=self._state)
        return x[reach:]

    def _filtered(self, x: Array) -> Iterator[Array]:
        if len(x):
            y, self._state = scipy.signal.sosfilt(self._sos, x, axis=0, zi=self._state)
            self._forward.append(y)
        while len(self._forward) >= self._block + self._look_ahead:
            yield self._backward(self._block)

    def _backward(self, n: int) -> Array:
        """Return the next rows, filtered backward."""
        ahead = self._forward.rows[: self._block + self._look_ahead]
        done = np.empty((n, ahead.shape[1]))
        step = max(1, _GROUP // len(ahead))
        for first in range(0, ahead.shape[1], step):
            group = slice(first, first + step)
            x = ahead[::-1, group]
            y, _ = scipy.signal.sosfilt(self._sos, x, axis=0, zi=self._steady * x[0])
            done[:, group] = y[::-1][:n]
        self._forward.drop(n)
        self._n_left -= n
        return done
