"""Another rate, in a ratio of whole numbers: each new sample is one sum over the samples around it.

The new samples lie where the new rate has them from index 0 on, the place of index 0 being the same on both
grids. So a stretch that begins anywhere has its samples on the grid that the one before was on.
"""

import functools
import math

import numpy as np
import scipy  # its parts are loaded where they are first used: signal takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream.preparation.row_buffer import Array, RowBuffer

ATTENUATION = 80.0  # dB, of what lies beyond half the lower rate
TRANSITION = 0.2  # share of half the lower rate over which the gain falls


class PolyphaseFilter:
    """The anti-aliasing filter of a rational resampling, split into its phases.

    Parameters
    ----------
    up, down : int
        The new rate is ``up / down`` times the old one; without a common factor.

    Attributes
    ----------
    taps : ndarray of shape (2 * half + 1,)
        At `up` times the old rate. Each phase sums to 1, so that what is constant stays so.
    half : int
        Taps on either side of the middle one.
    phases : ndarray of shape (up, width)
        Taps of each phase, in the order of the samples that they go with.
    width : int
        Number of old samples in a sum.
    """

    def __init__(self, up: int, down: int) -> None:
        self.up, self.down = up, down
        larger = max(up, down)
        n_taps, beta = scipy.signal.kaiserord(ATTENUATION, TRANSITION / larger)
        self.half: int = math.ceil(n_taps / 2 / larger) * larger
        cutoff = (1 - TRANSITION / 2) / larger
        taps = scipy.signal.firwin(2 * self.half + 1, cutoff, window=("kaiser", beta))
        self.width = math.ceil(len(taps) / up)
        padded = np.zeros(self.width * up)
        padded[: len(taps)] = taps
        phases = padded.reshape(self.width, up)
        phases /= phases.sum(axis=0)
        self.taps = phases.reshape(-1)[: len(taps)].copy()
        self.phases = np.ascontiguousarray(phases.T[:, ::-1])

    @property
    def delay(self) -> int:
        """How many new samples after its own one a sample can be reckoned."""
        return self.half // self.down

    def find_first_index(self, index: int) -> int:
        """Return the index of the first new sample at or after an old one.

        Parameters
        ----------
        index : int
        """
        return -(-index * self.up // self.down)


get_polyphase_filter = functools.lru_cache(maxsize=16)(PolyphaseFilter)


class Resampler:
    """Resamples one stretch, which is held at its first and at its last sample beyond its ends.

    Parameters
    ----------
    fir : PolyphaseFilter
    start : int
        Index of the first sample.
    n_channels : int
    """

    def __init__(self, fir: PolyphaseFilter, start: int, n_channels: int) -> None:
        self._fir, self._rows = fir, RowBuffer(n_channels)
        self._next = fir.find_first_index(start)  # index of the new sample that is due
        self._stop = start
        self._product = np.empty((fir.width, n_channels))

    def push(self, x: Array) -> Array:
        """Take samples in; return the new ones that can be reckoned.

        Parameters
        ----------
        x : array of shape (samples, channels)
        """
        if len(x) and not len(self._rows):
            self._rows.append(np.repeat(x[:1], self._fir.width, axis=0))
        self._rows.append(x)
        self._stop += len(x)
        within = (self._stop * self._fir.up - 1 - self._fir.half) // self._fir.down
        return self._until(within + 1)

    def finish(self) -> Array:
        """Return the rest of the new samples; the stretch has ended."""
        stop = self._fir.find_first_index(self._stop)
        if len(self._rows):
            beyond = self._fir.half // self._fir.up + 1
            self._rows.append(np.repeat(self._rows.rows[-1:], beyond, axis=0))
            self._stop += beyond
        return self._until(stop)

    def _until(self, stop: int) -> Array:
        fir, held = self._fir, self._rows.rows
        at = self._stop - len(held)  # index of the first row that is held
        new: NDArray[np.float64] = np.empty((max(0, stop - self._next), held.shape[1]))
        for row in new:
            last, phase = divmod(self._next * fir.down + fir.half, fir.up)
            x = held[last + 1 - fir.width - at : last + 1 - at]
            # One shape for every sum: how it is added up does not depend on how samples come.
            np.multiply(x, fir.phases[phase, :, None], out=self._product)
            np.add.reduce(self._product, axis=0, out=row)
            self._next += 1
        needed = (self._next * fir.down + fir.half) // fir.up + 1 - fir.width
        self._rows.drop(min(max(0, needed - at), max(0, len(held) - 1)))
        return new
