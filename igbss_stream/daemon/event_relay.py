"""Pass the events of a source on to the sinks, each with its published sample.

A source counts events in its samples, sinks in the published ones. After resampling, the indices differ by
the ratio of the rates. Filters run forward in a stream and delay it, but samples keep their index; an event
is moved by the delay of a pulse, and marks the sample that shows what it marked before.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Callable
from operator import attrgetter

from igbss_stream.events import Event, Events
from igbss_stream.preparation.online import OnlinePreparation

_MOST = 1 << 16  # events that wait

_get_index = attrgetter("index")


class EventRelay:
    """Hold events until the samples that they belong to are published.

    Parameters
    ----------
    publish : callable
        Called with the events that are published, in indices of the published samples.

    Attributes
    ----------
    n_in, n_out : int
        Number of events received and published.
    n_dropped : int
        Number of events dropped because more than 65536 waited, or no sample of their run was published.
    """

    def __init__(self, publish: Callable[[Events], None]) -> None:
        self.n_in = self.n_out = self.n_dropped = 0
        self._publish = publish
        self._waiting: list[Event] = []  # in indices of the source, sorted
        self._published: list[Event] = []  # in indices of the published samples
        self._preparation: OnlinePreparation | None = None

    def prepare(self, preparation: OnlinePreparation) -> None:
        """Set the preparation that the samples of this run pass through."""
        self._preparation = preparation

    def push(self, events: Events) -> None:
        """Add events, in indices of the source."""
        self.n_in += len(events)
        for event in events:
            insort(self._waiting, event, key=_get_index)
        excess = len(self._waiting) - _MOST
        if excess > 0:  # those furthest ahead of the samples are the least likely to be right
            del self._waiting[_MOST:]
            self.n_dropped += excess

    def push_published(self, events: list[Event]) -> None:
        """Add events of the daemon itself, in indices of the published samples."""
        self.n_in += len(events)
        self._published += events

    def release(self, stop: int) -> None:
        """Publish the events whose nearest sample is before an index.

        Parameters
        ----------
        stop : int
            Index after the last published sample.
        """
        if self._published:
            self._release_published(stop)
        if self._waiting and self._preparation is not None:
            end = self._preparation.find_source_index(stop - 0.5)
            self._release(bisect_left(self._waiting, end, key=_get_index))

    def end_run(self) -> None:
        """Publish the events that wait, also those after the last sample; later ones are of another run."""
        if self._preparation is not None:
            self._release_published(math.inf)
            self._release(len(self._waiting))
        self.n_dropped += len(self._waiting)
        self._waiting.clear()
        self._preparation = None

    def _release_published(self, stop: float) -> None:
        due = [event for event in self._published if event.index < stop - 0.5]
        if due:
            self._published = [event for event in self._published if event.index >= stop - 0.5]
            self.n_out += len(due)
            self._publish(Events.from_rows(due))

    def _release(self, n: int) -> None:
        if n == 0 or self._preparation is None:
            return
        events = self._preparation.move_events(Events.from_rows(self._waiting[:n]))
        del self._waiting[:n]
        self.n_out += n
        self._publish(events)
