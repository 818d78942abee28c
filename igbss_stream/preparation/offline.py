"""Prepare a recording with zero-phase filters; the result is read like any recording."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import merge_rows
from igbss_stream.files.gaps import Run, make_gaps, split_at_gaps
from igbss_stream.files.recording import Facts, Fill, Recording
from igbss_stream.preparation.filters import compute_settling_time, design_filters
from igbss_stream.preparation.referencing import Reference
from igbss_stream.preparation.resampling import PolyphaseFilter, Resampler, get_polyphase_filter
from igbss_stream.preparation.row_buffer import Array
from igbss_stream.preparation.settings import Preparation
from igbss_stream.preparation.zero_phase import ZeroPhaseFilter
from igbss_stream.separation.statistics import Survey

LOOK_AHEAD_BYTES = 1 << 27  # largest memory for the settling time of the filters
_BLOCK_BYTES = 1 << 20  # read at a time


class PreparedRecording(Recording):
    """A recording whose samples are re-referenced, filtered with zero phase and resampled when read.

    Parameters
    ----------
    source : Recording
        Must not be read elsewhere at the same time.
    preparation : Preparation
    excluded : sequence of int
        Channels of the source to exclude, also from the reference.
    remedy : str
        How the caller can drop flat channels, for the error message.

    Raises
    ------
    ParameterError
        If the preparation does not match the recording.
    InputError
        If no sample is left at the new sampling rate.

    Notes
    -----
    Reading raises an `InputError` if samples of the source are not finite or one of its channels is flat;
    filters and a new reference would hide both. A range of rows can only be read if re-referencing is the
    only step; these rows are not checked.
    """

    def __init__(
        self,
        source: Recording,
        preparation: Preparation,
        excluded: Sequence[int] = (),
        *,
        remedy: str = "",
    ) -> None:
        self._source, self._remedy = source, remedy
        self._reference = Reference(preparation.reference, source.channels, excluded)
        self._checked_channels = np.setdiff1d(np.arange(source.n_channels), excluded)
        channels = self._reference.kept_channels
        rate = source.rate
        if rate is None and (preparation.has_filters or preparation.resample is not None):
            raise ParameterError(
                "the recording has no sampling rate, which filters and resampling need; pass --rate."
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
            self._look_ahead = compute_settling_time(self._sos, LOOK_AHEAD_BYTES // (8 * len(channels)))
        self._runs = split_at_gaps(source.gaps, source.n_samples)
        gaps, n_samples = self._compute_gaps()
        if n_samples < 1:
            raise InputError(
                f"at {rate:g} Hz none of {source.n_samples} samples is left; choose a higher resample."
            )
        facts = Facts(
            layout=source.layout,
            why=source.why,
            dataset=source.dataset,
            rate=rate,
            unit=source.unit,
            channels=tuple(source.channels[i] for i in channels),
            types=tuple(source.types[i] for i in channels) if source.types else (),
            bad=source.bad,
            bad_rows=merge_rows(map(self._to_new_rows, source.bad_rows), n_samples),
            gaps=gaps,
            notes=source.notes,
            events=self._find_events if source.has_events_in_samples else self._find_events(),
            t0=source.t0,
            positions=None if source.positions is None else source.positions.pick(channels),
        )
        super().__init__(source.path, facts, n_samples, source.dtype)

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def _read_blocks(self, n: int, start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        if (start, stop) == (0, self.n_samples):
            yield from super()._read_blocks(n, start, stop)
            return
        if len(self._sos) or self._fir is not None:
            raise RuntimeError("filters and resampling need the recording from its start")
        for row, block in self._source.read_blocks(n, start, stop):
            yield row, self._reference.apply(block).astype(self.dtype, copy=False)

    def _make_filler(self, n: int) -> Fill:
        blocks = self._prepare()
        rest = np.empty((0, self.n_channels))

        def fill(start: int, out: NDArray[Any]) -> None:
            nonlocal rest
            done = 0
            while done < len(out):
                if not len(rest):
                    rest = next(blocks)
                    continue
                n_rows = min(len(rest), len(out) - done)
                out[done : done + n_rows] = rest[:n_rows]
                rest, done = rest[n_rows:], done + n_rows

        return fill

    def _find_events(self) -> Events:
        """Return the events of the source. The filters have zero phase; only resampling moves an index."""
        events = self._source.events
        return events if self._fir is None else events.move(events.index * (self._fir.up / self._fir.down))

    def _to_new_index(self, index: int) -> int:
        """Return the index of the first new sample at or after an old one."""
        return index if self._fir is None else self._fir.find_first_index(index)

    def _compute_gaps(self) -> tuple[tuple[Gap, ...], int]:
        """Return the gaps of the prepared recording, and its number of samples."""
        places, row = [], 0
        pairs = itertools.pairwise(self._runs)
        for (run, after), gap in zip(pairs, self._source.gaps, strict=True):
            stop = self._to_new_index(run.index + run.stop - run.start)
            row += stop - self._to_new_index(run.index)
            places.append((row, self._to_new_index(after.index) - stop, gap.reason))
        return make_gaps(places), self._to_new_row(self._source.n_samples)

    def _to_new_rows(self, rows: tuple[int, int]) -> tuple[int, int]:
        """Return the new rows that lie within old ones."""
        start, stop = map(self._to_new_row, rows)
        return start, stop

    def _to_new_row(self, row: int) -> int:
        """Return the number of new rows before an old one."""
        count = 0
        for run in self._runs:
            length = max(0, min(row, run.stop) - run.start)
            count += self._to_new_index(run.index + length) - self._to_new_index(run.index)
        return count

    def _prepare(self) -> Iterator[Array]:
        """Yield all prepared samples in blocks, which may be empty."""
        runs = iter(self._runs)
        run = next(runs)
        chain = self._make_chain(run)
        for start, block in self._read_checked():
            at = start
            while at < start + len(block):
                while at == run.stop:
                    yield from chain.finish()
                    run = next(runs)
                    chain = self._make_chain(run)
                stop = min(run.stop, start + len(block))
                yield from chain.push(self._reference.apply(block[at - start : stop - start]))
                at = stop
        yield from chain.finish()

    def _make_chain(self, run: Run) -> "_RunChain":
        zero_phase = (
            ZeroPhaseFilter(self._sos, self._look_ahead, self.n_channels) if len(self._sos) else None
        )
        resampler = None if self._fir is None else Resampler(self._fir, run.index, self.n_channels)
        return _RunChain(zero_phase, resampler)

    def _read_checked(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the blocks of the source; check all of them before yielding the last one."""
        source = self._source
        names = [source.channels[i] for i in self._checked_channels]
        survey = Survey(names, source.dtype, source.n_samples)
        length = max(1, _BLOCK_BYTES // (source.n_channels * source.dtype.itemsize))
        for start, block in source.read_blocks(length):
            survey.update(np.ascontiguousarray(block[:, self._checked_channels]))
            if start + len(block) == source.n_samples:
                survey.check(remedy=self._remedy)
            if not survey.n_bad:  # otherwise only count bad samples, for the message
                yield start, block


class _RunChain:
    """Zero-phase filter and resampler of one run."""

    def __init__(self, zero_phase: ZeroPhaseFilter | None, resampler: Resampler | None) -> None:
        self._zero_phase, self._resampler = zero_phase, resampler

    def push(self, x: Array) -> Iterator[Array]:
        blocks = iter([x]) if self._zero_phase is None else self._zero_phase.push(x)
        yield from blocks if self._resampler is None else map(self._resampler.push, blocks)

    def finish(self) -> Iterator[Array]:
        rest = iter(()) if self._zero_phase is None else self._zero_phase.finish()
        yield from rest if self._resampler is None else map(self._resampler.push, rest)
        if self._resampler is not None:
            yield self._resampler.finish()
