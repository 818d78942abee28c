"""A paced feed on a socket, from the first subscriber to the last sample or the wish to stop."""

import json
import time
from dataclasses import dataclass, replace

from igbss_stream._util.progress import Progress
from igbss_stream._util.signals import StopSignal
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.feeds.zmq_publisher import ZmqPublisher
from igbss_stream.playback.pacing import Feed, Item

_SERVE = 0.1  # seconds that subscribers may wait for an answer while nothing is published
_RETRY = 0.001  # seconds until a full queue is tried again
_ALL = 3600.0  # seconds for subscribers to take what is left of a feed that waits for them


@dataclass(slots=True)
class Published:
    """What was published.

    Parameters
    ----------
    n_samples : int
    seconds : float
        That it took, from the first subscriber on if one was waited for.
    overflows : int
        How often a subscriber fell behind.
    gaps, samples_lost : int
        Declared in it, the begin of another loop among them, and the samples in them.
    """

    n_samples: int = 0
    seconds: float = 0.0
    overflows: int = 0
    gaps: int = 0
    samples_lost: int = 0

    def count(self, item: Item) -> None:
        """Take in an item."""
        if isinstance(item, Chunk):
            self.n_samples += len(item.data)
        else:
            self.gaps += 1
            self.samples_lost += item.n_samples

    def as_json(self, stream: Stream, address: str, *, interrupted: bool) -> str:
        """Return it as an object of JSON, with the names that `listen --json` has for the other end.

        Parameters
        ----------
        stream : Stream
            What was published.
        address : str
            Where.
        interrupted : bool
            Whether it was stopped before its end.

        Returns
        -------
        str
        """
        told = {
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
            "overflows": self.overflows,
            "interrupted": interrupted,
        }
        return json.dumps(told, allow_nan=False)


class ServingClock:
    """Waits on behalf of a sink, whose subscribers are served meanwhile, until a stop is wanted.

    Parameters
    ----------
    sink : ZmqPublisher
    stop : Stop
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
        """Wait until somebody subscribes."""
        while not (self._sink.subscriptions or self._stop.wait(_SERVE / 10)):
            self._sink.serve()


def publish(
    feed: Feed,
    sink: ZmqPublisher,
    stop: StopSignal,
    *,
    wait: bool = False,
    progress: Progress | None = None,
) -> Published:
    """Publish a feed to its end, or until a stop is wanted; say that it ends, and close the sink.

    Parameters
    ----------
    feed : Feed
    sink : ZmqPublisher
        Not started yet.
    stop : Stop
    wait : bool
        Whether to wait for a first subscriber.
    progress : callable, optional
        Told how far it is.

    Returns
    -------
    Published
    """
    clock = ServingClock(sink, stop)
    if wait:
        _wait(clock, progress)
    out, began, patient = Published(), clock.now(), feed.speed == 0
    sink.start(replace(feed.stream, t0=time.time()) if feed.speed == 1 else feed.stream)

    def retry() -> bool:
        return patient and not stop.wait(_RETRY)

    for item in feed.items(clock):
        if stop.requested:
            break
        sink.publish(item, retry)
        out.count(item)
        if progress is not None:
            progress("publishing", out.n_samples, feed.n_samples)
    if patient and not stop.requested:
        sink.close(_ALL, retry)
    else:
        sink.close()
    out.seconds, out.overflows = clock.now() - began, sink.overflows
    return out


def _wait(clock: ServingClock, progress: Progress | None) -> None:
    """Wait for a first subscriber, and say so."""
    tell = progress or (lambda *_: None)
    tell("waiting for a subscriber", 0, None)
    clock.wait_for_subscriber()
    tell("waiting for a subscriber", 1, 1)
