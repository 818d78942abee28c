"""The stage between ingest and separation: what is bad becomes usable, or an honest gap.

After it each sample is finite (or, with policy "nan", NaN with its entire row), and each index lies in
exactly one chunk or gap, in order. What comes out is the same to the bit however the feed is cut into
chunks; only where chunks and gaps are cut differs. Samples that need no repair pass as they are, uncopied.

`gap_filler` fills in samples, `detectors` finds outliers and flat channels.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import InputError, ParameterError
from igbss_stream.preparation.repair.detectors import (
    Change,
    FlatDetector,
    Mask,
    OutlierDetector,
    State,
    count_streaks,
)
from igbss_stream.preparation.repair.gap_filler import POLICIES, GapFiller, RepairCounts

_LONGEST_FILL = 60.0  # seconds; more would be invented data, and memory
_LEAST_TO_LEARN = 16  # samples, for a median and a deviation
_EVENTS = 1024  # kept until asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings:
    """What to do with samples that are missing or bad. Times are in seconds.

    Parameters
    ----------
    gap : {"reset", "hold", "interpolate", "nan"}
        What becomes of missing samples, and of bad ones: a gap, after which all begins anew; the last
        good sample of the channel; a straight line to the next, for which samples wait; NaN in the entire
        row. See `igbss_stream.preparation.repair.gap_filler`. The default invents nothing.
    max_fill : float
        Longest run of missing samples that is filled, at most 60; what is longer is a gap.
    outlier : float, optional
        A sample that lies further from the median of its channel than this many robust standard
        deviations is bad. Left out: none is. What is an outlier to one is what another looks for (blinks
        lie tens of deviations out, heart beats in a quiet lead a hundred, pulses of a trigger any number),
        so values are not replaced unasked. For EEG 1000 removes what no electrode can measure.
    outlier_window : float
        Time that median and deviation are learned over; the first one of a stream is not judged.
    accept_after : float
        A channel that stays out for longer has moved and is taken as it is. With more than `max_fill` such
        a step costs a gap.
    flat_after : float or None
        A channel that does not move beyond its rounding for this long is reported as flat; None: never.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    gap: str = "reset"
    max_fill: float = 0.1
    outlier: float | None = None
    outlier_window: float = 2.0
    accept_after: float = 0.1
    flat_after: float | None = 5.0

    def __post_init__(self) -> None:
        if self.gap not in POLICIES:
            raise ParameterError(
                f"gap must be one of {', '.join(POLICIES)}. Got {self.gap!r} instead.", parameter="gap"
            )
        _check_positive("max_fill", self.max_fill, _LONGEST_FILL)
        _check_positive("outlier_window", self.outlier_window)
        _check_positive("accept_after", self.accept_after)
        if self.outlier is not None:
            _check_positive("outlier", self.outlier)
        if self.flat_after is not None:
            _check_positive("flat_after", self.flat_after)


@dataclass(frozen=True, slots=True, order=True)
class ChannelEvent:
    """Something that happened to a channel.

    Parameters
    ----------
    index : int
        Of the sample that showed it.
    channel : str
    kind : str
        ``"flat"`` and ``"moving"``; ``"failed"``, bad for longer than can be filled, and
        ``"recovered"``; ``"step"``, stayed out and was accepted.
    """

    index: int
    channel: str
    kind: str


