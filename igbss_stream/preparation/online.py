"""Prepare a stream between repair and separation: re-reference, filter and resample it.

Filters run forward only, because later samples are not known; their state is carried from chunk to chunk.
The output is bit-identical for all chunk sizes. Every index of the new grid is in one chunk or one gap, in
order; docs/preparing.md defines the grid of a new sampling rate.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy  # scipy.signal is imported lazily: it takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError
from igbss_stream.events import Events
from igbss_stream.preparation.filters import compute_pulse_delay, design_filters
from igbss_stream.preparation.referencing import Reference
from igbss_stream.preparation.resampling import Resampler, get_polyphase_filter
from igbss_stream.preparation.row_buffer import Array
from igbss_stream.preparation.settings import Preparation


class OnlinePreparation:
    """Prepare one stream.

    Parameters
    ----------
    stream : Stream
        Description of the input.
    preparation : Preparation

    Attributes
    ----------
    output_stream : Stream
        Description of the output.
    pulse_delay : int
        Number of input samples after which the filters show a pulse.

    Raises
    ------
    ParameterError
        If the preparation does not match the stream.

    Notes
    -----
    After a gap, including one of zero samples, and after rows that are not finite, the filters start again
    in the steady state of the first sample. Rows that are not finite are output as NaN.
    """

    def __init__(self, stream: Stream, preparation: Preparation) -> None:
        preparation.check(stream.rate)
        self._name, self._n_channels, self._dtype = stream.name, stream.n_channels, stream.dtype
        self._is_identity = preparation.does_nothing
        self._reference = (
            Reference(preparation.reference, stream.channels) if not self._is_identity else None
        )
        self._sos = design_filters(preparation, stream.rate)
        self.pulse_delay = compute_pulse_delay(self._sos)
        self._steady = scipy.signal.sosfilt_zi(self._sos)[:, :, None] if len(self._sos) else None
        up, down = preparation.compute_ratio(stream.rate)
        self._fir = None if up == down else get_polyphase_filter(up, down)
        channels = range(stream.n_channels) if self._reference is None else self._reference.kept_channels
        self.output_stream = replace(
            stream,
            rate=preparation.compute_rate(stream.rate),
            channels=tuple(stream.channels[i] for i in channels),
            delay=self.compute_delay(stream.delay),
        )
        self._position: int | None = None
        self._next = 0  # new index of the next output sample
        self._state: Array | None = None  # of the filters
        self._resampler: Resampler | None = None

    def compute_delay(self, n_samples: int) -> int:
        """Return the total delay in new samples; the group delay of filters is not included.

        Parameters
        ----------
        n_samples : int
            Delay of the input.
        """
        if self._fir is None:
            return n_samples
        return -(-n_samples * self._fir.up // self._fir.down) + self._fir.delay

    def move_events(self, events: Events) -> Events:
        """Return events of the input at the new samples that show what they mark.

        Resampling does not delay samples relative to their index. Filters do, by an amount that depends on
        the frequency; the events are moved by the delay of a pulse.

        Parameters
        ----------
        events : Events
            With old indices.
        """
        ratio = 1.0 if self._fir is None else self._fir.up / self._fir.down
        return events.move((events.index + self.pulse_delay) * ratio)

    def find_source_index(self, index: float) -> float:
        """Return the index that `move_events` moves to a new index."""
        ratio = 1.0 if self._fir is None else self._fir.down / self._fir.up
        return index * ratio - self.pulse_delay

    def push(self, item: Chunk | Gap) -> list[Chunk | Gap]:
        """Process the next chunk or gap, and return the finished ones.

        Parameters
        ----------
        item : Chunk or Gap
            Begins where the previous one stopped.

        Returns
        -------
        list of Chunk and Gap

        Raises
        ------
        InputError
            If the item does not follow the previous one, or has another number of channels.
        """
        self._check(item)
        if self._is_identity:
            return [item]
        if isinstance(item, Gap):
            done = self.flush()
            stop = self._to_new_index(item.stop)
            gap = Gap(self._next, stop - self._next, item.reason)
            self._next = stop
            return [*done, gap]
        return [done for run in _split_chunk(item) for done in self._prepare(*run)]

    def flush(self) -> list[Chunk | Gap]:
        """Return the remaining samples; later samples do not continue them."""
        self._state = None
        if self._resampler is None:
            return []
        rest, self._resampler = self._resampler.finish(), None
        return self._make_chunks(rest)

    def _check(self, item: Chunk | Gap) -> None:
        if self._position is None:
            self._next = self._to_new_index(item.start)
        elif self._position != item.start:
            raise InputError(
                f"samples must be consecutive: {item.start} came after {self._position}. "
                "Pass a Gap for missing samples."
            )
        self._position = item.stop
        if isinstance(item, Chunk) and item.data.shape[1] != self._n_channels:
            raise InputError(
                f"stream {self._name!r} has {self._n_channels} channels. "
                f"Got a chunk of {item.data.shape[1]} instead."
            )

    def _to_new_index(self, index: int) -> int:
        """Return the index of the first new sample at or after an old one."""
        return index if self._fir is None else self._fir.find_first_index(index)

    def _prepare(self, start: int, x: NDArray[np.generic], is_good: bool) -> list[Chunk | Gap]:
        if self._reference is None or not len(x):
            return []
        if not is_good:
            done = self.flush()
            n_new = self._to_new_index(start + len(x)) - self._next
            return [*done, *self._make_chunks(np.full((n_new, self.output_stream.n_channels), np.nan))]
        y = self._filter(self._reference.apply(x))
        if self._fir is not None:
            if self._resampler is None:
                self._resampler = Resampler(self._fir, start, self.output_stream.n_channels)
            y = self._resampler.push(y)
        return self._make_chunks(y)

    def _filter(self, x: Array) -> Array:
        if self._steady is None:
            return x
        if self._state is None:
            self._state = self._steady * x[0]
        y, self._state = scipy.signal.sosfilt(self._sos, x, axis=0, zi=self._state)
        return np.asarray(y)

    def _make_chunks(self, y: Array) -> list[Chunk | Gap]:
        """Return new samples as a list of one chunk, or an empty list if there are none."""
        if not len(y):
            return []
        chunk = Chunk(np.ascontiguousarray(y, dtype=self._dtype), self._next)
        self._next = chunk.stop
        return [chunk]


def _split_chunk(chunk: Chunk) -> Iterator[tuple[int, NDArray[np.generic], bool]]:
    """Yield (start, rows, is_finite) of runs of rows that are all finite, or all not."""
    good = np.isfinite(chunk.data).all(axis=1)
    for first, stop in split_runs(good).tolist():
        yield chunk.start + first, chunk.data[first:stop], bool(good[first])
