"""Publish a paced stream on a ZeroMQ socket, until its end or until a stop is requested."""

import json
import time
from dataclasses import dataclass, replace

from igbss_stream._util.progress import Progress
from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.playback.pacing import Item, PacedStream

_SERVE = 0.1  # seconds between answers to subscribers while nothing is published
_RETRY = 0.001  # seconds between attempts to send into a full queue
_LINGER = 3600.0  # seconds for subscribers to read the rest of a stream that waits for them


@dataclass(slots=True)
class PublishedCounts:
    """Counters of what was published.

    Parameters
    ----------
    n_samples : int
    seconds : float
        Duration, from the first subscriber on if one was waited for.
    overflows : int
        Number of times a subscriber fell behind.
    gaps, samples_lost : int
        Declared gaps, including the start of another loop, and the samples in them.
    n_events : int
    """

    n_samples: int = 0
    seconds: float = 0.0
    overflows: int = 0
    gaps: int = 0
    samples_lost: int = 0
    n_events: int = 0

    def count(self, item: Item) -> None:
        """Count an item."""
        if isinstance(item, Chunk):
            self.n_samples += len(item.data)
        else:
            self.gaps += 1
            self.samples_lost += item.n_samples

    def as_json(self, stream: Stream, address: str, *, interrupted: bool) -> str:
        """Return the counters as a JSON object, with the keys of `listen --json`.

        Parameters
        ----------
        stream : Stream
        address : str
        interrupted : bool
            Whether publishing was stopped before the end.

        Returns
        -------
        str
        """
        counts = {
            "stream": stream.name,
            "address": address,
            "n_channels": stream.n_channels,
            "unit": stream.unit,
            "nominal_rate": stream.rate,
            "samples": self.n_samples,
            "seconds": self.seconds,
            "rate": self.n_samples / self.seconds if self.seconds > 0 else None,
            "gaps": self.gaps,
            "samples_lost": self.samples_lost,
            "events": self.n_events,
            "overflows": self.overflows,
            "interrupted": interrupted,
        }
        return json.dumps(counts, allow_nan=False)


class ServingClock:
    """A clock that serves the subscribers of a sink while it waits; a stop request ends the wait.

    Parameters
    ----------
    sink : ZmqPublisher
    stop : StopSignal
    """

    def __init__(self, sink: ZmqPublisher, stop: StopSignal) -> None:
        self._sink = sink
        self._stop = stop

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        deadline = self.now() + seconds
        while (left := deadline - self.now()) > 0 and not self._stop.wait(min(left, _SERVE)):
            self._sink.serve()

    def wait_for_subscriber(self) -> None:
        """Wait for the first subscriber."""
        while not (self._sink.subscriptions or self._stop.wait(_SERVE / 10)):
            self._sink.serve()


def publish(
    paced: PacedStream,
    sink: ZmqPublisher,
    stop: StopSignal,
    *,
    wait: bool = False,
    progress: Progress | None = None,
) -> PublishedCounts:
    """Publish a stream to its end or until a stop is requested, send the end message and close the sink.

    Parameters
    ----------
    paced : PacedStream
    sink : ZmqPublisher
        Not started yet.
    stop : StopSignal
    wait : bool
        Whether to wait for the first subscriber.
    progress : callable, optional
        Called with the number of samples published.

    Returns
    -------
    PublishedCounts
    """
    clock = ServingClock(sink, stop)
    if wait:
        _wait(clock, progress)
    out, began, patient = PublishedCounts(), clock.now(), paced.speed == 0
    sink.start(replace(paced.stream, t0=time.time()) if paced.speed == 1 else paced.stream)

    def retry() -> bool:
        return patient and not stop.wait(_RETRY)

    for item in paced.items(clock):
        if stop.requested:
            break
        sink.publish(item, retry)
        out.count(item)
        events = paced.events.take(item.stop)
        sink.publish_events(events, retry)
        out.n_events += len(events)
        if progress is not None:
            progress("publishing", out.n_samples, paced.n_samples)
    if patient and not stop.requested:
        sink.close(_LINGER, retry)
    else:
        sink.close()
    out.seconds, out.overflows = clock.now() - began, sink.overflows
    return out


def _wait(clock: ServingClock, progress: Progress | None) -> None:
    """Wait for the first subscriber, and report it."""
    report = progress or (lambda *_: None)
    report("waiting for a subscriber", 0, None)
    clock.wait_for_subscriber()
    report("waiting for a subscriber", 1, 1)
