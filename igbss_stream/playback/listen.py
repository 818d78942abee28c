"""Monitor a published stream, and record it."""

import math
import time
import warnings
from collections.abc import Mapping
from typing import Any, Protocol

from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Stream
from igbss_stream.errors import IgbssWarning, RecordingError
from igbss_stream.feeds.wire import MetaMessage
from igbss_stream.playback.monitoring import Monitor, Report
from igbss_stream.playback.pacing import Item
from igbss_stream.playback.render import Show
from igbss_stream.subscriber import Subscriber

_POLL = 0.1  # seconds until a stop request takes effect
_INTERVAL = 1.0  # seconds between reports
_HINT = 5.0  # seconds of silence after which possible causes are reported
_UNDESCRIBED = 10.0  # seconds for which samples are buffered until the publisher describes them


class Recorder(Protocol):
    """The interface of a recording; `igbss_stream.files.writers.stream_recording` has one."""

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Start the recording; called once, before the first item."""
        ...

    def write(self, item: Item) -> None:
        """Write a chunk or a gap."""
        ...


class DeferredRecorder:
    """Buffer items until the publisher has described the stream, then write them.

    Parameters
    ----------
    recorder : Recorder
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._kept: list[Item] = []
        self._since = 0.0
        self._started = False

    def take(self, items: list[Item], meta: MetaMessage | None, now: float) -> None:
        """Buffer or write items.

        Parameters
        ----------
        items : list of Chunk and Gap
        meta : MetaMessage or None
            Description of the stream; None until it has arrived.
        now : float
            Time in seconds.

        Raises
        ------
        RecordingError
            If writing fails, or no description arrives.
        """
        if not self._kept:
            self._since = now
        self._kept += items
        if meta is None:
            if now - self._since > _UNDESCRIBED:
                raise RecordingError(
                    f"the stream cannot be recorded: its publisher has sent no description for "
                    f"{_UNDESCRIBED:g} s, so its rate and channels are unknown; check the publisher"
                )
            return
        if not self._started:
            self._recorder.start(meta.description, meta.extra)
            self._started = True
        for item in self._kept:
            self._recorder.write(item)
        self._kept.clear()


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
        if tape is not None:
            tape.take(items, meta, now)
        if due <= now < end:  # the last report follows below
            show(monitor.report(now, others=subscriber.others, refusal=subscriber.refusal))
            due += _INTERVAL * math.ceil((now - due) / _INTERVAL + 1e-9)
        if now >= hint and not (monitor.samples or subscriber.described):
            warnings.warn(str(subscriber.silence(_HINT)), IgbssWarning, stacklevel=2)
            hint = math.inf
    if not (monitor.samples or subscriber.described or stop.requested or subscriber.ended):
        raise subscriber.silence(seconds)
    last = monitor.report(now, ended=subscriber.ended, others=subscriber.others, refusal=subscriber.refusal)
    show(last)
    return last
