"""Fills in samples that are missing or bad, or declares their rows a gap.

Each channel has runs of samples that are missing. A run of at most `n_fill` is filled; a row that has a
channel which cannot be filled leaves as part of a gap. What becomes of a row depends on the samples around
it alone, not on how they came.

===========  ====================================================  ====================================
policy       a missing sample becomes                              a longer run, in rows that are gaps
===========  ====================================================  ====================================
reset        a gap                                                 all of it
hold         the last good one of its channel                      what exceeds `n_fill`
nan          NaN, with its entire row                              what exceeds `n_fill`
interpolate  a straight line to the next good one: its row waits   all of it
===========  ====================================================  ====================================
"""

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.preparation.repair.detectors import Mask, State, count_streaks

POLICIES = ("reset", "hold", "interpolate", "nan")
BAD = "bad"  # reason of gaps that stand for samples that came

Samples = NDArray[Any]


@dataclass(slots=True)
class RepairCounts:
    """What became of the samples.

    A sample is here a row, of all channels, but in the last five. What came is what left or waits::

        samples_in + missing_in = samples_out + samples_lost + samples_discarded + samples that wait

    Parameters
    ----------
    samples_in, missing_in : int
        Came in chunks, and in gaps.
    samples_out : int
        Left in chunks.
    samples_filled : int
        Came in gaps and left in chunks.
    samples_repaired : int
        Came in chunks and left in chunks, with other values.
    samples_lost : int
        Came in gaps and left in gaps.
    samples_discarded : int
        Came in chunks and left in gaps of reason ``"bad"``.
    bad : int
        Values of single channels that are NaN or infinite.
    outliers : int
        Values of single channels that are further out than the threshold.
    steps : int
        How often a channel that stayed out was accepted.
    flat : int
        How often a channel went flat.
    failed : int
        How often a channel was bad for longer than can be filled.
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
    """Rows that came together; those of a gap have a reason."""

    n_rows: int
    model_version: int
    reason: str


@dataclass(slots=True)
class _FillPlan:
    """What becomes of the rows that are at hand."""

    filled: Samples
    channels: NDArray[np.int64]  # those that have samples missing, here or before
    run: NDArray[np.int64]  # (rows, those channels): number of samples missing up to here
    touched: Mask  # rows that have a sample missing
    lost: Mask  # rows that cannot be filled
    n_decided: int


class GapFiller:
    """Fills runs of missing samples of each channel.

    Parameters
    ----------
    policy : {"reset", "hold", "interpolate", "nan"}
    n_fill : int
        Longest run that is filled; 0 for "reset".
    n_channels : int
    dtype : dtype
    counts : RepairCounts
        Is counted in.
    """

    def __init__(
        self, policy: str, n_fill: int, n_channels: int, dtype: np.dtype[Any], counts: RepairCounts
    ) -> None:
        self.counts = counts
        self._policy = policy
        self._n_fill = n_fill
        self._start = 0  # index of the first row that waits
        self._x = np.empty((0, n_channels), dtype)  # what waits
        self._bad = np.empty((0, n_channels), bool)
        self._pieces: list[_RowBlock] = []
        self._model = 0
        self._run = np.zeros(n_channels, np.int64)  # missing samples up to what waits
        self._last = np.zeros(n_channels, dtype)  # good samples before what waits, where known
        self._known = np.zeros(n_channels, bool)
        self.is_calm = True

    @property
    def n_waiting(self) -> int:
        """Number of rows that wait for a good sample."""
        return len(self._x)

    def note_clean_chunk(self, chunk: Chunk) -> None:
        """Take note of a chunk that has nothing missing and comes while nothing is (`is_calm`)."""
        self._last = chunk.data[-1].copy()
        self._known[:] = True
        self._model = chunk.model_version
        self.counts.samples_in += len(chunk.data)
        self.counts.samples_out += len(chunk.data)

    def push(self, chunk: Chunk, bad: Mask | None) -> list[Chunk | Gap]:
        """Take samples in, and return what is decided.

        Parameters
        ----------
        chunk : Chunk
        bad : ndarray of shape (samples, channels), optional
            What to fill.
        """
        self._model = chunk.model_version
        self.counts.samples_in += len(chunk.data)
        return self._add(
            chunk.data, np.zeros(chunk.data.shape, bool) if bad is None else bad, chunk.start, ""
        )

    def push_gap(self, gap: Gap) -> list[Chunk | Gap]:
        """Take a gap in, and return what is decided."""
        self.counts.missing_in += gap.n_samples
        if not 0 < gap.n_samples <= self._n_fill:
            self.counts.samples_lost += gap.n_samples
            return [*self.flush(), gap]
        shape = gap.n_samples, len(self._run)
        return self._add(
            np.full(shape, np.nan, self._x.dtype), np.ones(shape, bool), gap.start, gap.reason or "lost"
        )

    def flush(self) -> list[Chunk | Gap]:
        """Wait no longer: what waits is a gap, and what comes next does not continue it."""
        n_rows = len(self._x)
        none, every = np.empty(0, np.int64), np.ones(n_rows, bool)
        plan = _FillPlan(self._x, none, none, every, every, n_rows)
        out = self._leave(plan)
        self._x, self._bad, self._pieces = self._x[:0], self._bad[:0], []
        self._run[:] = 0
        self._known[:] = False
        self.is_calm = True
        return out

    def _add(self, x: Samples, bad: Mask, start: int, reason: str) -> list[Chunk | Gap]:
        if len(self._x):
            self._x = np.concatenate((self._x, x))
            self._bad = np.concatenate((self._bad, bad))
        else:
            self._x, self._bad, self._start = x, bad, start
        self._pieces.append(_RowBlock(len(x), self._model, reason))
        plan = self._plan(self._x, self._bad)
        out = self._leave(plan)
        self._keep(plan)
        return out

    def _plan(self, x: Samples, bad: Mask) -> _FillPlan:
        n_rows = len(x)
        at = np.flatnonzero(bad.any(axis=0) | (self._run > 0))
        missing = bad[:, at]
        rows = np.arange(n_rows)[:, None]
        run = count_streaks(missing, ~missing, self._run[at])
        source = rows - run  # the last good sample; before the first row if negative
        orphan = (source < 0) & ~self._known[at]
        following = _find_next_good(missing)
        waits = self._policy == "interpolate"
        length = run + (following - rows - 1) if waits else run
        lost = missing & (length > self._n_fill)
        if self._policy != "nan":
            lost |= orphan
        undecided = missing & (following == n_rows) & waits
        is_lost = _any_channel(lost)
        touched = _any_channel(missing)
        is_open = _any_channel(undecided) & ~is_lost
        filled = self._filled(x, at, missing, source, following, run) if at.size else x
        n_decided = int(is_open.argmax()) if is_open.any() else n_rows
        return _FillPlan(filled, at, run, touched, is_lost, n_decided)

    def _filled(
        self,
        x: Samples,
        at: NDArray[np.int64],
        missing: Mask,
        source: NDArray[np.int64],
        following: NDArray[np.int64],
        run: NDArray[np.int64],
    ) -> Samples:
        """Return a copy in which what is missing is filled; what cannot be is of no use."""
        if self._n_fill == 0:
            return x
        filled, given = x.copy(), x[:, at]
        if self._policy == "nan":
            filled[_any_channel(missing)] = np.nan
            return filled
        before = np.where(
            source >= 0, np.take_along_axis(given, np.maximum(source, 0), axis=0), self._last[at]
        )
        if self._policy == "interpolate":
            after = np.take_along_axis(given, np.minimum(following, len(x) - 1), axis=0)
            share = run / (run + np.maximum(following - np.arange(len(x))[:, None], 1))
            with np.errstate(all="ignore"):  # there may be no good sample after or before
                before = (before * (1.0 - share) + after * share).astype(x.dtype)
        filled[:, at] = np.where(missing, before, given)
        return filled

    def _leave(self, plan: _FillPlan) -> list[Chunk | Gap]:
        """Return the rows that are decided, and count them."""
        segments: list[tuple[int, int, int, str]] = []  # first, last, model, reason of a gap
        stop = 0
        for piece in self._pieces:
            start, stop = stop, stop + piece.n_rows
            self._count(piece, plan, start, min(stop, plan.n_decided))
            for first, last in _find_runs(plan.lost, start, min(stop, plan.n_decided)):
                kind = (0, piece.reason or BAD) if plan.lost[first] else (piece.model_version, "")
                if segments and segments[-1][2:] == kind:
                    first = segments.pop()[0]
                segments.append((first, last, *kind))
        return [
            Gap(self._start + first, last - first, reason)
            if reason
            else Chunk(plan.filled[first:last], self._start + first, model)
            for first, last, model, reason in segments
        ]

    def _count(self, piece: _RowBlock, plan: _FillPlan, start: int, stop: int) -> None:
        n_rows = max(stop - start, 0)
        n_lost = int(plan.lost[start:stop].sum())
        self.counts.samples_out += n_rows - n_lost
        if piece.reason:
            self.counts.samples_lost += n_lost
            self.counts.samples_filled += n_rows - n_lost
        else:
            self.counts.samples_discarded += n_lost
            self.counts.samples_repaired += int((plan.touched & ~plan.lost)[start:stop].sum())

    def _keep(self, plan: _FillPlan) -> None:
        """Let go what was decided, and remember the last good samples."""
        n_gone = plan.n_decided
        if n_gone:
            self._run[:] = 0
            self._run[plan.channels] = plan.run[n_gone - 1]
            source = n_gone - 1 - self._run
            seen = np.flatnonzero(source >= 0)
            self._last[seen] = self._x[source[seen], seen]
            self._known[seen] = True
        self._start += n_gone
        self._x, self._bad = self._x[n_gone:].copy(), self._bad[n_gone:].copy()
        for piece in self._pieces:
            gone = min(n_gone, piece.n_rows)
            piece.n_rows -= gone
            n_gone -= gone
        self._pieces = [piece for piece in self._pieces if piece.n_rows]
        self.is_calm = not (len(self._x) or self._run.any())

    @property
    def state(self) -> State:
        """All that must be known to go on, as arrays that are not shared."""
        return {
            "waiting": self._x.copy(),
            "waiting_bad": self._bad.copy(),
            "waiting_rows": np.array([piece.n_rows for piece in self._pieces], np.int64),
            "waiting_models": np.array([piece.model_version for piece in self._pieces], np.int64),
            "waiting_reasons": np.array([piece.reason for piece in self._pieces], np.str_),
            "model": np.array(self._model),
            "run": self._run.copy(),
            "last": self._last.copy(),
            "known": self._known.copy(),
            "counts": np.array([getattr(self.counts, item.name) for item in fields(self.counts)], np.int64),
        }

    def restore(self, state: State, stop: int) -> None:
        """Go on from a state, after the sample before `stop`."""
        self._x, self._bad = state["waiting"].copy(), state["waiting_bad"].copy()
        self._start = stop - len(self._x)
        rows, models, reasons = (
            state[f"waiting_{name}"].tolist() for name in ("rows", "models", "reasons")
        )
        self._pieces = [_RowBlock(*values) for values in zip(rows, models, reasons, strict=True)]
        self._model = int(state["model"])
        self._run, self._last = state["run"].copy(), state["last"].copy()
        self._known = state["known"].copy()
        for item, value in zip(fields(self.counts), state["counts"].tolist(), strict=True):
            setattr(self.counts, item.name, value)
        self.is_calm = not (len(self._x) or self._run.any())


def _find_next_good(missing: Mask) -> NDArray[np.int64]:
    """Return for each sample the row of the next one that is not missing; the number of rows if none."""
    n_rows = len(missing)
    rows = np.where(missing, n_rows, np.arange(n_rows)[:, None])
    following: NDArray[np.int64] = np.minimum.accumulate(rows[::-1], axis=0)[::-1]
    return following


def _any_channel(flags: Mask) -> Mask:
    """Return in which rows a flag is set."""
    rows: Mask = np.logical_or.reduce(flags, axis=1)
    return rows


def _find_runs(flags: Mask, start: int, stop: int) -> list[tuple[int, int]]:
    """Return where flags of one value begin and end, between two rows."""
    if stop <= start:
        return []
    cuts = start + 1 + np.flatnonzero(np.diff(flags[start:stop]))
    edges = [start, *cuts.tolist(), stop]
    return list(pairwise(edges))
