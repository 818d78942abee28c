"""When models are learned from a stream, from what, and when they take force.

All of it is fixed by sample indices, so that the same feed gives the same models at the same places
however it is cut and however fast it comes. With the stream's first index o, learning k = 0, 1, ... takes
the last `window` samples before ``o + first + k * every`` and its model takes force `ahead` samples later::

    |---------- first ----------|-- ahead --|== model 1 ===|== model 2 ===
                                |------- every -------|-- ahead --|
                    |------------- window ------------|

The work is done in a thread. A model that is not ready in time is late: whoever may wait (a replay, a
recording) waits; a live feed goes on with the model before, and the late one takes force at the next chunk.
"""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, replace
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap
from igbss_stream.errors import IgbssError, InputError, ParameterError
from igbss_stream.separation.cleaning import Cleaning
from igbss_stream.separation.engine import Separator
from igbss_stream.separation.settings import ModelSettings

_LOOK = 0.05  # seconds between looks whether a wait is still wanted


@dataclass(frozen=True)
class LearningSchedule:
    """When models are learned, in samples; see the module's drawing.

    Parameters
    ----------
    first : int
        Samples before the first model is learned.
    window : int
        Samples a model is learned from, at most.
    every : int or None
        Samples from one learning to the next; None learns once.
    ahead : int
        Samples from the end of what a model is learned from to where it takes force.
    fade : int
        Samples over which a model gives way to the next.

    Raises
    ------
    ParameterError
        If a number cannot be used.
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
        """Return the schedule at a rate in Hz of times in seconds, rounded to samples once."""
        return cls(
            round(first * rate),
            round(window * rate),
            None if every is None else round(every * rate),
            round(ahead * rate),
            round(fade * rate),
        )


@dataclass(frozen=True, eq=False)
class StreamModel:
    """A separator with its place in a stream.

    Parameters
    ----------
    version : int
        1 for the first.
    separator : Separator
        Prepared.
    since : int
        Index of the first sample it is in force for.
    learned_from : (int, int)
        Indices that what it was learned from begins at and ends before; (0, 0) if it was given.
    """

    version: int
    separator: Separator
    since: int
    learned_from: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class LearningCounts:
    """What became of the models.

    Parameters
    ----------
    learned : int
        Models that were learned.
    failed : int
        Could not be learned from their samples; the model before stays.
    late : int
        Were not ready at their index.
    skipped : int
        Were not begun, because two were still waiting.
    """

    learned: int = 0
    failed: int = 0
    late: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class _LearningTask:
    """A model to come: what it is learned from, when it takes force, and the thread's answer."""

    span: tuple[int, int]
    due: int
    answer: "Future[Separator | IgbssError]"


