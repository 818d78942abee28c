"""Schedule, learn and activate the models of a stream.

The schedule is defined in sample indices. The same stream therefore yields the same models at the same
indices, whatever the chunk sizes and the speed. With the stream's first index o, model k = 0, 1, ... is
learned from the last `window` samples before ``o + first + k * every`` and becomes active `ahead` samples
later::

    |---------- first ----------|-- ahead --|== model 1 ===|== model 2 ===
                                |------- every -------|-- ahead --|
                    |------------- window ------------|

Models are learned in a thread. A model that is not ready in time is late. A replay or a recording waits for
it; a live stream continues with the previous model, and the late one becomes active at the next chunk.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.runs import split_runs
from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import IgbssError, InputError, ParameterError
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.plan import SeparationPlan
from igbss_stream.separation.settings import ModelSettings
from igbss_stream.separation.source_labels import LabelContext
from igbss_stream.streaming.stream_model import StreamModel

GetSpans = Callable[[], list[tuple[int, int]]]
"""Returns start and stop of spans of samples."""

_LEAST_SHARE = 0.5  # of the samples of a window that must be learned from
_POLL_INTERVAL = 0.05  # seconds between checks whether to stop waiting


@dataclass(frozen=True)
class LearningSchedule:
    """When models are learned, in samples; see the drawing of the module.

    Parameters
    ----------
    first : int
        Samples before the first model is learned.
    window : int
        Largest number of samples that a model is learned from.
    every : int or None
        Samples from one model to the next; None learns once.
    ahead : int
        Samples from the end of the window to the index at which the model becomes active.
    fade : int
        Samples of the cross-fade from one model to the next.

    Raises
    ------
    ParameterError
        If a number is not valid.
    """

    first: int
    window: int
    every: int | None = None
    ahead: int = 0
    fade: int = 0

    def __post_init__(self) -> None:
        for name, least in (("first", 2), ("window", 2), ("every", 1), ("ahead", 0), ("fade", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ParameterError(
                    f"{name} must be at least {least} samples. Got {value} instead.", parameter=name
                )
        if self.every is not None and max(self.ahead, self.fade) > self.every:
            raise ParameterError(
                f"ahead and fade must be at most every = {self.every} samples, or models would overtake "
                f"each other. Got {self.ahead} and {self.fade} instead.",
                parameter="ahead",
            )

    @classmethod
    def from_seconds(
        cls, rate: float, first: float, window: float, every: float | None, ahead: float, fade: float
    ) -> "LearningSchedule":
        """Return a schedule given in seconds, for a sampling rate in Hz; each time is rounded once."""
        return cls(
            round(first * rate),
            round(window * rate),
            None if every is None else round(every * rate),
            round(ahead * rate),
            round(fade * rate),
        )


@dataclass(slots=True)
class LearningCounts:
    """Counts of models.

    Parameters
    ----------
    learned : int
        Learned models.
    failed : int
        Could not be learned from their samples; the previous model stays active.
    late : int
        Not ready at their index.
    skipped : int
        Not begun, because two models were still pending or no sample arrived in their window.
    """

    learned: int = 0
    failed: int = 0
    late: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class _LearningTask:
    """A pending model: indices of its samples, index of its activation, future result and its seconds."""

    segment: tuple[int, int]
    due: int
    result: "Future[tuple[Separator | IgbssError, float]]"


class Learner:
    """Learn the models of one stream.

    Parameters
    ----------
    settings : ModelSettings
    names : sequence of str
        Names of the channels.
    schedule : LearningSchedule
    executor : Executor
        Runs the learning; with one thread, so models are learned one after the other.
    model : StreamModel, optional
        Model that is already active, e.g. of an earlier run; the first learned model follows it.
    wait : bool
        Whether to wait for a model that is not ready.
    stop : Event, optional
        Ends such a wait.
    cleaning : Cleaning, optional
        Sources to remove from the channels. Sources that correlate with a channel or have a label are
        determined again for each model.
    labelling : LabelContext, optional
        What labels of the sources need; sources of each model are labelled if it is given.
    get_excluded : callable, optional
        Returns spans of samples that no model is learned from once there is one; it stays active if half of
        the samples of a window are in spans.

    Attributes
    ----------
    counts : LearningCounts
    failure : str
        Error of the last model that could not be learned.
    """

    def __init__(
        self,
        settings: ModelSettings,
        names: Sequence[str],
        schedule: LearningSchedule,
        executor: Executor,
        *,
        model: StreamModel | None = None,
        wait: bool = True,
        stop: Event | None = None,
        cleaning: Cleaning | None = None,
        labelling: LabelContext | None = None,
        get_excluded: GetSpans = list,
    ) -> None:
        self.counts = LearningCounts()
        self._get_excluded = get_excluded
        self.failure = ""
        self.schedule = schedule
        self._settings, self._names = settings, tuple(names)
        self._cleaning, self._labelling = cleaning, labelling
        self._executor, self._wait = executor, wait
        self._stop = stop or Event()
        self._version = 0 if model is None else model.version
        self._latest = None if model is None else model.separator  # used by the thread alone
        self._buffer: deque[Chunk | Gap] = deque()
        self._tasks: deque[_LearningTask] = deque()
        self._is_late = False
        self._next_stop: int | None = None  # of the window of the next model
        self._has_begun = False

    def begin(self, start: int) -> None:
        """Start the schedule at the first index of the stream; later calls do nothing."""
        if not self._has_begun:
            self._has_begun, self._next_stop = True, start + self.schedule.first

    @property
    def boundary(self) -> int | None:
        """The next index at which `handle_boundary` must be called, if there is one."""
        due = [self._tasks[0].due] if self._tasks and not self._is_late else []
        stop = [] if self._next_stop is None else [self._next_stop]
        return min(due + stop, default=None)

    def record(self, item: Chunk | Gap) -> None:
        """Buffer samples, none of them beyond the boundary, or note a gap after them."""
        if self._next_stop is None:
            return
        if isinstance(item, Gap) and not (self._buffer and isinstance(self._buffer[-1], Chunk)):
            return  # already noted; an outage of many gaps uses no memory
        self._buffer.append(item)
        oldest = self._next_stop - self.schedule.window
        while self._buffer and self._buffer[0].stop <= oldest:
            self._buffer.popleft()

    def handle_boundary(self, index: int) -> StreamModel | None:
        """Begin to learn a model, or activate the pending one; return the model that became active, if any.

        Parameters
        ----------
        index : int
            Index of the next sample: the boundary, or beyond it if samples are missing.
        """
        if self._next_stop is not None and self._next_stop <= index:
            if self._has_samples(self._next_stop - self.schedule.window):
                self._submit(self._next_stop)
            else:
                self._skip_to(index)
        if not self._tasks or self._is_late or self._tasks[0].due > index:
            return None
        self._wait_for(self._tasks[0].result)
        if not self._tasks[0].result.done():
            self._is_late = True
            self.counts.late += 1
            return None
        return self._pop_model(index)

    def take_late_model(self, index: int) -> StreamModel | None:
        """Return the late model if it is ready now; it becomes active at this index."""
        if not (self._is_late and self._tasks[0].result.done()):
            return None
        self._is_late = False
        return self._pop_model(index)

    def _wait_for(self, result: "Future[Any]") -> None:
        """Wait for a result, if waiting is allowed, until `stop` is set."""
        while self._wait and not (result.done() or self._stop.is_set()):
            wait([result], _POLL_INTERVAL)

    def _has_samples(self, start: int) -> bool:
        """Return whether samples from an index on are in the buffer."""
        return any(isinstance(item, Chunk) and item.stop > start for item in reversed(self._buffer))

    def _skip_to(self, index: int) -> None:
        """Skip the models up to an index, in whose windows no sample arrived, however many they are."""
        if self._next_stop is None or self.schedule.every is None:
            self._next_stop = index + self.schedule.first
            return
        n_skipped = (index - self._next_stop) // self.schedule.every + 1
        self._next_stop += n_skipped * self.schedule.every
        self.counts.skipped += n_skipped

    def _submit(self, stop: int) -> None:
        schedule = self.schedule
        self._next_stop = None if schedule.every is None else stop + schedule.every
        if len(self._tasks) > 1:
            self.counts.skipped += 1
            return
        segment = (stop - schedule.window, stop)
        result = self._executor.submit(self._learn, list(self._buffer), segment, self._get_excluded())
        self._tasks.append(_LearningTask(segment, stop + schedule.ahead, result))
        if self._next_stop is None:
            self._buffer.clear()

    def _pop_model(self, index: int) -> StreamModel | None:
        task = self._tasks.popleft()
        separator, seconds = task.result.result()
        if isinstance(separator, IgbssError):
            self.counts.failed += 1
            self.failure = str(separator)
            return None
        self.counts.learned += 1
        self._version += 1
        return StreamModel(self._version, separator, index, task.segment, seconds)

    def _learn(
        self, items: list[Chunk | Gap], segment: tuple[int, int], excluded: list[tuple[int, int]]
    ) -> tuple[Separator | IgbssError, float]:
        """Learn a separator, in the thread, and measure the time it takes, in seconds."""
        began = perf_counter()
        return self._try_to_learn(items, segment, excluded), perf_counter() - began

    def _try_to_learn(
        self, items: list[Chunk | Gap], segment: tuple[int, int], excluded: list[tuple[int, int]]
    ) -> Separator | IgbssError:
        """Return a separator whose order, sign and scale follow the previous one, or what went wrong."""
        try:
            spans = [] if self._latest is None else excluded
            self._latest = self._fit_separator(*_collect_samples(items, segment, spans))
        except IgbssError as error:
            return error
        except np.linalg.LinAlgError as error:
            return InputError(
                f"numerical failure while learning: {error}. Check the samples for constant channels."
            )
        return self._latest

    def _fit_separator(self, x: NDArray[Any], breaks: list[int]) -> Separator:
        settings, previous = self._settings, self._latest
        if previous is not None:
            n_sources = previous.stage.n_sources
            settings = replace(settings, n_sources=n_sources, transform=previous.fitted_transform)
        aligned_to = previous.stage if previous is not None and settings.is_learned else None
        plan = SeparationPlan(settings, len(self._names), aligned_to, self._cleaning, self._labelling)
        survey = plan.make_survey(self._names, x.dtype, len(x), breaks=breaks)
        survey.update(x)
        return plan.prepare(survey)


def _collect_samples(
    items: list[Chunk | Gap], segment: tuple[int, int], excluded: Sequence[tuple[int, int]] = ()
) -> tuple[NDArray[Any], list[int]]:
    """Return the usable samples of a segment as one array, and its rows that follow a gap."""
    parts: list[NDArray[Any]] = []
    run, runs = 0, []  # number of the run of each row
    n_excluded = 0
    for item in items:
        if isinstance(item, Gap):
            run += 1
            continue
        first = max(0, segment[0] - item.start)
        part = item.data[first : segment[1] - item.start]
        is_usable = np.isfinite(part).all(axis=1)
        for start, stop in excluded:
            rows = slice(*(max(0, index - item.start - first) for index in (start, stop)))
            n_excluded += len(is_usable[rows])
            is_usable[rows] = False
        parts.append(part if is_usable.all() else part[is_usable])
        runs.append(run + np.cumsum(~is_usable)[is_usable])
        run += int(np.sum(~is_usable))
    if not parts:
        raise InputError("no samples arrived in the window of a model; check that the source sends data.")
    n_usable = sum(map(len, parts))
    if n_excluded and n_usable < _LEAST_SHARE * (n_usable + n_excluded):
        raise InputError("channels were bad for most of the window; the model stays as it is.")
    breaks = split_runs(np.concatenate(runs))[1:, 0]
    return np.ascontiguousarray(np.concatenate(parts)), breaks.tolist()
