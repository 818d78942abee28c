"""Read a stream, and the metrics of the daemon, in threads that all open pages share."""

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
from igbss_stream.pages.view.control_access import ControlAccess
from igbss_stream.pages.view.state import ViewState
from igbss_stream.playback.monitoring import Monitor, Report
from igbss_stream.positions import Positions
from igbss_stream.subscriber import Subscriber

_WAIT = 0.1  # seconds until a stop request takes effect
_GATHER = 0.02  # seconds to collect messages: waking up for each would cost more than reading it
_REPORT = 0.5  # seconds between reports
_POLL = 3.0  # seconds between requests to the daemon, each of which takes it a millisecond or two
_TIMEOUT = 2.0  # seconds to wait for the response
_MAX_RESPONSE = 1 << 22  # bytes


@dataclass(frozen=True)
class DaemonMetrics:
    """Metrics of the daemon for one stream.

    Parameters
    ----------
    samples : mapping of str to int
        Number of samples by fate: in, out, gap.
    events : mapping of str to int
        Number of events by kind.
    delay : float or None
        Upper bound in seconds of the delay of 99 % of the samples; infinity above the last bucket.
    """

    samples: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    delay: float | None = None


def parse_metrics(text: str, stream: str) -> DaemonMetrics:
    """Parse the metrics of a stream.

    Parameters
    ----------
    text : str
        In the format of Prometheus.
    stream : str

    Returns
    -------
    DaemonMetrics
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
    return DaemonMetrics(samples, events, _compute_quantile(buckets, 0.99))


def _compute_quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return the upper bound of the first bucket that contains at least the given share."""
    total = max((count for _, count in buckets), default=0)
    return next((bound for bound, count in sorted(buckets) if count >= share * total > 0), None)


class Feed(Closeable):
    """Reads a stream in a separate thread, once the first page is opened.

    Parameters
    ----------
    address : str
        Address where the sources are published.
    topic : str
        Name of the stream; if empty, the first stream that arrives.
    keys : ClientKeys, optional
        Keys, if the publisher of the sources encrypts.
    channels : str, optional
        Address where the channels are published. If None, they are computed from the sources.
    channels_keys : ClientKeys, optional
        Keys, if the publisher of the channels encrypts.
    metrics : str, optional
        Address of the metrics of the daemon, such as ``"http://127.0.0.1:9464/metrics"``.
    montage : Positions, optional
        Replace those that the stream states.
    control : ControlAccess, optional
        Passes the choices of sources of the pages on to the daemon; closed with the feed.

    Attributes
    ----------
    lock : Lock
        Must be held while `state` is read.
    state : ViewState
    report : Report or None
        Statistics of the stream, at most half a second old.
    daemon_metrics : DaemonMetrics or None
        None if metrics are not requested or the daemon does not respond.

    Raises
    ------
    ParameterError
        If an address is invalid.
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
        montage: Positions | None = None,
        control: ControlAccess | None = None,
    ) -> None:
        for one in (address, channels):
            if one is not None:
                check_address(one, bind=False)
        self.address, self.topic = address, topic
        self.channels_address = channels
        self.lock = threading.Lock()
        self.state = ViewState(raw=channels is not None, montage=montage)
        self.report: Report | None = None
        self.daemon_metrics: DaemonMetrics | None = None
        self.control = control
        self._keys, self._channels_keys = keys, channels_keys
        self._metrics = metrics
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start to read, unless it has started."""
        if self._threads or self._stopping.is_set():
            return
        self._start_thread("sources", self._read_stream)
        if self.channels_address is not None:
            self._start_thread("channels", partial(self._read_channels, self.channels_address))
        if self._metrics is not None:
            self._start_thread("metrics", self._poll_metrics)

    def close(self) -> None:
        """Stop reading. Closing twice is allowed."""
        self._stopping.set()
        if self.control is not None:
            self.control.close()
        for thread in self._threads:
            thread.join(2 * _TIMEOUT)

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read_stream(self) -> None:
        """Read one run of the daemon after another, because a daemon may be restarted."""
        topic = self.topic
        while not self._stopping.is_set():
            with Subscriber(self.address, topic, keys=self._keys) as sources:
                self._read_run(sources)
                if (
                    sources.others and sources.described
                ):  # another stream could arrive first after a restart
                    topic = sources.stream.name

    def _read_run(self, sources: Subscriber) -> None:
        monitor, due = Monitor(time.monotonic()), 0.0
        has_arrived = (
            self.report is None or not self.report.ended
        )  # an ended stream stays so until data arrive
        while not (self._stopping.is_set() or sources.ended):
            items = sources.receive(_WAIT)
            meta = sources.meta if sources.described else None
            with self.lock:
                self.state.update(items, meta, sources.index_offset)
                self.state.update_events(sources.pop_events())
            now = time.monotonic()
            monitor.take(items, meta.description if meta else None, now, time.time())
            has_arrived = has_arrived or meta is not None or bool(sources.refusal)
            if has_arrived and (now >= due or sources.ended):
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
                        self.state.update_channels(items, stream)
                        if channels.refusal:
                            self.state.problem = (
                                f"No channels: {address} does not let the page in: {channels.refusal}."
                            )
                    self._stopping.wait(_GATHER)

    def _poll_metrics(self) -> None:
        """Request the metrics of the daemon repeatedly."""
        while not self._stopping.wait(_POLL):
            name = self.state.stream.name if self.state.stream else self.topic
            try:
                with urllib.request.urlopen(str(self._metrics), timeout=_TIMEOUT) as response:
                    text = response.read(_MAX_RESPONSE).decode()
                self.daemon_metrics = parse_metrics(text, name)
            except (OSError, ValueError):  # no daemon or no metrics: the page shows none
                self.daemon_metrics = None
