"""A paced feed on a socket, from the first subscriber to the last sample or the wish to stop."""

import time
from dataclasses import dataclass, replace

from igbss_stream.chunk import Chunk
from igbss_stream.console import Progress
from igbss_stream.live.pacing import Feed
from igbss_stream.live.stop import Stop
from igbss_stream.publish.zmq import ZmqSink

_SERVE = 0.1  # seconds that subscribers may wait for an answer while nothing is published
_RETRY = 0.001  # seconds until a full queue is tried again
_ALL = 3600.0  # seconds for subscribers to take what is left of a feed that waits for them


@dataclass(slots=True)
class Published:
    """What was published: samples, the seconds it took, and how often a subscriber fell behind."""

    n_samples: int = 0
    seconds: float = 0.0
    overflows: int = 0


class ServingClock:
    """Waits on behalf of a sink, whose subscribers are served meanwhile, until a stop is wanted.

    Parameters
    ----------
    sink : ZmqSink
    stop : Stop
    """

    def __init__(self, sink: ZmqSink, stop: Stop) -> None:
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
    sink: ZmqSink,
    stop: Stop,
    *,
    wait: bool = False,
    progress: Progress | None = None,
) -> Published:
    """Publish a feed to its end, or until a stop is wanted; say that it ends, and close the sink.

    Parameters
    ----------
    feed : Feed
    sink : ZmqSink
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
        clock.wait_for_subscriber()
    out, began, patient = Published(), clock.now(), feed.speed == 0
    sink.start(replace(feed.stream, t0=time.time()) if feed.speed == 1 else feed.stream)

    def retry() -> bool:
        return patient and not stop.wait(_RETRY)

    for item in feed.items(clock):
        if stop.requested:
            break
        sink.publish(item, retry)
        out.n_samples += len(item.data) if isinstance(item, Chunk) else 0
        if progress is not None:
            progress("publishing", out.n_samples, feed.n_samples)
    if patient and not stop.requested:
        sink.close(_ALL, retry)
    else:
        sink.close()
    out.seconds, out.overflows = clock.now() - began, sink.overflows
    return out