class RepairStage:
    """Fills or cuts out what is missing or bad, and reports channels that fail.

    Parameters
    ----------
    stream : Stream
    settings : RepairSettings

    Attributes
    ----------
    stream : Stream
        What came in.
    settings : RepairSettings
    counts : RepairCounts
    bad_by_channel : ndarray of shape (channels,)
        Number of bad values, outliers among them.
    delay : int
        How many samples after its own one a sample leaves at the latest.

    Raises
    ------
    ParameterError
        If a time of the settings is too short for the rate of the stream.
    """

    def __init__(self, stream: Stream, settings: RepairSettings | None = None) -> None:
        self.stream = stream
        self.settings = settings = settings or RepairSettings()
        self.counts = RepairCounts()
        self.bad_by_channel = np.zeros(stream.n_channels, np.int64)
        self._longest = self._samples("max_fill", 1 if settings.gap != "reset" else 0)
        n_fill = 0 if settings.gap == "reset" else self._longest
        self.delay = n_fill if settings.gap == "interpolate" else 0
        self._filler = GapFiller(settings.gap, n_fill, stream.n_channels, stream.dtype, self.counts)
        self._stop: int | None = None
        self._streak = np.zeros(stream.n_channels, np.int64)  # bad samples of a channel that came in a row
        self._is_well = True  # all streaks are 0
        self._events: deque[ChannelEvent] = deque(maxlen=_EVENTS)
        self._flat: FlatDetector | None = None
        self._outliers: OutlierDetector | None = None
        self._set_watches()

    def _set_watches(self) -> None:
        settings, n_channels = self.settings, self.stream.n_channels
        eps = float(np.finfo(self.stream.dtype).eps)
        if settings.flat_after is not None:
            self._flat = FlatDetector(self._samples("flat_after", 1), n_channels, eps)
        if settings.outlier is not None:
            window = self._samples("outlier_window", _LEAST_TO_LEARN)
            patience = self._samples("accept_after", 1)
            self._outliers = OutlierDetector(settings.outlier, window, patience, n_channels, eps)

    def _samples(self, name: str, least: int) -> int:
        seconds: float = getattr(self.settings, name)
        n_samples = round(seconds * self.stream.rate)
        if n_samples < least:
            raise ParameterError(
                f"{name} must be at least {least} sample{'s' if least > 1 else ''}, "
                f"{least / self.stream.rate:g} s at {self.stream.rate:g} Hz. Got {seconds!r} s instead.",
                parameter=name,
            )
        return n_samples

    @property
    def samples_waiting(self) -> int:
        """Number of samples that came, or are missing, and wait for a good one after them."""
        return self._filler.n_waiting

    @property
    def flat(self) -> Mask:
        """Which channels are flat now."""
        return np.zeros(self.stream.n_channels, bool) if self._flat is None else self._flat.flat

    def pop_events(self) -> list[ChannelEvent]:
        """Return what happened since last asked, in the order of the index; at most the last 1024."""
        happened = list(self._events)
        self._events.clear()
        return happened

    def push(self, item: Chunk | Gap) -> list[Chunk | Gap]:
        """Take samples, or their absence, in.

        Parameters
        ----------
        item : Chunk or Gap
            Begins where the one before stopped. Its samples are not modified; what passes unrepaired
            shares their memory.

        Returns
        -------
        list of Chunk and Gap
            What leaves by it.

        Raises
        ------
        InputError
            If it does not follow on the one before, or its samples are not those of the stream.
        """
        if isinstance(item, Gap):
            return self._push_gap(item)
        x = item.data
        if x.ndim != 2 or x.shape[1] != len(self._streak) or x.dtype != self.stream.dtype:
            raise self._unlike(x)
        if not len(x):
            return []
        if self._stop != item.start:
            self._begin(item.start)
        self._stop = item.stop
        bad = self._bad(x, item.start)
        if bad is None and self._filler.is_calm:
            self._filler.note_clean_chunk(item)
            return [item]
        return self._filler.push(item, bad)

    def flush(self) -> list[Chunk | Gap]:
        """Wait no longer: return what waits, as gaps. What comes next does not continue it."""
        return self._filler.flush()

    def _begin(self, start: int) -> None:
        if self._stop is not None:
            raise InputError(
                f"what comes begins at sample {start}, but what came before stopped at {self._stop}. "
                "Put it in order, and declare what is missing as a gap."
            )
        self._stop = start
        if self._flat is not None:
            self._flat.begin(start)

    def _unlike(self, x: NDArray[Any]) -> InputError:
        stream = self.stream
        return InputError(
            f"samples of stream {stream.name!r} must be {stream.dtype} of shape (samples, "
            f"{stream.n_channels}). Got {x.dtype} of shape {x.shape} instead."
        )

    def _push_gap(self, gap: Gap) -> list[Chunk | Gap]:
        if self._stop != gap.start:
            self._begin(gap.start)
        self._stop = gap.stop
        if gap.n_samples == 0:
            self._restart(gap.start)
        else:
            if self._outliers is not None:
                self._outliers.skip(gap.start, gap.n_samples)
            if self._flat is not None:
                self._report(self._flat_events(self._flat.skip(gap.start, gap.n_samples)))
        return self._filler.push_gap(gap)

    def _restart(self, start: int) -> None:
        """Forget what was learned of the channels: after a restart they may be others."""
        if self._outliers is not None:
            self._outliers.begin()
        if self._flat is not None:
            self._flat.begin(start)

    def _bad(self, x: NDArray[Any], start: int) -> Mask | None:
        """Return which values are to be replaced, None if none is, and report on channels."""
        finite = np.isfinite(x)
        bad = None if np.count_nonzero(finite) == x.size else ~finite
        if bad is not None:
            self.counts.bad += int(bad.sum())
        events: list[ChannelEvent] = []
        if self._outliers is not None:
            bad = self._with_outliers(self._outliers, x, start, bad, events)
        if bad is not None or not self._is_well:
            events += self._failures(np.zeros(x.shape, bool) if bad is None else bad, start)
        if self._flat is not None:
            events += self._flat_events(self._flat.update(x, start, bad))
        if events:
            self._report(events)
        return bad

    def _with_outliers(
        self,
        watch: OutlierDetector,
        x: NDArray[Any],
        start: int,
        bad: Mask | None,
        events: list[ChannelEvent],
    ) -> Mask | None:
        outliers, steps = watch.update(x, start, bad)
        self.counts.steps += len(steps)
        events += [self._event(index, channel, "step") for index, channel in steps]
        if outliers is None:
            return bad
        self.counts.outliers += int(outliers.sum())
        return outliers if bad is None else bad | outliers

    def _failures(self, bad: Mask, start: int) -> list[ChannelEvent]:
        """Count bad values, and return where channels failed or recovered."""
        at = np.flatnonzero(bad.any(axis=0) | (self._streak > 0))
        now = bad[:, at]
        self.bad_by_channel[at] += now.sum(axis=0)
        streak = count_streaks(now, ~now, self._streak[at])
        before = np.concatenate((self._streak[None, at], streak[:-1]))
        self._streak[at] = streak[-1]
        self._is_well = not self._streak.any()
        fails = np.argwhere((streak == self._longest + 1) & now)
        recovers = np.argwhere((before > self._longest) & ~now)
        self.counts.failed += len(fails)
        return [
            self._event(start + int(row), int(at[i]), kind)
            for kind, where in (("failed", fails), ("recovered", recovers))
            for row, i in where
        ]

    def _flat_events(self, changes: list[Change]) -> list[ChannelEvent]:
        self.counts.flat += sum(is_flat for _, _, is_flat in changes)
        return [
            self._event(index, channel, "flat" if is_flat else "moving")
            for index, channel, is_flat in changes
        ]

    def _event(self, index: int, channel: int, kind: str) -> ChannelEvent:
        return ChannelEvent(index, self.stream.channels[channel], kind)

    def _report(self, events: list[ChannelEvent]) -> None:
        self._events.extend(sorted(events))

    @property
    def state(self) -> State:
        """All that must be known to go on, counts included, as arrays that are not shared."""
        state = {
            "stop": np.array(-1 if self._stop is None else self._stop),
            "streak": self._streak.copy(),
            "bad_by_channel": self.bad_by_channel.copy(),
            **self._filler.state,
        }
        for watch in (self._flat, self._outliers):
            state |= {} if watch is None else watch.state
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as if what came before had come to this object.

        Parameters
        ----------
        state : mapping of str to array

        Raises
        ------
        InputError
            If the state is that of another stream, or of other settings.
        """
        known = {name: np.asarray(values) for name, values in state.items()}
        self._check_state(known)
        stop = int(known["stop"])
        self._stop = None if stop < 0 else stop
        self._streak = known["streak"].copy()
        self._is_well = not self._streak.any()
        self.bad_by_channel = known["bad_by_channel"].copy()
        self._filler.restore(known, stop)
        for watch in (self._flat, self._outliers):
            if watch is not None:
                watch.restore(known, stop)

    def _check_state(self, state: State) -> None:
        expected = self.state
        for name in expected.keys() ^ state.keys():
            what = "lacks" if name in expected else "has, beyond what these settings need,"
            raise InputError(f"the state {what} {name!r}. Restore it with the settings it was saved with.")
        for name, array in expected.items():
            given = state[name]
            skipped = 1 if name.startswith("waiting") else 0
            is_alike = given.dtype == array.dtype or given.dtype.kind == array.dtype.kind == "U"
            if not is_alike or given.shape[skipped:] != array.shape[skipped:]:
                raise InputError(
                    f"{name!r} of the state must be like {array.dtype} of shape {array.shape}. Got "
                    f"{given.dtype} of shape {given.shape} instead: it is of another stream, or of other "
                    "settings."
                )
        n_rows = {len(state["waiting"]), len(state["waiting_bad"]), int(state["waiting_rows"].sum())}
        n_pieces = {len(state[f"waiting_{name}"]) for name in ("rows", "models", "reasons")}
        if len(n_rows) > 1 or len(n_pieces) > 1:
            raise InputError("the samples that wait in the state are not complete. Start without it.")


def _check_positive(name: str, value: float, most: float = math.inf) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and 0 < value <= most):
        limit = f" and at most {most:g}" if math.isfinite(most) else ""
        raise ParameterError(
            f"{name} must be a finite number above 0{limit}. Got {value!r} instead.", parameter=name
        )
