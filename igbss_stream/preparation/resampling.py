"""Change the sampling rate by a rational ratio.

Each new sample is a weighted sum of the old samples around it. The grids of both sampling rates share index
0. The samples of a run are therefore on the same grid as those of the previous run, wherever it begins.
"""

import functools
import math

import numpy as np
import scipy  # scipy.signal is imported lazily: it takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream.preparation.row_buffer import Array, RowBuffer

ATTENUATION = 80.0  # dB, beyond half the lower rate
TRANSITION = 0.2  # width of the transition band as a share of half the lower rate


class PolyphaseFilter:
    """The anti-aliasing filter of a rational resampling, split into its phases.

    Parameters
    ----------
    up, down : int
        The new rate is ``up / down`` times the old one; they have no common factor.

    Attributes
    ----------
    taps : ndarray of shape (2 * half + 1,)
        At `up` times the old rate. Each phase sums to 1, which preserves constants.
    half : int
        Number of taps on either side of the middle one.
    phases : ndarray of shape (up, width)
        Taps of each phase, in the order of the samples that they multiply.
    width : int
        Number of old samples in each sum.
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
        """Number of new samples after which a new sample can be computed."""
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
    """Resample one run; its first and last sample are repeated beyond its ends.

    Parameters
    ----------
    fir : PolyphaseFilter
    start : int
        Index of the first sample.
    n_channels : int
    """

    def __init__(self, fir: PolyphaseFilter, start: int, n_channels: int) -> None:
        self._fir, self._rows = fir, RowBuffer(n_channels)
        self._next = fir.find_first_index(start)  # index of the next new sample
        self._stop = start
        self._product = np.empty((fir.width, n_channels))

    def push(self, x: Array) -> Array:
        """Add samples; return the new ones that can be computed.

        Parameters
        ----------
        x : array of shape (samples, channels)
        """
        if len(x) and not len(self._rows):
            self._rows.append(np.repeat(x[:1], self._fir.width, axis=0))
        self._rows.append(x)
        self._stop += len(x)
        within = (self._stop * self._fir.up - 1 - self._fir.half) // self._fir.down
        return self._compute_until(within + 1)

    def finish(self) -> Array:
        """Return the remaining new samples at the end of the run."""
        stop = self._fir.find_first_index(self._stop)
        if len(self._rows):
            beyond = self._fir.half // self._fir.up + 1
            self._rows.append(np.repeat(self._rows.rows[-1:], beyond, axis=0))
            self._stop += beyond
        return self._compute_until(stop)

    def _compute_until(self, stop: int) -> Array:
        fir, rows = self._fir, self._rows.rows
        first = self._stop - len(rows)  # index of the first row
        new: NDArray[np.float64] = np.empty((max(0, stop - self._next), rows.shape[1]))
        for row in new:
            last, phase = divmod(self._next * fir.down + fir.half, fir.up)
            x = rows[last + 1 - fir.width - first : last + 1 - first]
            # All sums have the same shape, so the order of addition does not depend on the chunks.
            np.multiply(x, fir.phases[phase, :, None], out=self._product)
            np.add.reduce(self._product, axis=0, out=row)
            self._next += 1
        needed = (self._next * fir.down + fir.half) // fir.up + 1 - fir.width
        self._rows.drop(min(max(0, needed - first), max(0, len(rows) - 1)))
        return new
