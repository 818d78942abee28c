"""A recording in an open file: what every reader of files hands over, whatever the format.

Samples leave here time-major, C-ordered and in native byte order, as float32 or float64. Where the file
tells that samples are missing, they take no rows: gaps state where.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Gap
from igbss_stream.errors import ParameterError

Fill = Callable[[int, NDArray[Any]], None]
"""Read as many samples as an array has rows into it, all stored channels, from a row of the file on."""


@dataclass(frozen=True)
class Facts:
    """What a file says of its samples.

    Parameters
    ----------
    layout : str
        Name of the layout or format of the file.
    why : str
        What it was told by.
    dataset : str
        Where in the file the samples are; empty where a file holds one series alone.
    rate : float or None
        In Hz, if known.
    unit : str or None
        Of the samples as they are handed over, if known.
    channels : tuple of str
        A name for each stored channel.
    types : tuple of str
        What each stored channel measures, in the words of the file; empty if it does not say.
    bad : tuple of str
        Names of channels that the file marks as bad.
    gaps : tuple of Gap
        Missing samples, in order; see `igbss_stream.files.gaps`.
    notes : tuple of str
        What the reader decided that one may want to know.
    """

    layout: str
    why: str
    dataset: str
    rate: float | None
    unit: str | None
    channels: tuple[str, ...]
    types: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    notes: tuple[str, ...] = ()


class Recording(Closeable):
    """A recording in an open file. A context manager, which closes it.

    Parameters
    ----------
    path : Path
    facts : Facts
    n_samples : int
    dtype : dtype
        Type of the blocks, native float32 or float64.
    picks : tuple of int, optional
        The stored channels to hand over, in this order; all of them by default.
    gain, offset : array of shape (stored channels,), optional
        Samples are ``stored * gain + offset``.

    Attributes
    ----------
    n_channels : int
        Number of channels that are handed over.
    channels, types, bad : tuple of str
        See `Facts`, of the channels that are handed over.
    layout, why, dataset, rate, unit, gaps, notes
        See `Facts`.
    """

    def __init__(
        self,
        path: Path,
        facts: Facts,
        n_samples: int,
        dtype: np.dtype[Any],
        *,
        picks: tuple[int, ...] | None = None,
        gain: NDArray[np.float64] | None = None,
        offset: NDArray[np.float64] | None = None,
    ) -> None:
        self.path = path
        self.layout, self.why, self.dataset = facts.layout, facts.why, facts.dataset
        self.rate, self.unit = facts.rate, facts.unit
        self.gaps, self.notes = facts.gaps, facts.notes
        self.n_samples, self.dtype = int(n_samples), dtype  # libraries count with NumPy, JSON cannot
        self._n_stored = len(facts.channels)
        every = tuple(range(self._n_stored))
        self._picks = every if picks is None else picks
        self._whole = self._picks == every
        self.n_channels = len(self._picks)
        self.channels = tuple(facts.channels[i] for i in self._picks)
        self.types = tuple(facts.types[i] for i in self._picks) if facts.types else ()
        self.bad = tuple(name for name in facts.bad if name in self.channels)
        kept = list(self._picks)
        self._gain = None if gain is None else gain[kept]
        self._offset = None if offset is None else offset[kept]

    def read_blocks(
        self, n: int, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Read the recording, or some rows of it, from start to end, `n` samples at a time.

        Parameters
        ----------
        n : int
            Number of samples in a block, at least 1; the last block may be shorter.
        start, stop : int, optional
            The first row, and the one after the last.

        Returns
        -------
        iterator of (start, block)
            Row of the first sample of the block, and the samples: an array of shape
            (at most `n`, `n_channels`), C-ordered, of type `dtype`. Every block lies in the same
            memory: it may be changed, but holds good only until the next one is asked for.

        Raises
        ------
        ParameterError
            If `n` is not a positive integer.
        RecordingError
            While reading, if the file is damaged or closed.
        """
        if not isinstance(n, int | np.integer) or n < 1:
            raise ParameterError(f"the block size is {n!r}; it must be an integer of at least 1")
        stop = self.n_samples if stop is None else stop
        return self._read_blocks(min(int(n), stop - start), start, stop)

    def _read_blocks(self, n: int, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the blocks that `read_blocks` promises."""
        fill = self._make_filler(n)
        stored = np.empty((n, self._n_stored), self.dtype)
        picked = stored if self._whole else np.empty((n, self.n_channels), self.dtype)
        for row in range(start, stop, n):
            rows = min(n, stop - row)
            fill(row, stored[:rows])
            if not self._whole:
                np.take(stored[:rows], self._picks, axis=1, out=picked[:rows])
            self._scale(picked[:rows])
            yield row, picked[:rows]

    def _scale(self, block: NDArray[Any]) -> None:
        """Turn stored numbers into samples, reckoning in float64."""
        if self._gain is not None:
            np.multiply(block, self._gain, out=block, casting="same_kind")
        if self._offset is not None:
            np.add(block, self._offset, out=block, casting="same_kind")

    @abstractmethod
    def _make_filler(self, n: int) -> Fill:
        """Return what reads blocks of at most `n` samples, with memory of its own."""