class Learner:
    """Learns the models of one stream.

    Parameters
    ----------
    settings : ModelSettings
    names : sequence of str
        Of the channels.
    schedule : LearningSchedule
    executor : Executor
        Where models are learned, one after the other: of one thread.
    model : StreamModel, optional
        That is in force already, e.g. of an earlier run; the first one learned follows it.
    wait : bool
        Whether a model that is not ready is waited for.
    stop : Event, optional
        Ends such a wait.
    cleaning : Cleaning, optional
        Which sources are taken out of the channels; those like a channel are found anew by each model.

    Attributes
    ----------
    counts : LearningCounts
    failure : str
        Why the last model that failed did.
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
    ) -> None:
        self.counts = LearningCounts()
        self.failure = ""
        self.schedule = schedule
        self._settings, self._names, self._cleaning = settings, tuple(names), cleaning
        self._executor, self._wait = executor, wait
        self._stop = stop or Event()
        self._version = 0 if model is None else model.version
        self._latest = None if model is None else model.separator  # the thread's own
        self._kept: deque[Chunk | Gap] = deque()
        self._tasks: deque[_LearningTask] = deque()
        self._is_late = False
        self._next_end: int | None = None
        self._begun = False

    def begin(self, start: int) -> None:
        """Count from this index, the first of the stream; does nothing once begun."""
        if not self._begun:
            self._begun, self._next_end = True, start + self.schedule.first

    @property
    def boundary(self) -> int | None:
        """The next index at which `handle_boundary` has to be called, if there is one."""
        due = [self._tasks[0].due] if self._tasks and not self._is_late else []
        end = [] if self._next_end is None else [self._next_end]
        return min(due + end, default=None)

    def record(self, item: Chunk | Gap) -> None:
        """Remember samples, none of them beyond the boundary, or that there is a gap after them."""
        if self._next_end is None:
            return
        if isinstance(item, Gap) and not (self._kept and isinstance(self._kept[-1], Chunk)):
            return  # it is known; an outage, told of in many gaps, takes no memory
        self._kept.append(item)
        oldest = self._next_end - self.schedule.window
        while self._kept and self._kept[0].stop <= oldest:
            self._kept.popleft()

    def handle_boundary(self, index: int) -> StreamModel | None:
        """Begin to learn, or bring a model into force; return it if there is a new one.

        Parameters
        ----------
        index : int
            Of the next sample: the boundary, or beyond it where samples are missing.
        """
        if self._next_end is not None and self._next_end <= index:
            self._begin_task(self._next_end)
        if not self._tasks or self._is_late or self._tasks[0].due > index:
            return None
        self._wait_for(self._tasks[0].answer)
        if not self._tasks[0].answer.done():
            self._is_late = True
            self.counts.late += 1
            return None
        return self._take(index)

    def take_late_model(self, index: int) -> StreamModel | None:
        """Return the model that was late, if it is ready by now; it takes force at this index."""
        if not (self._is_late and self._tasks[0].answer.done()):
            return None
        self._is_late = False
        return self._take(index)

    def _wait_for(self, answer: "Future[Separator | IgbssError]") -> None:
        """Wait for an answer, if one may, and until one is wanted to stop."""
        while self._wait and not (answer.done() or self._stop.is_set()):
            wait([answer], _LOOK)

    def _begin_task(self, end: int) -> None:
        schedule = self.schedule
        self._next_end = None if schedule.every is None else end + schedule.every
        if len(self._tasks) > 1:
            self.counts.skipped += 1
            return
        span = (end - schedule.window, end)
        answer = self._executor.submit(self._learn, list(self._kept), span)
        self._tasks.append(_LearningTask(span, end + schedule.ahead, answer))
        if self._next_end is None:
            self._kept.clear()

    def _take(self, index: int) -> StreamModel | None:
        task = self._tasks.popleft()
        answer = task.answer.result()
        if isinstance(answer, IgbssError):
            self.counts.failed += 1
            self.failure = str(answer)
            return None
        self.counts.learned += 1
        self._version += 1
        return StreamModel(self._version, answer, index, task.span)

    def _learn(self, kept: list[Chunk | Gap], span: tuple[int, int]) -> Separator | IgbssError:
        """Do the work, in the thread; the separator before it is what order, sign and scale follow."""
        try:
            self._latest = self._separator(*_collect_samples(kept, span))
        except IgbssError as error:
            return error
        except np.linalg.LinAlgError as error:
            return InputError(f"the samples lead out of the numbers: {error}.")
        return self._latest

    def _separator(self, x: NDArray[Any], breaks: list[int]) -> Separator:
        settings, before = self._settings, self._latest
        if before is not None:
            settings = replace(settings, n_sources=before.stage.n_sources, transform=before.state)
        previous = before.stage if before is not None and settings.is_learned else None
        separator = Separator(settings, len(self._names), previous, self._cleaning)
        survey = separator.new_survey(self._names, x.dtype, len(x), breaks=breaks)
        survey.update(x)
        separator.prepare(survey)
        return separator


def _collect_samples(kept: list[Chunk | Gap], span: tuple[int, int]) -> tuple[NDArray[Any], list[int]]:
    """Return what lies in the span and is finite, as one array, and its rows that follow a gap."""
    parts: list[NDArray[Any]] = []
    run, runs = 0, []  # of each row the number of its run
    for item in kept:
        if isinstance(item, Gap):
            run += 1
            continue
        part = item.data[max(0, span[0] - item.start) : span[1] - item.start]
        is_finite = np.isfinite(part).all(axis=1)
        parts.append(part if is_finite.all() else part[is_finite])
        runs.append(run + np.cumsum(~is_finite)[is_finite])
        run += int(np.sum(~is_finite))
    if not parts:
        raise InputError("no samples came in the time that a model is learned from.")
    breaks = np.flatnonzero(np.diff(np.concatenate(runs))) + 1
    return np.ascontiguousarray(np.concatenate(parts)), breaks.tolist()
