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

A cell is judged after its end, and the verdict takes effect a quarter of a cell later, at a fixed index. In
between, `settle` computes it while no sample waits; if it was not called, `push` does.
"""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.memory import COLUMNS, ChannelMemory
from igbss_stream.bad_channels.splines import SphericalSplines
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.model.kernels import channels
from igbss_stream.preparation.bad_channels.cells import Cell, CellJudge, Evidence, Verdict, split_chunk
from igbss_stream.preparation.bad_channels.events import FAULTS, BadChannelCounts, LeftOutEvent
from igbss_stream.preparation.bad_channels.fades import Fades
from igbss_stream.preparation.bad_channels.leaps import LeapDetector
from igbss_stream.preparation.bad_channels.predictor import FEWEST_CELLS, ChannelPredictor, Mask
from igbss_stream.preparation.bad_channels.recent import RecentSamples, group_rows
from igbss_stream.preparation.bad_channels.settings import BadChannelSettings
from igbss_stream.preparation.bad_channels.stuck_runs import StuckRuns

_CELL = 1.0  # seconds
_FEWEST_ROWS = 32  # in a cell
_SHARE_TO_JUDGE = 4  # of a cell: the time until its verdict takes effect
_CELLS_TO_PREDICT = 3
_MOST_UNEXPLAINED = 0.75  # for a flat channel to be bad: others may rest
_MOST_SPANS = 256
_MAX_EVENTS = 1024  # kept until they are read
_LARGEST = {4: 1e30, 8: 1e100}  # by the size of the dtype: the magnitude beyond which a value is not usable


class BadChannelStage:
    """Replace the samples of bad channels by what the other channels predict.

    Parameters
    ----------
    stream : Stream
    settings : BadChannelSettings, optional
    memory : ChannelMemory, optional
        What an earlier run of the same stream has learned.

    Raises
    ------
    ParameterError
        If bad channels shall be interpolated, and too few positions are known.

    Attributes
    ----------
    counts : BadChannelCounts
    spans : deque of (int, int or None)
        Start and stop of the latest runs of samples in which channels were replaced as a whole; the stop of
        the last one is None while channels are bad.
    """

    def __init__(
        self,
        stream: Stream,
        settings: BadChannelSettings | None = None,
        memory: ChannelMemory | None = None,
    ) -> None:
        self.stream, self.settings = stream, settings or BadChannelSettings()
        self.counts = BadChannelCounts()
        self._is_on = self.settings.watches(stream.n_channels)
        self._cell = max(_FEWEST_ROWS, round(_CELL * stream.rate))
        self._lag = self._cell // _SHARE_TO_JUDGE
        self._fade = round(self.settings.fade * stream.rate)
        self._recover = max(1, round(self.settings.recover * stream.rate / self._cell))
        self._largest = _LARGEST[stream.dtype.itemsize]
        self._fewest_good = max(2, (stream.n_channels + 1) // 2)
        self._events: deque[LeftOutEvent] = deque(maxlen=_MAX_EVENTS)
        self.spans: deque[tuple[int, int | None]] = deque(maxlen=_MOST_SPANS)
        self._judge = CellJudge(self.settings.unlike)
        self._splines = SphericalSplines(stream.channels, stream.positions)
        if self.settings.action == "interpolate" and not self._splines.source:
            raise ParameterError(
                f"bad channels cannot be interpolated: {self._splines.reason}. Set bad_channels.action to "
                "replace, which needs no positions."
            )
        self._known_bad: dict[int, str] = {}  # from the first sample on
        if self._is_on:
            self._begin()
            if memory is not None:
                self._restore(memory)

    def _begin(self) -> None:
        n_channels, dtype = self.stream.n_channels, self.stream.dtype
        n_flat = round(self.settings.flat * self.stream.rate)
        self._predictor = self._known = ChannelPredictor(  # now, and when the cell began
            n_channels, self._splines, prefers_splines=self.settings.action == "interpolate"
        )
        self._recent = RecentSamples(self._predictor.n_lags - 1, n_channels, dtype)
        self._runs = StuckRuns(n_channels, n_flat, self._cell, dtype)
        self._leaps = LeapDetector(n_channels, self._runs.fewest // 2, dtype)
        self._bad: dict[int, str] = {}  # kind of each bad channel
        self._none = np.zeros(n_channels, bool)
        self._was_bad = self._none  # when a cell began or a verdict took effect
        self._fades = Fades(self._fade)
        self._n_good_cells = np.zeros(n_channels, np.int64)  # in a row, of bad channels
        self._n_unlike_cells = np.zeros(n_channels, np.int64)  # in a row, of the others
        self._low, self._high = np.full(n_channels, np.inf), np.full(n_channels, -np.inf)
        # this cell, and the one before, which may not have been judged
        self._rows, self._rows_before = (
            Cell(self._cell, n_channels, dtype, self._largest) for _ in range(2)
        )
        self._evidence: Evidence | None = None
        self._verdict: Verdict | None = None
        self._due = 0  # index at which the verdict takes effect

    def _restore(self, memory: ChannelMemory) -> None:
        table = memory.table.copy()
        self._predictor = self._known = self._predictor.restore(memory)
        self._predictor.prepare(self._was_bad)
        self._runs.set_usual(table["longest_run"], table["n_run_cells"])
        self._leaps.set_usual(table["largest_deviation"], memory.n_leap_cells)
        self._low, self._high = table["low"].copy(), table["high"].copy()
        kinds = (kind.decode(errors="replace") for kind in table["kind"].tolist())
        self._known_bad = {i: kind for i, kind in enumerate(kinds) if kind in FAULTS}

    def get_memory(self) -> ChannelMemory | None:
        """Return what the stage has learned; None before it has learned anything."""
        if not self._is_on or not self._predictor.n_cells:
            return None
        table = np.zeros(self.stream.n_channels, COLUMNS)
        table["level"], table["n_good"] = self._predictor.level, self._predictor.n_learned
        table["longest_run"], table["n_run_cells"] = self._runs.usual, self._runs.n_cells
        table["largest_deviation"], table["low"], table["high"] = self._leaps.usual, self._low, self._high
        for channel, kind in (self._known_bad | self._bad).items():
            table["kind"][channel] = kind.encode()
        stream, predictor = self.stream, self._predictor
        return ChannelMemory(
            stream.channels, stream.rate, stream.unit, predictor.lagged, table,
            predictor.n_cells, predictor.n_rows, self._leaps.n_cells,
        )  # fmt: skip

    @property
    def bad(self) -> tuple[str, ...]:
        """Names of the channels that are currently bad."""
        if not (self._is_on and self._bad):
            return ()
        return tuple(self.stream.channels[i] for i in sorted(self._bad))

    def pop_events(self) -> list[LeftOutEvent]:
        """Return the events since the last call in the order of the index, at most the last 1024."""
        if not self._events:
            return []
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
            self._recent.forget()
            self._runs.skip()
            self._leaps.skip()
            self._begin_cell()
            return item
        for channel, kind in self._known_bad.items():
            self._leave_out(channel, item.start, kind, "since before the start")
        if self._known_bad:
            self._known_bad, self._was_bad = {}, self._mark_bad()
        is_same, done = True, []
        for start, x in split_chunk(item, self._cell, self._lag):
            out = self._process(x, start)
            is_same &= out is x
            done.append(out)
        if is_same or self.settings.action == "report":
            return item
        return replace(item, data=np.concatenate(done))

    def settle(self) -> None:
        """Judge the last cell, if that is still to do. The results do not depend on this call."""
        if self._is_on and self._evidence is not None:
            self._verdict = self._judge.judge(self._evidence, self._predictor)
            self._evidence = None

    def _process(self, x: NDArray[Any], start: int) -> NDArray[Any]:
        """Return the samples of a part of a cell, themselves if nothing is replaced."""
        if start >= self._due and not (self._evidence is None and self._verdict is None):
            self._take_effect(start)
        if self._is_usual(x):  # nearly always
            out, replaced, predicted = x, None, None
        else:
            out, replaced, predicted = self._inspect(x, start)
        self._recent.add(x, predicted)
        self._rows.add(x, out, replaced)
        stop = start + len(x)
        if stop % self._cell == 0:
            if self._rows.n_rows == self._cell:
                self._finish_cell(stop)
            self._begin_cell()
        return out

    def _is_usual(self, x: NDArray[Any]) -> bool:
        """Return whether nothing is unusual; the screen has processed the samples then."""
        if self._bad or self._fades or not self._leaps.is_trusted:
            return False
        return self._runs.screen(x, self._largest, self._leaps.get_screen(self._known, self._was_bad))

    def _inspect(self, x: NDArray[Any], start: int) -> tuple[NDArray[Any], Mask | None, Mask | None]:
        """Return samples with what is not usable replaced, which are replaced, and which predicted."""
        usable = np.empty(x.shape, bool)
        all_usable = channels.mark_usable(x, self._largest, usable)
        leaps = self._find_leaps(x, usable, all_usable)
        if leaps is not None:
            usable &= ~leaps
            all_usable = False
        reached = self._runs.update(x, usable)
        replaced = None
        if not all_usable or self._bad or reached:
            replaced = ~usable
            replaced[:, [*self._bad]] = True
            self._convict_stuck(x, usable, reached, start, replaced)
        predicted, out = self._mark_predicted(x.shape, replaced, start), x
        if predicted is not None:
            replaced = np.zeros(x.shape, bool) if replaced is None else replaced
            out = self._fill(x, replaced, predicted, start)
        return out, replaced, predicted

    def _find_leaps(self, x: NDArray[Any], usable: Mask, all_usable: bool) -> Mask | None:
        """Return which usable samples are far from their prediction, (samples, channels); None if none."""
        if all_usable or usable[:, ~self._was_bad].all():  # nearly always
            return self._leaps.extend(self._find_leaps_without(x, self._was_bad), len(x))
        leaps = np.zeros(x.shape, bool)
        for rows, pattern in group_rows(self._was_bad | ~usable):
            found = self._find_leaps_without(x[rows], pattern)
            if found is not None:
                leaps[rows] = found
        return self._leaps.extend(leaps, len(x))

    def _find_leaps_without(self, x: NDArray[Any], left_out: Mask) -> Mask | None:
        if x.shape[1] - int(left_out.sum()) < self._fewest_good:
            return None
        return self._leaps.find(self._known, x, left_out)

    def _convict_stuck(
        self,
        x: NDArray[Any],
        usable: Mask,
        reached: list[tuple[int, int, bool]],
        start: int,
        replaced: Mask,
    ) -> None:
        """Leave out channels where their runs become unusual."""
        for row, channel, repeats in reached:
            value = float(x[row, channel])
            is_stuck = repeats or bool(usable[row, channel])
            if channel not in self._bad and self._convict(channel, value, start + row, is_stuck):
                replaced[row:, channel] = True

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
        if not self._bad and self.settings.action != "report":
            self.spans.append((index, None))
        self._bad[channel] = kind
        self._fades.end(channel)
        self._n_good_cells[channel] = self._n_unlike_cells[channel] = 0
        self.counts.left_out += 1
        self._events.append(LeftOutEvent(index, self.stream.channels[channel], kind, detail))

    def _mark_predicted(self, shape: tuple[int, ...], replaced: Mask | None, start: int) -> Mask | None:
        """Return which samples are replaced, or belong to channels that are faded in; None if none."""
        self._fades.forget_before(start)
        if replaced is None and not self._fades:
            return None
        predicted = np.zeros(shape, bool) if replaced is None else replaced.copy()
        self._fades.mark(predicted, start)
        return predicted

    def _fill(self, x: NDArray[Any], replaced: Mask, predicted: Mask, start: int) -> NDArray[Any]:
        """Return samples with replaced ones predicted, and channels that are good again faded in."""
        is_steady, past = self._recent.look_back(x, predicted)
        needs = predicted.any(axis=1) & ((~replaced).sum(axis=1) >= self._fewest_good)
        if self._predictor.n_cells < _CELLS_TO_PREDICT or not needs.any():
            replaced[:] = False
            return x
        out = x.copy()
        for rows, key in group_rows(np.column_stack((predicted & needs[:, None], is_steady))):
            pattern, at = key[:-1], np.flatnonzero(key[:-1])
            if at.size:
                earlier = [samples[rows] for samples in past] if key[-1] else ()
                estimate = self._predictor.predict(x[rows], pattern, earlier)
                out[rows[:, None], at] = self._fades.mix(
                    x[rows][:, at], replaced[rows][:, at], estimate, at, start + rows
                )
        self.counts.values += int((replaced & needs[:, None]).sum())
        return out

    def _begin_cell(self) -> None:
        self._rows.begin()
        self._was_bad, self._known = self._mark_bad(), self._predictor

    def _mark_bad(self) -> Mask:
        if not self._bad:
            return self._none
        bad = np.zeros(self.stream.n_channels, bool)
        for channel in self._bad:
            bad[channel] = True
        return bad

    def _finish_cell(self, stop: int) -> None:
        """Learn what is usual from a cell, and leave the rest to its judge."""
        cell, bad, stuck = self._rows, self._mark_bad(), self._runs.was_stuck
        is_calm = cell.is_calm and bad is self._none and self._was_bad is self._none
        absent = self._none if is_calm else cell.find_absent()
        good = ~self._none if is_calm else ~(cell.is_touched | bad | absent)
        self._runs.finish_cell(good)
        is_learned = self._known.n_cells >= FEWEST_CELLS
        power = self._leaps.finish_cell(good, self._cell, is_learned=is_learned)
        if not is_calm:
            if self.stream.n_channels - int((bad | absent).sum()) < self._fewest_good:
                return
            if (absent | (bad != self._was_bad) | (cell.is_touched & ~bad)).any():
                power = None  # it is that of other samples or channels
        n_unlike, known = self._n_unlike_cells.copy(), self._known
        self._evidence = Evidence(cell, bad, absent, stuck, n_unlike, known, power, is_calm)
        self._due = stop + self._lag
        self._rows, self._rows_before = self._rows_before, self._rows

    def _take_effect(self, index: int) -> None:
        """Apply the verdict on the last cell."""
        self.settle()
        verdict, self._verdict = self._verdict, None
        if verdict is None:
            return
        self._predictor = verdict.predictor
        self._n_unlike_cells = (self._n_unlike_cells + 1) * verdict.unlike
        for channel, ratio in verdict.convicted.items():
            if channel not in self._bad:
                detail = f"{ratio:.3g} times as far as usual from what the others predict"
                self._leave_out(channel, index, "unlike", detail)
        self._acquit(verdict.good, index)
        if verdict.low is not None and verdict.high is not None and verdict.used is not None:
            channels.widen(self._low, self._high, verdict.low, verdict.high, verdict.used)
        self._was_bad = self._mark_bad()

    def _acquit(self, good: Mask | None, index: int) -> None:
        """Count good cells of bad channels, and use those again that have enough of them."""
        if good is None:
            self._n_good_cells[:] = 0
            return
        self._n_good_cells = np.where(good, self._n_good_cells + 1, 0)
        returning = [i for i in self._bad if self._n_good_cells[i] >= self._recover]
        for channel in returning:
            del self._bad[channel]
            self._fades.begin(channel, index)
            self.counts.returned += 1
            self._events.append(LeftOutEvent(index, self.stream.channels[channel], "good"))
        if returning and not self._bad:
            self._end_span(index + self._fade)

    def _end_span(self, stop: int) -> None:
        if self.spans and self.spans[-1][1] is None:
            self.spans[-1] = self.spans[-1][0], stop
