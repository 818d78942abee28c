"""A recording, prepared: read like any other, with the samples as they are to be separated."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError
from igbss_stream.files.recording import Break, Facts, Fill, Recording
from igbss_stream.preparation.filters import compute_settling_time, design_filters
from igbss_stream.preparation.referencing import Reference
from igbss_stream.preparation.resampling import PolyphaseFilter, Resampler, get_polyphase_filter
from igbss_stream.preparation.row_buffer import Array
from igbss_stream.preparation.settings import Preparation
from igbss_stream.preparation.zero_phase import ZeroPhaseFilter
from igbss_stream.separation.statistics import Survey

LOOK_AHEAD_BYTES = 1 << 27  # that filters may take to settle
_BLOCK_BYTES = 1 << 20  # read at a time


@dataclass(frozen=True)
class _Run:
    """Rows of a recording that follow each other without a break."""

    row: int
    stop: int
    index: int  # of the first one, with what is missing before it counted


class PreparedRecording(Recording):
    """A recording whose samples are re-referenced, filtered with zero phase and resampled on the way.

    Parameters
    ----------
    source : Recording
        Is not to be read by anyone else meanwhile.
    preparation : Preparation
    left_out : sequence of int
        Channels of it that are left out, also of the reference.
    remedy : str
        What the caller offers against flat channels, for the message.

    Raises
    ------
    ParameterError
        If the recording does not go with the preparation.
    InputError
        If no sample is left at the new rate.

    Notes
    -----
    Reading it raises an `InputError` if samples of the source are not finite or a channel of it is flat:
    after a filter or another reference neither could be told any more. Some rows alone can be read where
    another reference is all that is done; these are not checked.
    """

    def __init__(
        self,
        source: Recording,
        preparation: Preparation,
        left_out: Sequence[int] = (),
        *,
        remedy: str = "",
    ) -> None:
        self._source, self._remedy = source, remedy
        self._reference = Reference(preparation.reference, source.channels, left_out)
        self._surveyed = np.setdiff1d(np.arange(source.n_channels), left_out)
        kept = self._reference.kept_channels
        rate = source.rate
        if rate is None and (preparation.has_filters or preparation.resample is not None):
            raise ParameterError(
                "filters and a new rate need the rate of the recording, which it does not say; pass --rate."
            )
        self._sos, self._look_ahead = np.empty((0, 6)), 0
        self._fir: PolyphaseFilter | None = None
        if rate is not None:
            preparation.check(rate)
            self._sos = design_filters(preparation, rate)
            up, down = preparation.compute_ratio(rate)
            self._fir = None if up == down else get_polyphase_filter(up, down)
            rate = preparation.compute_rate(rate)
        if len(self._sos):
            self._look_ahead = compute_settling_time(self._sos, LOOK_AHEAD_BYTES // (8 * len(kept)))
        self._stretches = _find_runs(source)
        breaks, n_samples = self._breaks()
        if n_samples < 1:
            raise InputError(f"at {rate:g} Hz no sample is left of {source.n_samples}; resample less.")
        facts = Facts(
            layout=source.layout,
            why=source.why,
            dataset=source.dataset,
            rate=rate,
            unit=source.unit,
            channels=tuple(source.channels[i] for i in kept),
            types=tuple(source.types[i] for i in kept) if source.types else (),
            bad=source.bad,
            breaks=breaks,
            notes=source.notes,
        )
        super().__init__(source.path, facts, n_samples, source.dtype)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _blocks(self, n: int, first: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        if (first, stop) == (0, self.n_samples):
            yield from super()._blocks(n, first, stop)
            return
        if len(self._sos) or self._fir is not None:
            raise RuntimeError("filters and a new rate take the recording from its start")
        for start, block in self._source.blocks(n, first, stop):
            yield start, self._reference.apply(block).astype(self.dtype, copy=False)

    def _filler(self, n: int) -> Fill:
        pieces = self._prepared()
        rest = np.empty((0, self.n_channels))

        def fill(start: int, out: NDArray[Any]) -> None:
            nonlocal rest
            done = 0
            while done < len(out):
                if not len(rest):
                    rest = next(pieces)
                    continue
                n_rows = min(len(rest), len(out) - done)
                out[done : done + n_rows] = rest[:n_rows]
                rest, done = rest[n_rows:], done + n_rows

        return fill

    def _grid(self, index: int) -> int:
        return index if self._fir is None else self._fir.find_first_index(index)

    def _breaks(self) -> tuple[tuple[Break, ...], int]:
        """Return the breaks of the prepared recording, and how many samples it has."""
        breaks, row = [], 0
        pairs = itertools.pairwise(self._stretches)
        for (stretch, after), gap in zip(pairs, self._source.breaks, strict=True):
            stop = self._grid(stretch.index + stretch.stop - stretch.row)
            row += stop - self._grid(stretch.index)
            breaks.append(Break(row, self._grid(after.index) - stop, gap.reason))
        last = self._stretches[-1]
        row += self._grid(last.index + last.stop - last.row) - self._grid(last.index)
        return tuple(breaks), row

    def _prepared(self) -> Iterator[Array]:
        """Yield all prepared samples, in pieces that may be empty."""
        stretches = iter(self._stretches)
        stretch = next(stretches)
        chain = self._chain(stretch)
        for start, block in self._raw():
            at = start
            while at < start + len(block):
                while at == stretch.stop:
                    yield from chain.finish()
                    stretch = next(stretches)
                    chain = self._chain(stretch)
                stop = min(stretch.stop, start + len(block))
                yield from chain.push(self._reference.apply(block[at - start : stop - start]))
                at = stop
        yield from chain.finish()

    def _chain(self, stretch: _Run) -> "_RunChain":
        zero_phase = (
            ZeroPhaseFilter(self._sos, self._look_ahead, self.n_channels) if len(self._sos) else None
        )
        resampler = None if self._fir is None else Resampler(self._fir, stretch.index, self.n_channels)
        return _RunChain(zero_phase, resampler)

    def _raw(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the blocks of the source, which are found to be good before the last one leaves."""
        source = self._source
        names = [source.channels[i] for i in self._surveyed]
        survey = Survey(names, source.dtype, source.n_samples)
        length = max(1, _BLOCK_BYTES // (source.n_channels * source.dtype.itemsize))
        for start, block in source.blocks(length):
            survey.update(np.ascontiguousarray(block[:, self._surveyed]))
            if start + len(block) == source.n_samples:
                survey.check(remedy=self._remedy)
            if not survey.n_bad:  # else only the count goes on, for the message
                yield start, block


class _RunChain:
    """What one stretch goes through."""

    def __init__(self, zero_phase: ZeroPhaseFilter | None, resampler: Resampler | None) -> None:
        self._zero_phase, self._resampler = zero_phase, resampler

    def push(self, x: Array) -> Iterator[Array]:
        pieces = iter([x]) if self._zero_phase is None else self._zero_phase.push(x)
        yield from pieces if self._resampler is None else map(self._resampler.push, pieces)

    def finish(self) -> Iterator[Array]:
        rest = iter(()) if self._zero_phase is None else self._zero_phase.finish()
        yield from rest if self._resampler is None else map(self._resampler.push, rest)
        if self._resampler is not None:
            yield self._resampler.finish()


def _find_runs(source: Recording) -> list[_Run]:
    """Return what lies between the breaks of a recording; a stretch may be empty."""
    rows = [0, *(gap.row for gap in source.breaks), source.n_samples]
    missing = np.cumsum([0, *(gap.n_samples for gap in source.breaks)])
    return [
        _Run(row, stop, row + int(before))
        for (row, stop), before in zip(itertools.pairwise(rows), missing, strict=True)
    ]
