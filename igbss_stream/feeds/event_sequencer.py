"""Give received events the indices of the output samples, and count those that were lost."""

from collections import deque

from igbss_stream.events import NO_EVENTS, Events
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import EventsMessage

_MAX_MESSAGES = 1024  # that wait for the samples of their run, or to be read


class EventSequencer:
    """Convert the indices of events from those of the sender to those of a `Sequencer`.

    Events of a run whose samples have not begun wait for them. The oldest messages are dropped if more than
    1024 wait.

    Parameters
    ----------
    samples : Sequencer, optional
        Of the samples of the same stream. Without one, events wait until `follow` sets it.

    Attributes
    ----------
    n_lost : int
        Number of events that were sent but did not arrive, or were dropped.
    """

    def __init__(self, samples: Sequencer | None = None) -> None:
        self.n_lost = 0
        self._samples = samples
        self._waiting: deque[EventsMessage] = deque()
        self._ready: deque[Events] = deque()
        self._run: int | None = None
        self._next: int | None = None  # number of the next event of the run; None before its first message

    def push(self, message: EventsMessage) -> None:
        """Add a message."""
        if message.run != self._run:
            self._run, self._next = message.run, None
        if self._next is not None:
            if message.number < self._next:
                return  # a repetition
            self.n_lost += message.number - self._next
        self._next = message.number + len(message.events)
        self._waiting.append(message)
        self.settle()
        if len(self._waiting) > _MAX_MESSAGES:
            self.n_lost += len(self._waiting.popleft().events)

    def follow(self, samples: Sequencer) -> None:
        """Convert the indices of further events to those of another sequencer of the samples."""
        self.settle()
        self._samples = samples

    def settle(self) -> None:
        """Convert the events of the present run. Call it when samples were pushed, before the next run."""
        samples = self._samples
        if samples is None or not self._waiting:
            return
        others = deque[EventsMessage]()
        for message in self._waiting:
            if message.run == samples.run:
                self._ready.append(message.table.move(message.table.index + samples.offset))
            else:
                others.append(message)
        self._waiting = others
        if len(self._ready) > _MAX_MESSAGES:
            self.n_lost += len(self._ready.popleft())

    def pop(self) -> Events:
        """Return the events that have arrived since the last call, in output indices."""
        self.settle()
        if not self._ready:
            return NO_EVENTS
        ready, self._ready = self._ready, deque()
        return Events.join(ready)
