"""Replace the samples of bad channels of a stream by what the other channels predict.

The stage comes before the repair, so a dead channel makes no gaps, does not enter a reference, and does not
ring in filters. It delays nothing: a channel is bad from the sample that shows it. The samples, events and
counts are the same to the bit for all chunk sizes of the input.

Samples that are not usable are replaced one by one. A channel is left out as a whole while it is

========  ===================================================================
missing   without a usable sample for longer than usual
flat      without a change for longer than usual
railed    the same, at its smallest or its largest value
unlike    further from what the others predict than usual, in cells of a second
========  ===================================================================
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.measures import remove_lines
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.preparation.bad_channels.cells import CellJudge
from igbss_stream.preparation.bad_channels.leaps import LeapDetector
from igbss_stream.preparation.bad_channels.predictor import Array, ChannelPredictor, Mask
from igbss_stream.preparation.bad_channels.settings import BadChannelSettings
from igbss_stream.preparation.bad_channels.stuck_runs import StuckRuns

_CELL = 1.0  # seconds
_FEWEST_ROWS = 32  # in a cell
_MOST_ROWS = 1024  # of a cell that are judged: enough, and the cost is bounded at any rate
_CELLS_TO_PREDICT = 3
_CELLS_TO_CONVICT = 2  # in a row, for a channel that is unlike the others ...
_FLAGRANT = 3.0  # ... unless it exceeds the limit this many times
_ACQUITTED = 0.5  # of the limit: the largest deviation of a channel that is good again
_MOST_UNEXPLAINED = 0.75  # for a flat channel to be bad: others may rest
_MOST_SPANS = 256
_MAX_EVENTS = 1024  # kept until they are read
_LARGEST = {4: 1e30, 8: 1e100}  # by the size of the dtype: the magnitude beyond which a value is not usable


@dataclass(frozen=True, slots=True, order=True)
class LeftOutEvent:
    """A channel becomes bad or good.

    Parameters
    ----------
    index : int
        First sample that is replaced, or first that is used again.
    channel : str
    kind : str
        ``"missing"``, ``"flat"``, ``"railed"``, ``"unlike"``, or ``"good"``.
    detail : str
        The number that shows it.
    """

    index: int
    channel: str
    kind: str
    detail: str = ""

    def __str__(self) -> str:
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.channel} is {self.kind} from sample {self.index}{detail}"


@dataclass(slots=True)
class BadChannelCounts:
    """Counts of bad channels.

    Parameters
    ----------
    left_out : int
        Number of times that a channel became bad.
    returned : int
        Number of times that a channel became good again.
    values : int
        Number of values that were replaced.
    """

    left_out: int = 0
    returned: int = 0
    values: int = 0


class BadChannelStage:
    """Replace the samples of bad channels by what the other channels predict.

    Parameters
    ----------
    stream : Stream
    settings : BadChannelSettings, optional

    Attributes
    ----------
    counts : BadChannelCounts
    spans : deque of (int, int or None)
        Start and stop of the latest runs of samples in which channels were replaced as a whole; the stop of
        the last one is None while channels are bad.
    """

    def __init__(self, stream: Stream, settings: BadChannelSettings | None = None) -> None:
        self.stream, self.settings = stream, settings or BadChannelSettings()
        self.counts = BadChannelCounts()
        self._is_on = self.settings.action != "off" and stream.n_channels > 2
        self._cell = max(_FEWEST_ROWS, round(_CELL * stream.rate))
        self._fade = round(self.settings.fade * stream.rate)
        self._recover = max(1, round(self.settings.recover * stream.rate / self._cell))
        self._largest = _LARGEST[stream.dtype.itemsize]
        self._fewest_good = max(2, (stream.n_channels + 1) // 2)
        self._events: deque[LeftOutEvent] = deque(maxlen=_MAX_EVENTS)
        self.spans: deque[tuple[int, int | None]] = deque(maxlen=_MOST_SPANS)
        self._begin()

    def _begin(self) -> None:
        n_channels = self.stream.n_channels
        n_flat = round(self.settings.flat * self.stream.rate)
        self._predictor = ChannelPredictor(n_channels)
        self._judge = CellJudge(self._predictor, self.settings.unlike)
        self._runs = StuckRuns(n_channels, n_flat, self._cell)
        self._leaps = LeapDetector(self._predictor, n_channels, self._runs.fewest // 2)
        self._bad: dict[int, str] = {}  # kind of each bad channel
        self._was_bad = np.zeros(n_channels, bool)  # at the start of this cell
        self._fading: dict[int, int] = {}  # index at which a channel became good again
        self._n_good_cells = np.zeros(n_channels, np.int64)  # in a row, of bad channels
        self._n_unlike_cells = np.zeros(n_channels, np.int64)  # in a row, of the others
        self._low, self._high = np.full(n_channels, np.inf), np.full(n_channels, -np.inf)
        self._rows: list[
            tuple[NDArray[Any], NDArray[Any], Mask]
        ] = []  # of this cell: given, output, replaced
        self._n_rows = 0

    @property
    def bad(self) -> tuple[str, ...]:
        """Names of the channels that are currently bad."""
        return tuple(self.stream.channels[i] for i in sorted(self._bad))

    def pop_events(self) -> list[LeftOutEvent]:
        """Return the events since the last call in the order of the index, at most the last 1024."""
        events = list(self._events)
        self._events.clear()
        return events

    def push(self, item: Chunk | Gap) -> Chunk | Gap:
        """Return the next chunk with bad channels replaced, or the same gap.

        Parameters
        ----------
        item : Chunk or Gap
            Its samples are not modified; a chunk without bad channels is returned itself.
        """
        if not self._is_on:
            return item
        if isinstance(item, Gap):
            if item.n_samples == 0:  # a restart: the channels may be others
                self._end_span(item.start)
                self._begin()
            self._runs.skip()
            self._leaps.skip()
            self._begin_cell()
            return item
        done = [self._process(*part) for part in self._split(item)]
        if self.settings.action == "report" or all(same for _, same in done):
            return item
        return replace(item, data=np.concatenate([data for data, _ in done]))

    def _split(self, chunk: Chunk) -> Iterator[tuple[NDArray[Any], int]]:
        """Split a chunk at the ends of cells, on a fixed grid of indices."""
        start = chunk.start
        while start < chunk.stop:
            stop = min(chunk.stop, (start // self._cell + 1) * self._cell)
            yield chunk.data[start - chunk.start : stop - chunk.start], start
            start = stop

    def _process(self, x: NDArray[Any], start: int) -> tuple[NDArray[Any], bool]:
        """Return the samples of a part of a cell, and whether they are unchanged."""
        with np.errstate(invalid="ignore"):
            usable = np.abs(x) <= self._largest
        usable &= ~self._find_leaps(x, usable)
        replaced = ~usable
        for channel in self._bad:
            replaced[:, channel] = True
        for row, channel, repeats in self._runs.update(x, usable):
            value = float(x[row, channel])
            is_stuck = repeats or bool(usable[row, channel])
            if channel not in self._bad and self._convict(channel, value, start + row, is_stuck):
                replaced[row:, channel] = True
        out = self._fill(x, replaced, start)
        self._rows.append((x.copy(), out, replaced))
        self._n_rows += len(x)
        stop = start + len(x)
        if stop % self._cell == 0:
            if self._n_rows == self._cell:
                self._finish_cell(stop)
            self._begin_cell()
        return out, out is x

    def _find_leaps(self, x: NDArray[Any], usable: Mask) -> Mask:
        """Return which usable samples are far from their prediction, (samples, channels)."""
        if usable.all() and not self._bad:  # nearly always
            return self._leaps.extend(self._leaps.find(x, self._was_bad))
        leaps = np.zeros(x.shape, bool)
        patterns, which = np.unique(self._was_bad | ~usable, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            if x.shape[1] - int(pattern.sum()) >= self._fewest_good:
                rows = np.flatnonzero(which.ravel() == number)
                leaps[rows] = self._leaps.find(np.where(pattern, 0, x[rows]).astype(x.dtype), pattern)
        return self._leaps.extend(leaps)

    def _convict(self, channel: int, value: float, index: int, is_stuck: bool) -> bool:
        """Leave out a channel after an unusual run; return whether it is bad."""
        duration = f"for {self._runs.limit[channel] / self.stream.rate:.3g} s"
        if not abs(value) <= self._largest:
            self._leave_out(channel, index, "missing", duration)
            return True
        low, high = float(self._low[channel]), float(self._high[channel])
        is_beyond = low <= high and not low < value < high
        kind = ("railed" if is_beyond else "flat") if is_stuck else "unlike"
        if is_stuck:
            others = np.array([i for i in range(len(self._low)) if i not in self._bad and i != channel])
            if self._predictor.compute_unexplained(channel, others) > _MOST_UNEXPLAINED:
                return False
        unit = f" {self.stream.unit}" if self.stream.unit else ""
        self._leave_out(channel, index, kind, f"{value:g}{unit} {duration}")
        return True

    def _leave_out(self, channel: int, index: int, kind: str, detail: str) -> None:
        if not self._bad and self.settings.action == "replace":
            self.spans.append((index, None))
        self._bad[channel] = kind
        self._fading.pop(channel, None)
        self._n_good_cells[channel] = self._n_unlike_cells[channel] = 0
        self.counts.left_out += 1
        self._events.append(LeftOutEvent(index, self.stream.channels[channel], kind, detail))

    def _fill(self, x: NDArray[Any], replaced: Mask, start: int) -> NDArray[Any]:
        """Return samples with replaced ones predicted, and channels that are good again faded in."""
        self._fading = {i: since for i, since in self._fading.items() if start < since + self._fade}
        if not (self._fading or replaced.any()):
            return x
        predicted = replaced.copy()
        for channel, since in self._fading.items():
            predicted[: since + self._fade - start, channel] = True
        needs = predicted.any(axis=1) & ((~replaced).sum(axis=1) >= self._fewest_good)
        if self._predictor.n_cells < _CELLS_TO_PREDICT or not needs.any():
            replaced[:] = False
            return x
        predicted[~needs] = False
        out, at = x.copy(), np.flatnonzero(needs)
        patterns, which = np.unique(predicted[at], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = at[which.ravel() == number]
            estimate = self._predictor.predict(x[rows], pattern)
            weight = self._compute_weights(
                replaced[rows][:, pattern], np.flatnonzero(pattern), start + rows
            )
            given = np.where(replaced[rows][:, pattern], 0, x[rows][:, pattern])
            out[np.ix_(rows, pattern)] = weight * given + (1 - weight) * estimate
        self.counts.values += int((replaced & needs[:, None]).sum())
        return out

    def _compute_weights(
        self, replaced: Mask, channels: NDArray[np.int_], index: NDArray[np.int_]
    ) -> Array:
        """Return the weights of the given samples in a cross-fade; 0 where they are replaced."""
        since = np.array([self._fading.get(int(i), 0) for i in channels])
        rising = (index[:, None] - since + 1.0) / (self._fade + 1.0)
        return np.where(replaced, 0.0, np.minimum(rising, 1.0))

    def _begin_cell(self) -> None:
        self._rows, self._n_rows = [], 0
        self._was_bad = self._mark_bad()

    def _mark_bad(self) -> Mask:
        bad = np.zeros(self.stream.n_channels, bool)
        bad[[*self._bad]] = True
        return bad

    def _finish_cell(self, stop: int) -> None:
        """Judge the channels of a cell, and learn from it."""
        given, out, replaced = (np.concatenate(parts) for parts in zip(*self._rows, strict=True))
        at = slice(len(out) - min(len(out), _MOST_ROWS), None)
        output = out[at].astype(np.float64)
        absent = ~np.isfinite(output).all(axis=0)
        output[:, absent] = 0.0
        was_bad = self._mark_bad() | absent
        untouched = ~replaced.any(axis=0)
        stuck = self._runs.was_stuck
        self._runs.finish_cell(untouched & ~was_bad)
        self._leaps.finish_cell(untouched & ~was_bad)
        if self.stream.n_channels - int(was_bad.sum()) < self._fewest_good:
            return
        rows = remove_lines(output)
        deviations = self._judge.find_deviations(rows, ~was_bad)
        is_whole = (untouched | was_bad).all() and replaced[:, was_bad & ~absent].all()
        self._convict_unlike(deviations, stop)
        self._acquit(given[at], was_bad & ~stuck, stop)
        if is_whole and not deviations:
            self._predictor.learn(rows, output.mean(axis=0), was_bad)
            self._extend_range(output, ~was_bad)

    def _convict_unlike(self, deviations: dict[int, float], stop: int) -> None:
        unlike = np.zeros(self.stream.n_channels, bool)
        unlike[[*deviations]] = True
        self._n_unlike_cells = np.where(unlike, self._n_unlike_cells + 1, 0)
        for channel, ratio in deviations.items():
            is_flagrant = ratio > _FLAGRANT * self.settings.unlike
            if is_flagrant or self._n_unlike_cells[channel] >= _CELLS_TO_CONVICT:
                detail = f"{ratio:.3g} times as far as usual from what the others predict"
                self._leave_out(channel, stop, "unlike", detail)

    def _acquit(self, given: NDArray[Any], candidates: Mask, stop: int) -> None:
        """Count good cells of bad channels, and use those again that have enough of them."""
        if not candidates.any():
            self._n_good_cells[:] = 0
            return
        pattern = self._mark_bad()
        usable = (np.abs(given) <= self._largest).all(axis=0)
        good = np.zeros(given.shape[1], bool)
        left, others = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        estimate = self._predictor.predict(np.where(usable, given, 0).astype(given.dtype), pattern)
        for channel in np.flatnonzero(candidates & usable):
            errors = given[:, channel].astype(np.float64) - estimate[:, np.searchsorted(left, channel)]
            errors = remove_lines(errors[:, None])[:, 0]
            ratio = self._judge.measure_deviation(errors, int(channel), others)
            good[channel] = ratio < _ACQUITTED * self.settings.unlike
        self._n_good_cells = np.where(good, self._n_good_cells + 1, 0)
        for returning in [i for i in self._bad if self._n_good_cells[i] >= self._recover]:
            del self._bad[returning]
            self._fading[returning] = stop
            self.counts.returned += 1
            self._events.append(LeftOutEvent(stop, self.stream.channels[returning], "good"))

        if not self._bad:
            self._end_span(stop + self._fade)

    def _end_span(self, stop: int) -> None:
        if self.spans and self.spans[-1][1] is None:
            self.spans[-1] = self.spans[-1][0], stop

    def _extend_range(self, rows: Array, used: Mask) -> None:
        self._low[used] = np.minimum(self._low, rows.min(axis=0))[used]
        self._high[used] = np.maximum(self._high, rows.max(axis=0))[used]
