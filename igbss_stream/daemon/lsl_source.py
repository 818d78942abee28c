"""Receive a stream of the Lab Streaming Layer as a source of the daemon."""

import logging
import math
from collections.abc import Mapping
from functools import partial

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import LslInput
from igbss_stream.daemon.counter_watch import CounterWatch
from igbss_stream.daemon.descriptions import apply_expectations
from igbss_stream.daemon.sources import SilenceMonitor, count_rejections
from igbss_stream.errors import StreamNotFoundError
from igbss_stream.events import NO_EVENTS, Events
from igbss_stream.feeds.lsl_inlet import LslInlet
from igbss_stream.feeds.lsl_marker_inlet import LslMarkerInlet

log = logging.getLogger(__name__)

_SEARCH_TIME = 10.0  # seconds of one search, if the search has no limit


class LslStreamSource:
    """Read an LSL stream, and log once if its times contradict its rate.

    Parameters
    ----------
    name : str
        Name of the stream in the daemon.
    config : LslInput

    Raises
    ------
    FeedError
        If no such stream appears within the time in the configuration.
    ParameterError
        If the stream is not as the configuration expects.
    """

    def __init__(self, name: str, config: LslInput) -> None:
        self.run, self.has_pending, self.ended = 0, False, False
        self.silence = SilenceMonitor(name, config.silence)
        self._name, self._config = name, config
        self._watch = CounterWatch(name, (*(config.events or ()), *(config.omit or ())))
        self._inlet = _open_inlet(config)
        self.stream: Stream | None = apply_expectations(name, config, self._inlet.stream)
        queries = [markers.as_query() for markers in config.markers]
        self._markers = LslMarkerInlet(queries) if queries else None
        self._logged_markers = set[str]()
        self._is_closed = False
        self._is_rate_logged = False

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived."""
        items = self._inlet.receive(timeout)
        if self._markers is not None:
            self._receive_markers(self._markers)
        self.silence.update(bool(items))
        if items and self.stream is not None and self.stream.t0 is None:
            # the time of the first sample is known now
            self.stream = apply_expectations(self._name, self._config, self._inlet.stream)
        self._watch.look(items, self.stream, self.run)
        if not self._is_rate_logged:
            self._log_rate()
        return items

    def pop_events(self) -> Events:
        """Return the markers that the samples have reached since the last call; after `close`, the rest."""
        if self._markers is None:
            return NO_EVENTS
        return self._markers.pop(partial(self._inlet.find_index, beyond=self._is_closed))

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        account = self._inlet.indexer
        return count_rejections(self._inlet.rejected) | {
            "messages": self._inlet.received,
            "samples_in": account.samples_in,
            "samples_lost": account.samples_lost,
            "restarts": account.restarts,
            "silences": self.silence.count,
            "markers": 0 if self._markers is None else self._markers.received,
            "events_lost": 0 if self._markers is None else self._markers.n_lost,
        }

    def _receive_markers(self, markers: LslMarkerInlet) -> None:
        """Take markers, and log once that each of their streams was found."""
        markers.receive()
        for name in markers.names:
            if name not in self._logged_markers:
                self._logged_markers.add(name)
                log.info("stream %s: markers come from the LSL stream %r", self._name, name)

    def _log_rate(self) -> None:
        """Warn once if the times of the samples give another rate than the stated or the set one."""
        measured = self._inlet.indexer.measured_rate
        if measured is None:
            return
        self._is_rate_logged = True
        text, set_rate = _format_rate(measured), self._config.rate
        log.warning(
            "stream %s: the source states %g Hz, but its times say %s Hz; set source.rate: %g"
            if set_rate is None
            else "stream %s: source.rate is %g Hz, but the times say %s Hz; set source.rate: %g",
            self._name,
            self._inlet.stated_rate if set_rate is None else set_rate,
            text,
            float(text),
        )

    def close(self) -> None:
        """Close the inlets."""
        self._is_closed = True
        self._inlet.close()
        if self._markers is not None:
            self._markers.close()


def _format_rate(rate: float) -> str:
    """Return a rate with four digits, and with one decimal at least to show that it was measured."""
    return f"{rate:.{max(1, 3 - math.floor(math.log10(rate)))}f}"


def _open_inlet(config: LslInput) -> LslInlet:
    """Search for the stream, without a limit if the configuration sets none."""
    while True:
        try:
            return LslInlet(
                config.name,
                config.type,
                config.source_id,
                timeout=config.wait or _SEARCH_TIME,
                buffer=config.buffer,
                rate=config.rate,
            )
        except StreamNotFoundError:
            if config.wait is not None:
                raise
