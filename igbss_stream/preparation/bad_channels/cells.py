"""Judge the channels of a cell, about a second of samples, by what the others predict."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.measures import bound_spread, measure_spread, remove_lines
from igbss_stream.chunk import Chunk
from igbss_stream.model.kernels import samples
from igbss_stream.preparation.bad_channels.predictor import (
    MOST_UNEXPLAINED,
    Array,
    ChannelPredictor,
    Mask,
    pick_rows,
)

_CELLS_TO_LEARN = 8  # before which no channel is unlike the others
_CELLS_TO_CONVICT = 2  # in a row, for a channel that is unlike the others ...
_FLAGRANT = 3.0  # ... unless it exceeds the limit this many times
_ACQUITTED = 0.5  # of the limit: the largest deviation of a channel that is good again
_TIMES_OTHERS = 4.0  # least deviation of a channel, as a multiple of the median of all
_ROUNDING = 1.01  # of a bound that was computed in single precision
_MOST_AT_ONCE = 4  # of how many channels at most one can be bad: more are an event of all
_MOST_ROWS = 1024  # of a cell that are kept: enough, and the cost is bounded at any rate


def split_chunk(chunk: Chunk, cell: int, lag: int) -> list[tuple[int, NDArray[Any]]]:
    """Return start and samples of the parts of a chunk, split where cells end and verdicts take effect.

    Parameters
    ----------
    chunk : Chunk
    cell, lag : int
        Length of a cell, and of its part before the verdict on the previous one takes effect.
    """
    start, stop = chunk.start, chunk.stop
    since = start % cell
    if start < stop <= start - since + (lag if since < lag else cell):  # nearly always
        return [(start, np.ascontiguousarray(chunk.data))]
    parts = []
    while start < chunk.stop:
        since = start % cell
        stop = min(chunk.stop, start - since + (lag if since < lag else cell))
        parts.append((start, np.ascontiguousarray(chunk.data[start - chunk.start : stop - chunk.start])))
        start = stop
    return parts


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
    is_calm : bool
        Whether all samples are usable, and none was replaced.
    is_touched, is_replaced : ndarray of shape (channels,)
        Whether any, and all, of the samples of a channel were replaced.
    """

    def __init__(self, n_samples: int, n_channels: int, dtype: Any, largest: float) -> None:
        kept = min(n_samples, _MOST_ROWS)
        self.given, self._changed = (np.zeros((kept, n_channels), dtype) for _ in range(2))
        self.out = self.given
        self._skipped, self._largest = n_samples - kept, largest
        self.is_touched, self.is_replaced = np.zeros(n_channels, bool), np.ones(n_channels, bool)
        self.n_rows, self.is_calm = 0, True

    def begin(self) -> None:
        """Begin anew, in the same memory."""
        if not self.is_calm:
            self.is_touched[:] = False
        self.is_replaced[:], self.n_rows = True, 0
        self.out, self.is_calm = self.given, True

    def add(self, x: NDArray[Any], out: NDArray[Any], replaced: Mask | None) -> None:
        """Add samples that follow.

        Parameters
        ----------
        x, out : ndarray of shape (samples, channels)
            The same array if nothing was replaced.
        replaced : ndarray of shape (samples, channels), or None
            None if all samples are usable, and none was replaced.
        """
        n_samples, start = len(x), self.n_rows - self._skipped
        if out is not x and self.out is self.given:
            self._changed[: max(start, 0)] = self.given[: max(start, 0)]
            self.out = self._changed
        if start >= 0:
            self.given[start : start + n_samples] = x
        elif start + n_samples > 0:
            self.given[: start + n_samples] = x[-start:]
        if self.out is not self.given and start + n_samples > 0:
            first = max(-start, 0)
            self.out[start + first : start + n_samples] = out[first:]
        if replaced is not None:
            self.is_calm = False
            self.is_touched |= replaced.any(axis=0)
            self.is_replaced &= replaced.all(axis=0)
        else:
            self.is_replaced[:] = False
        self.n_rows += n_samples

    def read_out(self, absent: Mask) -> NDArray[Any]:
        """Return the samples as passed on; 0 for absent channels."""
        return np.where(absent, 0, self.out).astype(self.out.dtype) if absent.any() else self.out

    def summarize(self, absent: Mask) -> tuple[NDArray[Any], NDArray[Any], Array]:
        """Return minimum, maximum and mean of samples as passed on; of absent channels the mean is 0."""
        x, total = self.out.take(pick_rows(len(self.out)), axis=0), np.zeros(len(absent))
        low, high = x[0].copy(), x[0].copy()
        samples.survey(x, low, high, total)
        total /= len(x)
        total[absent] = 0.0
        return low, high, total

    def find_absent(self) -> Mask:
        """Return which channels have samples that are not usable, and were not replaced."""
        if self.is_calm:
            return np.zeros(self.out.shape[1], bool)
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
    predictor : ChannelPredictor
        What was known of the channels when the cell began.
    power : float or None
        Largest sum of the squares of the deviations of a channel from what the others predict, of those
        that the others explain. None if it is not known.
    is_calm : bool
        Whether no channel is bad, all samples are usable, and none was replaced.
    """

    cell: Cell
    bad: Mask
    absent: Mask
    stuck: Mask
    n_unlike: NDArray[np.int_]
    predictor: ChannelPredictor
    power: float | None
    is_calm: bool = False


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
        """Return what a cell shows. Nothing is changed.

        Parameters
        ----------
        evidence : Evidence
        predictor : ChannelPredictor
            What is known of the channels now, and is to be known better.
        """
        is_alike = self._must_be_alike(evidence)
        if is_alike and evidence.is_calm:  # nearly always
            return self._learn(evidence, predictor, evidence.bad, Verdict(predictor, evidence.bad))
        cell, bad = evidence.cell, evidence.bad | evidence.absent
        deviations = {} if is_alike else self._find_deviations(evidence, ~bad)
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
        verdict = Verdict(predictor, unlike, convicted, good)
        return verdict if deviations or not is_whole else self._learn(evidence, predictor, pattern, verdict)

    def _learn(
        self, evidence: Evidence, predictor: ChannelPredictor, pattern: Mask, verdict: Verdict
    ) -> Verdict:
        """Return a verdict with what is known after the cell, prepared for channels that are missing."""
        cell, absent, bad = evidence.cell, evidence.absent, evidence.bad | evidence.absent
        low, high, mean = cell.summarize(absent)
        if predictor.needs_cell:
            learned = predictor.learn(cell.read_out(absent), mean, bad)
        else:
            learned = predictor.follow(mean)
        learned.prepare(pattern)
        return Verdict(learned, verdict.unlike, verdict.convicted, verdict.good, low, high, ~bad)

    def _must_be_alike(self, evidence: Evidence) -> bool:
        """Return whether the size of the deviations shows that none can exceed the limit."""
        if evidence.power is None or evidence.predictor.n_cells < _CELLS_TO_LEARN:
            return False
        bound = bound_spread(evidence.power, len(pick_rows(len(evidence.cell.out))))
        return bool(_ROUNDING * bound < self._limit)

    def _find_deviations(self, evidence: Evidence, used: Mask) -> dict[int, float]:
        """Return the channels that deviate, with their deviation as a multiple of the usual one.

        They are in the order in which they were found, the worst first: it affects the prediction of the
        others, so they are judged without it. There are none if too many deviate.
        """
        predictor, found = evidence.predictor, dict[int, float]()
        if predictor.n_cells < _CELLS_TO_LEARN:
            return found
        rows = evidence.cell.read_out(evidence.absent)
        rows = remove_lines(rows[pick_rows(len(rows))].astype(np.float64))
        left = np.flatnonzero(used & predictor.is_known)
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
