"""Repair stage of a stream: fill missing and bad samples or declare a gap, and report faulty channels.

Values are bad if they are not finite, or so large that sums of their products would overflow. After the
stage, each sample is finite (or, with the policy "nan", NaN with its entire row), and each index is in
exactly one chunk or gap, in order. The samples are bit-identical for all chunk sizes of the input; only the
boundaries of chunks and gaps differ. Samples that need no repair are passed on without a copy.

`gap_filler` fills samples; `detectors` finds outliers and flat channels.
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

_LONGEST_FILL = 60.0  # seconds; longer ones would be invented data, and use memory
_MIN_CELL = 16  # samples, for a median and a deviation
_MAX_EVENTS = 1024  # kept until they are read
_LARGEST = {4: 1e30, 8: 1e100}  # by the size of the dtype: the magnitude beyond which a value is bad


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairSettings:
    """How to repair missing or bad samples. Times are in seconds.

    Parameters
    ----------
    gap : {"reset", "hold", "interpolate", "nan"}
        Replacement of missing and bad samples: a gap, after which processing starts again; the last good
        sample of the channel; a straight line to the next good sample, for which samples wait; NaN in the
        entire row. See `igbss_stream.preparation.repair.gap_filler`. The default invents no data.
    max_fill : float
        Longest run of missing samples that is filled, at most 60; a longer one becomes a gap.
    outlier : float, optional
        A sample is bad if its distance from the median of its channel exceeds this number of robust
        standard deviations. By default there is no limit, because outliers may be the signal of interest:
        blinks are tens of deviations from the median, heart beats in a quiet lead a hundred, pulses of a
        trigger any number. For EEG, 1000 removes values that no electrode can measure.
    outlier_window : float
        Window over which median and deviation are learned; the first window of a stream is not checked.
    accept_after : float
        A channel that exceeds the limit for longer has a step, and its values are accepted. If this is
        longer than `max_fill`, a step results in a gap.
    flat_after : float or None
        A channel that is constant within its rounding for this time is reported as flat; None: never.

    Raises
    ------
    ParameterError
        If a value is not valid.
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
    """A change of the condition of a channel.

    Parameters
    ----------
    index : int
        Index of the sample that shows it.
    channel : str
    kind : str
        ``"flat"`` and ``"moving"``; ``"failed"``, bad for too long to be filled, and ``"recovered"``;
        ``"step"``, beyond the limit for `accept_after` and accepted.
    """

    index: int
    channel: str
    kind: str


