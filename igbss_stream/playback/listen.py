"""A subscription that is watched, and recorded."""

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

_POLL = 0.1  # seconds until a wish to stop is heeded
_INTERVAL = 1.0  # seconds between reports
_HINT = 5.0  # seconds without anything after which its causes are told
_UNDESCRIBED = 10.0  # seconds for which samples are kept until the publisher describes them


class Recorder(Protocol):
    """Writes what comes; `igbss_stream.files.writers.stream_recording.RecordingSink` is one."""

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Begin a recording of the stream; called once, before the first item."""
        ...

    def write(self, item: Item) -> None:
        """Write samples, or what is missing."""
        ...


class Tape:
    """Keeps what comes until the publisher has described it, and writes it from then on.

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
        """Take in what came.

        Parameters
        ----------
        items : list of Chunk and Gap
        meta : MetaMessage or None
            The publisher's description; None as long as there is none.
        now : float
            In seconds.

        Raises
        ------
        RecordingError
            If it cannot be written, or remains without description.
        """
        if not self._kept:
            self._since = now
        self._kept += items
        if meta is None:
            if now - self._since > _UNDESCRIBED:
                raise RecordingError(
                    f"the stream cannot be recorded: its publisher has not described it for "
                    f"{_UNDESCRIBED:g} s, so its rate and channels are not known"
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
    """Watch a stream until it ends, the time is over or a stop is wanted.

    Parameters
    ----------
    subscriber : Subscriber
    stop : StopSignal
    show : callable
        Takes a `Report`, every second and at the end.
    seconds : float
    recorder : Recorder, optional
        Closed by the caller.

    Returns
    -------
    Report
        The last one.

    Raises
    ------
    FeedError
        If the time is over and nothing at all has come.
    RecordingError
        If a recording cannot be written.

    Warns
    -----
    IgbssWarning
        If nothing has come for a while, which it goes on to wait for.
    """
    tape = None if recorder is None else Tape(recorder)
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
        if due <= now < end:  # the last report comes below
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
