"""Filter forward and backward in bounded memory, equivalent to `scipy.signal.sosfiltfilt` on the whole run.

The forward pass carries its state from row to row. The backward pass processes blocks of fixed length. It
starts a look-ahead beyond the end of each block, in the steady state of the sample there; the look-ahead is
long enough for the initial state to have no effect. The grid of blocks begins with the run, so the output
does not depend on the chunks.
"""

from collections.abc import Iterator

import numpy as np
import scipy  # scipy.signal is imported lazily: it takes half a second and 50 MB

from igbss_stream.preparation.filters import Sections, compute_padding
from igbss_stream.preparation.row_buffer import Array, RowBuffer

_MIN_BLOCK = 4096  # samples; the look-ahead is filtered again for each block
_GROUP = 1 << 21  # numbers that are filtered backward at a time, 16 MB


class ZeroPhaseFilter:
    """Filter one run forward and backward.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    look_ahead : int
        Settling time, see `filters.compute_settling_time`.
    n_channels : int

    Notes
    -----
    Both ends are extended by SciPy's odd extension, by the same number of samples; fewer if the run is
    shorter.
    """

    def __init__(self, sos: Sections, look_ahead: int, n_channels: int) -> None:
        self._sos, self._steady = sos, scipy.signal.sosfilt_zi(sos)[:, :, None]
        self._padding = compute_padding(sos)
        self._look_ahead = max(look_ahead, self._padding)
        self._block = max(_MIN_BLOCK, self._look_ahead)
        self._ends = RowBuffer(
            n_channels
        )  # samples as they came: the first ones, then always the last ones
        self._forward = RowBuffer(n_channels)  # rows filtered forward, not yet backward
        self._state: Array | None = None
        self._n_left = 0  # rows of the run that are not output yet

    def push(self, x: Array) -> Iterator[Array]:
        """Add samples; yield the finished ones."""
        self._ends.append(x)
        self._n_left += len(x)
        if self._state is None:
            if len(self._ends) <= self._padding:
                return
            x = self._begin(self._padding)
        self._ends.drop(len(self._ends) - self._padding - 1)
        yield from self._filter_forward(x)

    def finish(self) -> Iterator[Array]:
        """Yield the remaining samples at the end of the run."""
        if not self._n_left:
            return
        reach = min(self._padding, len(self._ends) - 1)
        if self._state is None:
            yield from self._filter_forward(self._begin(reach))
        ends = self._ends.rows
        yield from self._filter_forward(2 * ends[-1] - ends[-2 : -reach - 2 : -1])
        while self._n_left:
            yield self._filter_backward(min(self._block, self._n_left))

    def _begin(self, reach: int) -> Array:
        """Start with the extension of the first end; return the samples to filter forward."""
        ends = self._ends.rows
        x = np.concatenate([2 * ends[0] - ends[reach:0:-1], ends])
        self._state = self._steady * x[0]
        if reach:  # only the run itself is filtered backward; the extension sets the state
            _, self._state = scipy.signal.sosfilt(self._sos, x[:reach], axis=0, zi=self._state)
        return x[reach:]

    def _filter_forward(self, x: Array) -> Iterator[Array]:
        if len(x):
            y, self._state = scipy.signal.sosfilt(self._sos, x, axis=0, zi=self._state)
            self._forward.append(y)
        while len(self._forward) >= self._block + self._look_ahead:
            yield self._filter_backward(self._block)

    def _filter_backward(self, n: int) -> Array:
        """Return the next rows filtered backward."""
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
