"""The thread that reads a stream, and what the daemon tells of itself, for all pages that show it."""

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client.parser import text_string_to_metric_families

from igbss_stream._util.closeable import Closeable
from igbss_stream.feeds.addresses import check_address
from igbss_stream.feeds.keys import ClientKeys
from igbss_stream.pages.view.state import Shown
from igbss_stream.playback.monitoring import Monitor, Report
from igbss_stream.subscriber import Subscriber

_WAIT = 0.1  # seconds until a wish to stop is heeded
_GATHER = 0.02  # seconds in which messages gather: a wake for each would cost more than to read it
_REPORT = 0.5  # seconds between reports
_ASK = 3.0  # seconds between questions to the daemon, each of which costs it a millisecond or two
_PATIENCE = 2.0  # seconds that its answer may take
_LARGEST_ANSWER = 1 << 22


@dataclass(frozen=True)
class DaemonFigures:
    """What the metrics of the daemon say of one stream.

    Parameters
    ----------
    samples : mapping of str to int
        By fate: in, out, gap.
    events : mapping of str to int
        By kind.
    delay : float or None
        Bound in seconds below which 99 % of the samples were published; infinity beyond the last one.
    """

    samples: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    delay: float | None = None


def figures_of(text: str, stream: str) -> DaemonFigures:
    """Read the metrics of a stream.

    Parameters
    ----------
    text : str
        In the format of Prometheus.
    stream : str

    Returns
    -------
    DaemonFigures
    """
    samples: Counter[str] = Counter()
    events: Counter[str] = Counter()
    buckets: list[tuple[float, float]] = []
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            if one.labels.get("stream") != stream:
                continue
            if one.name == "igbss_samples_total":
                samples[one.labels["fate"]] = int(one.value)
            elif one.name == "igbss_events_total":
                events[one.labels["kind"]] = int(one.value)
            elif one.name == "igbss_delay_seconds_bucket":
                buckets.append((float(one.labels["le"]), one.value))
    return DaemonFigures(samples, events, _quantile(buckets, 0.99))


def _quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return the bound of the first bucket that holds so large a share."""
    total = max((count for _, count in buckets), default=0)
    return next((bound for bound, count in sorted(buckets) if count >= share * total > 0), None)


class Feed(Closeable):
    """Reads a stream in a thread of its own, from the first page on.

    Parameters
    ----------
    address : str
        Where the sources are published.
    topic : str
        Name of the stream; empty takes the first one that comes.
    keys : ClientKeys, optional
        Where the publisher of the sources encrypts.
    channels : str, optional
        Where the channels are published; left out, they are made from the sources.
    channels_keys : ClientKeys, optional
        Where the publisher of the channels encrypts.
    metrics : str, optional
        Where the daemon tells its metrics, such as ``"http://127.0.0.1:9464/metrics"``.

    Attributes
    ----------
    lock : Lock
        To be held while `shown` is read.
    shown : Shown
    report : Report or None
        What the stream looked like, at most half a second ago.
    figures : DaemonFigures or None
        What the daemon says of it; None if it is not asked or does not answer.

    Raises
    ------
    ParameterError
        If an address is not one.
    """

    def __init__(
        self,
        address: str,
        topic: str = "",
        *,
        keys: ClientKeys | None = None,
        channels: str | None = None,
        channels_keys: ClientKeys | None = None,
        metrics: str | None = None,
    ) -> None:
        for one in (address, channels):
            if one is not None:
                check_address(one, bind=False)
        self.address, self.topic = address, topic
        self.channels_address = channels
        self.lock = threading.Lock()
        self.shown = Shown(raw=channels is not None)
        self.report: Report | None = None
        self.figures: DaemonFigures | None = None
        self._keys, self._channels_keys = keys, channels_keys
        self._metrics = metrics
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to read; does nothing if it has begun."""
        if self._threads or self._stopping.is_set():
            return
        self._begin("sources", self._read)
        if self.channels_address is not None:
            self._begin("channels", partial(self._read_channels, self.channels_address))
        if self._metrics is not None:
            self._begin("metrics", self._ask)

    def close(self) -> None:
        """Stop reading. Closing it twice is allowed."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(2 * _PATIENCE)

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self) -> None:
        """Read one run after the other: a daemon that has ended may start again."""
        topic = self.topic
        while not self._stopping.is_set():
            with Subscriber(self.address, topic, keys=self._keys) as sources:
                self._read_run(sources)
                if sources.others and sources.described:  # the first that comes now may be another
                    topic = sources.stream.name

    def _read_run(self, sources: Subscriber) -> None:
        monitor, due = Monitor(time.monotonic()), 0.0
        came = self.report is None or not self.report.ended  # what ended stays so until something comes
        while not (self._stopping.is_set() or sources.ended):
            items = sources.receive(_WAIT)
            meta = sources.meta if sources.described else None
            with self.lock:
                self.shown.take(items, meta)
            now = time.monotonic()
            monitor.take(items, meta.description if meta else None, now, time.time())
            came = came or meta is not None or bool(sources.refusal)
            if came and (now >= due or sources.ended):
                due = now + _REPORT
                self.report = monitor.report(
                    now, ended=sources.ended, others=sources.others, refusal=sources.refusal
                )
            self._stopping.wait(_GATHER)

    def _read_channels(self, address: str) -> None:
        while not self._stopping.is_set():
            with Subscriber(address, keys=self._channels_keys) as channels:
                while not (self._stopping.is_set() or channels.ended):
                    items = channels.receive(_WAIT)
                    stream = channels.meta.description if channels.described else None
                    with self.lock:
                        self.shown.take_raw(items, stream)
                        if channels.refusal:
                            self.shown.problem = (
                                f"No channels come: {address} does not let the page in: {channels.refusal}."
                            )
                    self._stopping.wait(_GATHER)

    def _ask(self) -> None:
        """Ask the daemon for its metrics, again and again."""
        while not self._stopping.wait(_ASK):
            name = self.shown.stream.name if self.shown.stream else self.topic
            try:
                with urllib.request.urlopen(str(self._metrics), timeout=_PATIENCE) as answer:
                    text = answer.read(_LARGEST_ANSWER).decode()
                self.figures = figures_of(text, name)
            except (OSError, ValueError):  # not there, or no metrics: the page shows none
                self.figures = None
