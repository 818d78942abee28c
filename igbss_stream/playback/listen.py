"""Monitor a published stream, and record it."""

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.errors import IgbssWarning, RecordingError
from igbss_stream.events import Events
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.feeds.wire import MetaMessage
from igbss_stream.playback.monitoring import Monitor, Report
from igbss_stream.playback.pacing import Item
from igbss_stream.playback.render import Show
from igbss_stream.subscriber import Subscriber

_POLL = 0.1  # seconds until a stop request takes effect
_INTERVAL = 1.0  # seconds between reports
_HINT = 5.0  # seconds of silence after which possible causes are reported
_MOST_EVENTS = 1 << 16  # events that are buffered
_UNDESCRIBED = 10.0  # seconds for which samples are buffered until the publisher describes them


class Recorder(Protocol):
    """The interface of a recording; `igbss_stream.files.writers.stream_recording` has one."""

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Start the recording, or continue it with another description."""
        ...

    def set_learning(self, learning: LearningFacts | None) -> None:
        """State how a model was learned, before its first samples; None if it is not known."""
        ...

    def write(self, item: Item) -> None:
        """Write a chunk or a gap."""
        ...

    def write_events(self, events: Events) -> None:
        """Write events, after the samples that they belong to."""
        ...

    def serve(self) -> None:
        """Do periodic work."""
        ...


class DeferredRecorder:
    """Buffer items until the publisher has described the stream, then write them.

    A description with another name, rate, unit or type, or other channels, starts the recording again.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: list[Item] = []
        self._events = Events()  # that wait for their samples to be written
        self._since = 0.0
        self._stop = 0  # index after the last item that was written
        self._stream: Stream | None = None

    def take(
        self,
        items: list[Item],
        meta: MetaMessage | None,
        now: float,
        offset: int = 0,
        events: Events | None = None,
    ) -> None:
        """Buffer or write items and events.

        Parameters
        ----------
        items : list of Chunk and Gap
        meta : MetaMessage or None
            Description of the items; None until it has arrived.
        now : float
            Time in seconds.
        offset : int
            Index of the items minus that of the publisher.
        events : Events, optional
            In indices of the items.

        Raises
        ------
        RecordingError
            If writing fails, or no description arrives.
        """
        if not self._kept:
            self._since = now
        self._kept += items
        if events is not None and len(events):
            self._events = Events.join([self._events, events])[-_MOST_EVENTS:]
        if meta is not None:
            if self._stream is None or (self._kept and _differ(self._stream, meta.description)):
                self._start(meta, offset)
            self._recorder.set_learning(meta.learning)
            self._write(meta.description.n_channels)
        if self._kept and now - self._since > _UNDESCRIBED:
            raise RecordingError(
                f"the stream cannot be recorded: its publisher has sent no description for "
                f"{_UNDESCRIBED:g} s, so its rate and channels are unknown; check the publisher"
            )

    def _write(self, n_channels: int) -> None:
        """Write items up to the first samples with other channels, which are not described yet."""
        n_items = 0
        for item in self._kept:
            if isinstance(item, Chunk) and item.data.shape[1] != n_channels:
                break
            self._recorder.write(item)
            n_items += 1
            self._stop = item.stop
            self._write_events(self._stop)
        del self._kept[:n_items]
        self._write_events(self._stop)  # those that arrived after their sample
        self._recorder.serve()

    def finish(self) -> None:
        """Write the events that wait, at the end of the stream."""
        if self._stream is not None:
            self._write_events(math.inf)

    def _write_events(self, stop: float) -> None:
        """Write the events of the samples before an index."""
        n = int(np.searchsorted(self._events.index, stop - 0.5))
        if n:
            self._recorder.write_events(self._events[:n])
            self._events = self._events[n:]

    def _start(self, meta: MetaMessage, offset: int) -> None:
        """Start a file; its times are right though indices continue those of an earlier run."""
        self.finish()  # events of the previous run
        self._stream = stream = meta.description
        t0 = None if stream.t0 is None else stream.t0 - offset / stream.rate
        self._recorder.start(replace(stream, t0=t0), meta.extra)


def _differ(one: Stream, other: Stream) -> bool:
    """Return whether the samples of two runs cannot be in one file."""
    return replace(one, t0=None, delay=0) != replace(other, t0=None, delay=0)


def listen(
    subscriber: Subscriber,
    stop: StopSignal,
    show: Show,
    *,
    seconds: float = math.inf,
    recorder: Recorder | None = None,
) -> Report:
    """Monitor a stream until it ends, the time is up or a stop is requested.

    Parameters
    ----------
    subscriber : Subscriber
    stop : StopSignal
    show : callable
        Called with a `Report` every second and at the end.
    seconds : float
    recorder : Recorder, optional
        The caller closes it.

    Returns
    -------
    Report
        The last report.

    Raises
    ------
    FeedError
        If the time is up and nothing has arrived.
    RecordingError
        If a recording cannot be written.

    Warns
    -----
    IgbssWarning
        If nothing has arrived for a while; monitoring continues.
    """
    tape = None if recorder is None else DeferredRecorder(recorder)
    began = now = time.monotonic()
    monitor, due, end = Monitor(began), began + _INTERVAL, began + seconds
    hint = began + _HINT
    while now < end and not (stop.requested or subscriber.ended):
        items = subscriber.receive(max(0.0, min(due - now, end - now, _POLL)))
        meta = subscriber.meta if subscriber.described else None
        now = time.monotonic()
        monitor.take(items, meta.description if meta else None, now, time.time())
        events = subscriber.pop_events()
        monitor.take_events(events, subscriber.events_lost)
        if tape is not None:
            tape.take(items, meta, now, subscriber.index_offset, events)
        if due <= now < end:  # the last report follows below
            show(monitor.report(now, others=subscriber.others, refusal=subscriber.refusal))
            due += _INTERVAL * math.ceil((now - due) / _INTERVAL + 1e-9)
        if now >= hint and not (monitor.samples or subscriber.described):
            warnings.warn(str(subscriber.silence(_HINT)), IgbssWarning, stacklevel=2)
            hint = math.inf
    if tape is not None:
        tape.finish()
    if not (monitor.samples or subscriber.described or stop.requested or subscriber.ended):
        raise subscriber.silence(seconds)
    last = monitor.report(now, ended=subscriber.ended, others=subscriber.others, refusal=subscriber.refusal)
    show(last)
    return last
