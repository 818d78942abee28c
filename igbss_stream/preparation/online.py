"""The stage between repair and separation: a stream is re-referenced, filtered and resampled as it comes.

Filters run forward alone, as what comes later is not known; their state goes from chunk to chunk. What
comes out is the same to the bit however the feed is cut. Every index of the new grid lies in one chunk or
one gap, in order; the grid of a new rate is that of docs/preparing.md.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy  # its parts are loaded where they are first used: signal takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError
from igbss_stream.preparation.filters import design_filters
from igbss_stream.preparation.referencing import Reference
from igbss_stream.preparation.resampling import Resampler, get_polyphase_filter
from igbss_stream.preparation.row_buffer import Array
from igbss_stream.preparation.settings import Preparation


class OnlinePreparation:
    """Prepares one stream.

    Parameters
    ----------
    stream : Stream
        What comes in.
    preparation : Preparation

    Attributes
    ----------
    out : Stream
        What comes out.

    Raises
    ------
    ParameterError
        If the stream does not go with the preparation.

    Notes
    -----
    After a gap, also one of no samples, and after rows that are not finite, all begins anew: filters in the
    steady state of the first sample. Rows that are not finite come out as NaN.
    """

    def __init__(self, stream: Stream, preparation: Preparation) -> None:
        preparation.check(stream.rate)
        self._name, self._n_channels, self._dtype = stream.name, stream.n_channels, stream.dtype
        self._passes = preparation.does_nothing
        self._reference = Reference(preparation.reference, stream.channels) if not self._passes else None
        self._sos = design_filters(preparation, stream.rate)
        self._steady = scipy.signal.sosfilt_zi(self._sos)[:, :, None] if len(self._sos) else None
        up, down = preparation.compute_ratio(stream.rate)
        self._fir = None if up == down else get_polyphase_filter(up, down)
        kept = range(stream.n_channels) if self._reference is None else self._reference.kept_channels
        self.output_stream = replace(
            stream,
            rate=preparation.compute_rate(stream.rate),
            channels=tuple(stream.channels[i] for i in kept),
            delay=self.compute_delay(stream.delay),
        )
        self._position: int | None = None
        self._due = 0  # new index of what leaves next
        self._state: Array | None = None  # of the filters
        self._resampler: Resampler | None = None

    def compute_delay(self, n_samples: int) -> int:
        """Return a delay in new samples, with that of a new rate; filters have none that is a number.

        Parameters
        ----------
        n_samples : int
            The delay of what comes in.
        """
        if self._fir is None:
            return n_samples
        return -(-n_samples * self._fir.up // self._fir.down) + self._fir.delay

    def push(self, item: Chunk | Gap) -> list[Chunk | Gap]:
        """Take in the next chunk or gap, and return what is done.

        Parameters
        ----------
        item : Chunk or Gap
            Begins where the one before stopped.

        Returns
        -------
        list of Chunk and Gap

        Raises
        ------
        InputError
            If it does not follow on the one before, or has another number of channels.
        """
        self._check(item)
        if self._passes:
            return [item]
        if isinstance(item, Gap):
            done = self.flush()
            stop = self._grid(item.stop)
            gap = Gap(self._due, stop - self._due, item.reason)
            self._due = stop
            return [*done, gap]
        return [done for run in _split_runs(item) for done in self._prepared(*run)]

    def flush(self) -> list[Chunk | Gap]:
        """Return what is still inside; what comes next does not continue it."""
        self._state = None
        if self._resampler is None:
            return []
        rest, self._resampler = self._resampler.finish(), None
        return self._chunks(rest)

    def _check(self, item: Chunk | Gap) -> None:
        if self._position is None:
            self._due = self._grid(item.start)
        elif self._position != item.start:
            raise InputError(f"samples must follow each other: {item.start} came after {self._position}.")
        self._position = item.stop
        if isinstance(item, Chunk) and item.data.shape[1] != self._n_channels:
            raise InputError(
                f"stream {self._name!r} has {self._n_channels} channels. "
                f"Got a chunk of {item.data.shape[1]} instead."
            )

    def _grid(self, index: int) -> int:
        return index if self._fir is None else self._fir.find_first_index(index)

    def _prepared(self, start: int, x: NDArray[np.generic], is_good: bool) -> list[Chunk | Gap]:
        if self._reference is None or not len(x):
            return []
        if not is_good:
            done = self.flush()
            n_new = self._grid(start + len(x)) - self._due
            return [*done, *self._chunks(np.full((n_new, self.output_stream.n_channels), np.nan))]
        y = self._filtered(self._reference.apply(x))
        if self._fir is not None:
            if self._resampler is None:
                self._resampler = Resampler(self._fir, start, self.output_stream.n_channels)
            y = self._resampler.push(y)
        return self._chunks(y)

    def _filtered(self, x: Array) -> Array:
        if self._steady is None:
            return x
        if self._state is None:
            self._state = self._steady * x[0]
        y, self._state = scipy.signal.sosfilt(self._sos, x, axis=0, zi=self._state)
        return np.asarray(y)

    def _chunks(self, y: Array) -> list[Chunk | Gap]:
        """Return new samples as a chunk, if there are any."""
        if not len(y):
            return []
        chunk = Chunk(np.ascontiguousarray(y, dtype=self._dtype), self._due)
        self._due = chunk.stop
        return [chunk]


def _split_runs(chunk: Chunk) -> Iterator[tuple[int, NDArray[np.generic], bool]]:
    """Yield (start, rows, whether they are finite) of runs of rows that are, or are not."""
    good = np.isfinite(chunk.data).all(axis=1)
    edges = [0, *(np.flatnonzero(np.diff(good)) + 1), len(good)]
    for first, stop in itertools.pairwise(map(int, edges)):
        if stop > first:
            yield chunk.start + first, chunk.data[first:stop], bool(good[first])
