"""Judge the channels of a cell, about a second of samples, by what the others predict."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.measures import measure_spread, remove_lines
from igbss_stream.preparation.bad_channels.predictor import (
    MOST_UNEXPLAINED,
    Array,
    ChannelPredictor,
    Mask,
)

_CELLS_TO_LEARN = 8  # before which no channel is unlike the others
_CELLS_TO_CONVICT = 2  # in a row, for a channel that is unlike the others ...
_FLAGRANT = 3.0  # ... unless it exceeds the limit this many times
_ACQUITTED = 0.5  # of the limit: the largest deviation of a channel that is good again
_TIMES_OTHERS = 4.0  # least deviation of a channel, as a multiple of the median of all
_MOST_AT_ONCE = 4  # of how many channels at most one can be bad: more are an event of all
_MOST_ROWS = 1024  # of a cell that are kept: enough, and the cost is bounded at any rate
_MOST_JUDGED = 256  # of these, evenly spaced, whose quartiles are compared


class Cell:
    """The samples of a cell, as they come.

    Parameters
    ----------
    n_samples, n_channels : int
    dtype : dtype
    largest : float
        Magnitude beyond which a value is not usable.

    Attributes
    ----------
    n_rows : int
        Number of samples so far.
    given, out : ndarray of shape (kept samples, channels)
        The last of the samples, as they came and as they were passed on.
    is_touched, is_replaced : ndarray of shape (channels,)
        Whether any, and all, of the samples of a channel were replaced.
    """

    def __init__(self, n_samples: int, n_channels: int, dtype: Any, largest: float) -> None:
        kept = min(n_samples, _MOST_ROWS)
        self.given, self.out = (np.zeros((kept, n_channels), dtype) for _ in range(2))
        self._skipped, self._largest = n_samples - kept, largest
        self.is_touched, self.is_replaced = np.zeros(n_channels, bool), np.ones(n_channels, bool)
        self.n_rows = 0

    def begin(self) -> None:
        """Begin anew, in the same memory."""
        self.is_touched[:], self.is_replaced[:], self.n_rows = False, True, 0

    def add(self, x: NDArray[Any], out: NDArray[Any], replaced: Mask | None) -> None:
        """Add samples that follow.

        Parameters
        ----------
        x, out : ndarray of shape (samples, channels)
        replaced : ndarray of shape (samples, channels), or None
            None if no sample was replaced.
        """
        start = self.n_rows - self._skipped
        self.n_rows += len(x)
        if start + len(x) > 0:
            first = max(-start, 0)
            self.given[start + first : start + len(x)] = x[first:]
            self.out[start + first : start + len(x)] = out[first:]
        if replaced is None:
            self.is_replaced[:] = False
        else:
            self.is_touched |= replaced.any(axis=0)
            self.is_replaced &= replaced.all(axis=0)

    def read_out(self, absent: Mask, most: int = _MOST_ROWS) -> Array:
        """Return at most `most` samples as passed on, evenly spaced; 0 for absent channels."""
        rows = self.out[:: -(-len(self.out) // most)].astype(np.float64)
        rows[:, absent] = 0.0
        return rows

    def find_absent(self) -> Mask:
        """Return which channels have samples that are not usable, and were not replaced."""
        with np.errstate(invalid="ignore"):
            return ~np.asarray((np.abs(self.out) <= self._largest).all(axis=0))

    def find_usable(self) -> Mask:
        """Return the channels of which all samples, as they came, are usable."""
        with np.errstate(invalid="ignore"):
            return np.asarray((np.abs(self.given) <= self._largest).all(axis=0))


@dataclass(frozen=True)
class Evidence:
    """A complete cell, and the state of the channels at its end.

    Parameters
    ----------
    cell : Cell
    bad, absent, stuck : ndarray of shape (channels,)
        Channels that are bad, that have unusable samples, and that were stuck.
    n_unlike : ndarray of shape (channels,)
        Number of cells in a row, before this one, in which a channel was unlike the others.
    """

    cell: Cell
    bad: Mask
    absent: Mask
    stuck: Mask
    n_unlike: NDArray[np.int_]


@dataclass(frozen=True)
class Verdict:
    """What a cell shows.

    Parameters
    ----------
    predictor : ChannelPredictor
        What is known of the channels afterwards.
    unlike : ndarray of shape (channels,)
        Channels that deviate.
    convicted : dict of int to float
        Those that become bad, with their deviation as a multiple of the usual one.
    good : ndarray of shape (channels,), or None
        Channels that are bad, and were good in this cell. None if no channel was examined.
    low, high : ndarray of shape (channels,), of the type of the samples, or None
        Extremes of the samples, if they are learned from.
    used : ndarray of shape (channels,)
        Channels that were used as they are.
    """

    predictor: ChannelPredictor
    unlike: Mask
    convicted: dict[int, float] = field(default_factory=dict)
    good: Mask | None = None
    low: NDArray[Any] | None = None
    high: NDArray[Any] | None = None
    used: Mask | None = None


class CellJudge:
    """Find channels that deviate from what the others predict, and those that do so no longer.

    Parameters
    ----------
    limit : float
        Largest deviation, as a multiple of the usual one.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit

    def judge(self, evidence: Evidence, predictor: ChannelPredictor) -> Verdict:
        """Return what a cell shows. Nothing is changed."""
        cell, bad = evidence.cell, evidence.bad | evidence.absent
        judged = cell.read_out(evidence.absent, _MOST_JUDGED)
        deviations = self._find_deviations(predictor, remove_lines(judged), ~bad)
        unlike = np.zeros(len(bad), bool)
        unlike[[*deviations]] = True
        convicted = {
            channel: ratio
            for channel, ratio in deviations.items()
            if ratio > _FLAGRANT * self._limit or evidence.n_unlike[channel] + 1 >= _CELLS_TO_CONVICT
        }
        pattern = evidence.bad.copy()
        pattern[[*convicted]] = True
        candidates = bad & ~evidence.stuck
        good = self._acquit(predictor, cell, candidates, pattern) if candidates.any() else None
        is_whole = not (cell.is_touched & ~bad).any() and cell.is_replaced[bad & ~evidence.absent].all()
        if deviations or not is_whole:
            return Verdict(predictor, unlike, convicted, good)
        if predictor.needs_cell:
            output = cell.read_out(evidence.absent)
            learned = predictor.learn(remove_lines(output), output.mean(axis=0), bad)
        else:
            learned = predictor.follow(judged.mean(axis=0))
        learned.prepare(pattern)
        low, high = cell.out.min(axis=0), cell.out.max(axis=0)
        return Verdict(learned, unlike, convicted, good, low, high, ~bad)

    def _find_deviations(self, predictor: ChannelPredictor, rows: Array, used: Mask) -> dict[int, float]:
        """Return the channels that deviate, with their deviation as a multiple of the usual one.

        They are in the order in which they were found, the worst first: it affects the prediction of the
        others, so they are judged without it. There are none if too many deviate.
        """
        left, found = np.flatnonzero(used & predictor.is_known), dict[int, float]()
        if predictor.n_cells < _CELLS_TO_LEARN:
            return found
        most = len(left) // _MOST_AT_ONCE
        while len(left) > 2:
            errors, usual, unexplained = predictor.compute_errors(rows, left)
            ratios = measure_spread(errors) / usual
            usual_of_all = float(np.median(ratios))
            ratios[unexplained > MOST_UNEXPLAINED] = 0.0
            worst = int(np.argmax(ratios))
            ratio = float(ratios[worst])
            if not (ratio > self._limit and ratio > _TIMES_OTHERS * usual_of_all):
                return found
            if len(found) >= most:
                return {}
            found[int(left[worst])] = ratio
            left = np.delete(left, worst)
        return found

    def _acquit(self, predictor: ChannelPredictor, cell: Cell, candidates: Mask, pattern: Mask) -> Mask:
        """Return the bad channels that are like what the others predict."""
        usable, good = cell.find_usable(), np.zeros(len(candidates), bool)
        left, others = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        given = np.where(usable, cell.given, 0).astype(cell.given.dtype)
        estimate = predictor.predict(given, pattern)
        for channel in np.flatnonzero(candidates & pattern & usable):
            errors = given[:, channel].astype(np.float64) - estimate[:, np.searchsorted(left, channel)]
            spread = float(measure_spread(remove_lines(errors[:, None]))[0])
            usual = predictor.compute_usual_error(int(channel), others)
            good[channel] = usual <= 0 or spread / usual < _ACQUITTED * self._limit
        return good