class RepairStage:
    """Fill missing and bad samples or declare a gap, and report faulty channels.

    Parameters
    ----------
    stream : Stream
    settings : RepairSettings

    Attributes
    ----------
    stream : Stream
        Description of the input.
    settings : RepairSettings
    counts : RepairCounts
    bad_by_channel : ndarray of shape (channels,)
        Number of bad values, including outliers.
    delay : int
        Largest delay of a sample, in samples.

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
        self._max_streak = self._to_samples("max_fill", 1 if settings.gap != "reset" else 0)
        n_fill = 0 if settings.gap == "reset" else self._max_streak
        self.delay = n_fill if settings.gap == "interpolate" else 0
        self._filler = GapFiller(settings.gap, n_fill, stream.n_channels, stream.dtype, self.counts)
        self._stop: int | None = None
        self._largest = _LARGEST[stream.dtype.itemsize]
        self._streak = np.zeros(stream.n_channels, np.int64)  # consecutive bad samples of a channel
        self._is_clean = True  # all streaks are 0
        self._events: deque[ChannelEvent] = deque(maxlen=_MAX_EVENTS)
        self._flat: FlatDetector | None = None
        self._outliers: OutlierDetector | None = None
        self._make_detectors()

    def _make_detectors(self) -> None:
        settings, n_channels = self.settings, self.stream.n_channels
        eps = float(np.finfo(self.stream.dtype).eps)
        if settings.flat_after is not None:
            self._flat = FlatDetector(self._to_samples("flat_after", 1), n_channels, eps)
        if settings.outlier is not None:
            window = self._to_samples("outlier_window", _MIN_CELL)
            patience = self._to_samples("accept_after", 1)
            self._outliers = OutlierDetector(settings.outlier, window, patience, n_channels, eps)

    def _to_samples(self, name: str, least: int) -> int:
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
        """Number of samples, received or missing, that wait for a later good one."""
        return self._filler.n_waiting

    @property
    def flat(self) -> Mask:
        """Which channels are currently flat."""
        return np.zeros(self.stream.n_channels, bool) if self._flat is None else self._flat.flat

    def pop_events(self) -> list[ChannelEvent]:
        """Return the events since the last call in the order of the index, at most the last 1024."""
        events = list(self._events)
        self._events.clear()
        return events

    def push(self, item: Chunk | Gap) -> list[Chunk | Gap]:
        """Process the next chunk or gap, and return the finished ones.

        Parameters
        ----------
        item : Chunk or Gap
            Begins where the previous one stopped. Its samples are not modified; a chunk that needs no
            repair is returned itself.

        Returns
        -------
        list of Chunk and Gap

        Raises
        ------
        InputError
            If the item does not follow the previous one, or its samples do not match the stream.
        """
        if isinstance(item, Gap):
            return self._push_gap(item)
        x = item.data
        if x.ndim != 2 or x.shape[1] != len(self._streak) or x.dtype != self.stream.dtype:
            raise self._make_mismatch_error(x)
        if not len(x):
            return []
        if self._stop != item.start:
            self._begin(item.start)
        self._stop = item.stop
        bad = self._find_bad(x, item.start)
        if bad is None and self._filler.is_calm:
            self._filler.note_clean_chunk(item)
            return [item]
        return self._filler.push(item, bad)

    def flush(self) -> list[Chunk | Gap]:
        """Return the waiting samples as gaps; later samples do not continue them."""
        return self._filler.flush()

    def _begin(self, start: int) -> None:
        if self._stop is not None:
            raise InputError(
                f"an item begins at sample {start}, but the previous one stopped at {self._stop}. "
                "Pass items in order, and a Gap for missing samples."
            )
        self._stop = start
        if self._flat is not None:
            self._flat.begin(start)

    def _make_mismatch_error(self, x: NDArray[Any]) -> InputError:
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
                self._report(self._make_flat_events(self._flat.skip(gap.start, gap.n_samples)))
        return self._filler.push_gap(gap)

    def _restart(self, start: int) -> None:
        """Reset the detectors; after a restart the channels may be others."""
        if self._outliers is not None:
            self._outliers.begin()
        if self._flat is not None:
            self._flat.begin(start)

    def _find_bad(self, x: NDArray[Any], start: int) -> Mask | None:
        """Return the values to replace, or None if there are none, and report on channels."""
        bad = None
        if not (x.max() <= self._largest and x.min() >= -self._largest):  # or NaN
            bad = ~(np.abs(x) <= self._largest)
            self.counts.bad += int(bad.sum())
        events: list[ChannelEvent] = []
        if self._outliers is not None:
            bad = self._add_outliers(self._outliers, x, start, bad, events)
        if bad is not None or not self._is_clean:
            events += self._find_failures(np.zeros(x.shape, bool) if bad is None else bad, start)
        if self._flat is not None:
            events += self._make_flat_events(self._flat.update(x, start, bad))
        if events:
            self._report(events)
        return bad

    def _add_outliers(
        self,
        detector: OutlierDetector,
        x: NDArray[Any],
        start: int,
        bad: Mask | None,
        events: list[ChannelEvent],
    ) -> Mask | None:
        outliers, steps = detector.update(x, start, bad)
        self.counts.steps += len(steps)
        events += [self._make_event(index, channel, "step") for index, channel in steps]
        if outliers is None:
            return bad
        self.counts.outliers += int(outliers.sum())
        return outliers if bad is None else bad | outliers

    def _find_failures(self, bad: Mask, start: int) -> list[ChannelEvent]:
        """Count bad values; return where channels failed or recovered."""
        at = np.flatnonzero(bad.any(axis=0) | (self._streak > 0))
        is_bad = bad[:, at]
        self.bad_by_channel[at] += is_bad.sum(axis=0)
        streak = count_streaks(is_bad, ~is_bad, self._streak[at])
        before = np.concatenate((self._streak[None, at], streak[:-1]))
        self._streak[at] = streak[-1]
        self._is_clean = not self._streak.any()
        fails = np.argwhere((streak == self._max_streak + 1) & is_bad)
        recovers = np.argwhere((before > self._max_streak) & ~is_bad)
        self.counts.failed += len(fails)
        return [
            self._make_event(start + int(row), int(at[i]), kind)
            for kind, where in (("failed", fails), ("recovered", recovers))
            for row, i in where
        ]

    def _make_flat_events(self, changes: list[Change]) -> list[ChannelEvent]:
        if not changes:
            return []
        self.counts.flat += sum(is_flat for _, _, is_flat in changes)
        return [
            self._make_event(index, channel, "flat" if is_flat else "moving")
            for index, channel, is_flat in changes
        ]

    def _make_event(self, index: int, channel: int, kind: str) -> ChannelEvent:
        return ChannelEvent(index, self.stream.channels[channel], kind)

    def _report(self, events: list[ChannelEvent]) -> None:
        self._events.extend(sorted(events))

    @property
    def state(self) -> State:
        """Copies of all arrays that the stage needs to continue, including its counts."""
        state = {
            "stop": np.array(-1 if self._stop is None else self._stop),
            "streak": self._streak.copy(),
            "bad_by_channel": self.bad_by_channel.copy(),
            **self._filler.state,
        }
        for detector in (self._flat, self._outliers):
            state |= {} if detector is None else detector.state
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, as if this object had processed all earlier items.

        Parameters
        ----------
        state : mapping of str to array

        Raises
        ------
        InputError
            If the state belongs to another stream or to other settings.
        """
        known = {name: np.asarray(values) for name, values in state.items()}
        self._check_state(known)
        stop = int(known["stop"])
        self._stop = None if stop < 0 else stop
        self._streak = known["streak"].copy()
        self._is_clean = not self._streak.any()
        self.bad_by_channel = known["bad_by_channel"].copy()
        self._filler.restore(known, stop)
        for detector in (self._flat, self._outliers):
            if detector is not None:
                detector.restore(known, stop)

    def _check_state(self, state: State) -> None:
        expected = self.state
        for name in expected.keys() ^ state.keys():
            verb = "lacks" if name in expected else "has an unexpected"
            raise InputError(f"the state {verb} {name!r}. Restore it with the settings it was saved with.")
        for name, array in expected.items():
            found = state[name]
            n_skipped = 1 if name.startswith("waiting") else 0
            is_alike = found.dtype == array.dtype or found.dtype.kind == array.dtype.kind == "U"
            if not is_alike or found.shape[n_skipped:] != array.shape[n_skipped:]:
                raise InputError(
                    f"{name!r} of the state must be {array.dtype} of shape {array.shape}. Got "
                    f"{found.dtype} of shape {found.shape} instead; the state belongs to another stream or "
                    "to other settings."
                )
        n_rows = {len(state["waiting"]), len(state["waiting_bad"]), int(state["waiting_rows"].sum())}
        n_blocks = {len(state[f"waiting_{name}"]) for name in ("rows", "models", "reasons")}
        if len(n_rows) > 1 or len(n_blocks) > 1:
            raise InputError("the waiting samples of the state are incomplete. Start without the state.")


def _check_positive(name: str, value: float, most: float = math.inf) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value) and 0 < value <= most):
        limit = f" and at most {most:g}" if math.isfinite(most) else ""
        raise ParameterError(
            f"{name} must be a finite number above 0{limit}. Got {value!r} instead.", parameter=name
        )
