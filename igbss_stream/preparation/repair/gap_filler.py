"""Fill missing or bad samples, or declare their rows a gap.

Each channel has streaks of missing samples. A streak of up to `n_fill` samples is filled; a row with a
channel that cannot be filled becomes part of a gap. The output of a row depends only on the samples around
it, not on the chunks.

===========  ======================================================  ================================
policy       a missing sample becomes                                rows of a longer streak in a gap
===========  ======================================================  ================================
reset        a gap                                                   all
hold         the last good sample of its channel                     those beyond `n_fill`
nan          NaN, with its entire row                                those beyond `n_fill`
interpolate  a straight line to the next good sample; its row waits  all
===========  ======================================================  ================================
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.chunk import Chunk, Gap
from igbss_stream.preparation.repair.detectors import Mask, State, count_streaks

POLICIES = ("reset", "hold", "interpolate", "nan")
BAD = "bad"  # reason of gaps that replace received samples

Samples = NDArray[Any]


@dataclass(slots=True)
class RepairCounts:
    """Counts of samples.

    A sample is a row of all channels, except in the last five counts. All input is output or waits::

        samples_in + missing_in = samples_out + samples_lost + samples_discarded + waiting samples

    Parameters
    ----------
    samples_in, missing_in : int
        Received in chunks, and in gaps.
    samples_out : int
        Output in chunks.
    samples_filled : int
        Received in gaps, output in chunks.
    samples_repaired : int
        Received in chunks, output in chunks with other values.
    samples_lost : int
        Received in gaps, output in gaps.
    samples_discarded : int
        Received in chunks, output in gaps with the reason ``"bad"``.
    bad : int
        Values of single channels that are NaN or infinite.
    outliers : int
        Values of single channels beyond the threshold.
    steps : int
        Number of accepted steps of channels.
    flat : int
        Number of times that a channel became flat.
    failed : int
        Number of times that a channel was bad for too long to be filled.
    """

    samples_in: int = 0
    missing_in: int = 0
    samples_out: int = 0
    samples_filled: int = 0
    samples_repaired: int = 0
    samples_lost: int = 0
    samples_discarded: int = 0
    bad: int = 0
    outliers: int = 0
    steps: int = 0
    flat: int = 0
    failed: int = 0


@dataclass(slots=True)
class _RowBlock:
    """Rows of one chunk or gap; those of a gap have a reason."""

    n_rows: int
    model_version: int
    reason: str


@dataclass(slots=True)
class _FillPlan:
    """How to output the available rows."""

    filled: Samples
    channels: NDArray[np.int64]  # those with missing samples, here or just before
    streak: NDArray[np.int64]  # (rows, these channels): number of consecutive missing samples
    touched: Mask  # rows with a missing sample
    lost: Mask  # rows that cannot be filled
    n_decided: int


class GapFiller:
    """Fill streaks of missing samples of each channel.

    Parameters
    ----------
    policy : {"reset", "hold", "interpolate", "nan"}
    n_fill : int
        Longest streak that is filled; 0 for "reset".
    n_channels : int
    dtype : dtype
    counts : RepairCounts
        Updated by the filler.
    """

    def __init__(
        self, policy: str, n_fill: int, n_channels: int, dtype: np.dtype[Any], counts: RepairCounts
    ) -> None:
        self.counts = counts
        self._policy = policy
        self._n_fill = n_fill
        self._start = 0  # index of the first waiting row
        self._x = np.empty((0, n_channels), dtype)  # waiting rows
        self._bad = np.empty((0, n_channels), bool)
        self._blocks: list[_RowBlock] = []
        self._model_version = 0
        self._streak = np.zeros(n_channels, np.int64)  # missing samples before the waiting rows
        self._last = np.zeros(n_channels, dtype)  # last good samples before the waiting rows, where known
        self._known = np.zeros(n_channels, bool)
        self.is_calm = True

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for a good sample."""
        return len(self._x)

    def note_clean_chunk(self, chunk: Chunk) -> None:
        """Note a chunk without missing samples while no sample is missing (`is_calm`)."""
        self._last = chunk.data[-1].copy()
        self._known[:] = True
        self._model_version = chunk.model_version
        self.counts.samples_in += len(chunk.data)
        self.counts.samples_out += len(chunk.data)

    def push(self, chunk: Chunk, bad: Mask | None) -> list[Chunk | Gap]:
        """Add samples, and return the items that are decided.

        Parameters
        ----------
        chunk : Chunk
        bad : ndarray of shape (samples, channels), optional
            Samples to fill.
        """
        self._model_version = chunk.model_version
        self.counts.samples_in += len(chunk.data)
        return self._add(
            chunk.data, np.zeros(chunk.data.shape, bool) if bad is None else bad, chunk.start, ""
        )

    def push_gap(self, gap: Gap) -> list[Chunk | Gap]:
        """Add a gap, and return the items that are decided."""
        self.counts.missing_in += gap.n_samples
        if not 0 < gap.n_samples <= self._n_fill:
            self.counts.samples_lost += gap.n_samples
            return [*self.flush(), gap]
        shape = gap.n_samples, len(self._streak)
        return self._add(
            np.full(shape, np.nan, self._x.dtype), np.ones(shape, bool), gap.start, gap.reason or "lost"
        )

    def flush(self) -> list[Chunk | Gap]:
        """Return the waiting rows as gaps; later samples do not continue them."""
        n_rows = len(self._x)
        none, every = np.empty(0, np.int64), np.ones(n_rows, bool)
        plan = _FillPlan(self._x, none, none, every, every, n_rows)
        out = self._emit(plan)
        self._x, self._bad, self._blocks = self._x[:0], self._bad[:0], []
        self._streak[:] = 0
        self._known[:] = False
        self.is_calm = True
        return out

    def _add(self, x: Samples, bad: Mask, start: int, reason: str) -> list[Chunk | Gap]:
        if len(self._x):
            self._x = np.concatenate((self._x, x))
            self._bad = np.concatenate((self._bad, bad))
        else:
            self._x, self._bad, self._start = x, bad, start
        self._blocks.append(_RowBlock(len(x), self._model_version, reason))
        plan = self._plan(self._x, self._bad)
        out = self._emit(plan)
        self._forget(plan)
        return out

    def _plan(self, x: Samples, bad: Mask) -> _FillPlan:
        n_rows = len(x)
        at = np.flatnonzero(bad.any(axis=0) | (self._streak > 0))
        missing = bad[:, at]
        rows = np.arange(n_rows)[:, None]
        streak = count_streaks(missing, ~missing, self._streak[at])
        source = rows - streak  # row of the last good sample; before the first row if negative
        orphan = (source < 0) & ~self._known[at]
        next_good = _find_next_good(missing)
        waits = self._policy == "interpolate"
        length = streak + (next_good - rows - 1) if waits else streak
        lost = missing & (length > self._n_fill)
        if self._policy != "nan":
            lost |= orphan
        undecided = missing & (next_good == n_rows) & waits
        is_lost = _flag_rows(lost)
        touched = _flag_rows(missing)
        is_open = _flag_rows(undecided) & ~is_lost
        filled = self._fill(x, at, missing, source, next_good, streak) if at.size else x
        n_decided = int(is_open.argmax()) if is_open.any() else n_rows
        return _FillPlan(filled, at, streak, touched, is_lost, n_decided)

    def _fill(
        self,
        x: Samples,
        at: NDArray[np.int64],
        missing: Mask,
        source: NDArray[np.int64],
        next_good: NDArray[np.int64],
        streak: NDArray[np.int64],
    ) -> Samples:
        """Return a copy with missing samples filled; those that cannot be filled are arbitrary."""
        if self._n_fill == 0:
            return x
        filled, given = x.copy(), x[:, at]
        if self._policy == "nan":
            filled[_flag_rows(missing)] = np.nan
            return filled
        before = np.where(
            source >= 0, np.take_along_axis(given, np.maximum(source, 0), axis=0), self._last[at]
        )
        if self._policy == "interpolate":
            after = np.take_along_axis(given, np.minimum(next_good, len(x) - 1), axis=0)
            weight = streak / (streak + np.maximum(next_good - np.arange(len(x))[:, None], 1))
            with np.errstate(all="ignore"):  # there may be no good sample before or after
                before = (before * (1.0 - weight) + after * weight).astype(x.dtype)
        filled[:, at] = np.where(missing, before, given)
        return filled

    def _emit(self, plan: _FillPlan) -> list[Chunk | Gap]:
        """Return the decided rows as chunks and gaps, and count them."""
        segments: list[tuple[int, int, int, str]] = []  # first, stop, model version, reason of a gap
        stop = 0
        for block in self._blocks:
            start, stop = stop, stop + block.n_rows
            self._count(block, plan, start, min(stop, plan.n_decided))
            for first, last in _find_runs(plan.lost, start, min(stop, plan.n_decided)):
                kind = (0, block.reason or BAD) if plan.lost[first] else (block.model_version, "")
                if segments and segments[-1][2:] == kind:
                    first = segments.pop()[0]
                segments.append((first, last, *kind))
        return [
            Gap(self._start + first, last - first, reason)
            if reason
            else Chunk(plan.filled[first:last], self._start + first, model)
            for first, last, model, reason in segments
        ]

    def _count(self, block: _RowBlock, plan: _FillPlan, start: int, stop: int) -> None:
        n_rows = max(stop - start, 0)
        n_lost = int(plan.lost[start:stop].sum())
        self.counts.samples_out += n_rows - n_lost
        if block.reason:
            self.counts.samples_lost += n_lost
            self.counts.samples_filled += n_rows - n_lost
        else:
            self.counts.samples_discarded += n_lost
            self.counts.samples_repaired += int((plan.touched & ~plan.lost)[start:stop].sum())

    def _forget(self, plan: _FillPlan) -> None:
        """Drop the decided rows, and remember the last good samples."""
        n_dropped = plan.n_decided
        if n_dropped:
            self._streak[:] = 0
            self._streak[plan.channels] = plan.streak[n_dropped - 1]
            source = n_dropped - 1 - self._streak
            found = np.flatnonzero(source >= 0)
            self._last[found] = self._x[source[found], found]
            self._known[found] = True
        self._start += n_dropped
        self._x, self._bad = self._x[n_dropped:].copy(), self._bad[n_dropped:].copy()
        for block in self._blocks:
            n_rows = min(n_dropped, block.n_rows)
            block.n_rows -= n_rows
            n_dropped -= n_rows
        self._blocks = [block for block in self._blocks if block.n_rows]
        self.is_calm = not (len(self._x) or self._streak.any())

    @property
    def state(self) -> State:
        """Copies of all arrays that the filler needs to continue."""
        return {
            "waiting": self._x.copy(),
            "waiting_bad": self._bad.copy(),
            "waiting_rows": np.array([block.n_rows for block in self._blocks], np.int64),
            "waiting_models": np.array([block.model_version for block in self._blocks], np.int64),
            "waiting_reasons": np.array([block.reason for block in self._blocks], np.str_),
            "model": np.array(self._model_version),
            "run": self._streak.copy(),
            "last": self._last.copy(),
            "known": self._known.copy(),
            "counts": np.array([getattr(self.counts, item.name) for item in fields(self.counts)], np.int64),
        }

    def restore(self, state: State, stop: int) -> None:
        """Continue from a state, at the index `stop`."""
        self._x, self._bad = state["waiting"].copy(), state["waiting_bad"].copy()
        self._start = stop - len(self._x)
        rows, models, reasons = (
            state[f"waiting_{name}"].tolist() for name in ("rows", "models", "reasons")
        )
        self._blocks = [_RowBlock(*values) for values in zip(rows, models, reasons, strict=True)]
        self._model_version = int(state["model"])
        self._streak, self._last = state["run"].copy(), state["last"].copy()
        self._known = state["known"].copy()
        for item, value in zip(fields(self.counts), state["counts"].tolist(), strict=True):
            setattr(self.counts, item.name, value)
        self.is_calm = not (len(self._x) or self._streak.any())


def _find_next_good(missing: Mask) -> NDArray[np.int64]:
    """Return the row of the next good sample for each sample, or the number of rows if there is none."""
    n_rows = len(missing)
    rows = np.where(missing, n_rows, np.arange(n_rows)[:, None])
    next_good: NDArray[np.int64] = np.minimum.accumulate(rows[::-1], axis=0)[::-1]
    return next_good


def _flag_rows(flags: Mask) -> Mask:
    """Return the rows in which any flag is set."""
    rows: Mask = np.logical_or.reduce(flags, axis=1)
    return rows


def _find_runs(flags: Mask, start: int, stop: int) -> list[tuple[int, int]]:
    """Return start and stop of the runs of equal flags in a range of rows."""
    if stop <= start:
        return []
    return [(first, last) for first, last in (start + split_runs(flags[start:stop])).tolist()]
