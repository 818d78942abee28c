"""Leave bad channels out of a stream of the daemon: log what changes, and keep counts over runs."""

import logging
import math
import sys
from dataclasses import asdict

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.preparation.bad_channels.stage import BadChannelStage

log = logging.getLogger(__name__)


class WatchedChannels:
    """The bad channels of a stream, from its first description on.

    Parameters
    ----------
    config : StreamSection
    """

    def __init__(self, config: StreamSection) -> None:
        self._name, self._settings = config.name, config.bad_channels.as_settings()
        self._stage: BadChannelStage | None = None
        self._ratio = 1.0

    def begin(self, stream: Stream, rate: float) -> None:
        """Begin a run of a stream; nothing is known of its channels.

        Parameters
        ----------
        stream : Stream
        rate : float
            Sampling rate of the prepared samples, in Hz.
        """
        self._ratio = rate / stream.rate
        stage = BadChannelStage(stream, self._settings)
        if self._stage is not None:
            stage.counts = self._stage.counts  # which never decrease
        self._stage = stage

    def push(self, item: Chunk | Gap) -> Chunk | Gap:
        """Return the next item with bad channels replaced, and log changes.

        Parameters
        ----------
        item : Chunk or Gap
        """
        if self._stage is None:
            return item
        item = self._stage.push(item)
        for event in self._stage.pop_events():
            log.warning("stream %s: %s", self._name, event)
        return item

    @property
    def bad(self) -> tuple[str, ...]:
        """Names of the channels that are currently bad. Any thread may ask for them."""
        return () if self._stage is None else self._stage.bad

    def get_spans(self) -> list[tuple[int, int]]:
        """Return start and stop of the prepared samples in which channels are replaced as a whole."""
        spans = [] if self._stage is None else [*self._stage.spans]
        return [
            (
                math.floor(start * self._ratio),
                sys.maxsize if stop is None else math.ceil(stop * self._ratio),
            )
            for start, stop in spans
        ]

    def get_counts(self) -> dict[str, int]:
        """Return the counts by the name of their metric. Any thread may call this."""
        counts = {} if self._stage is None else asdict(self._stage.counts)
        return {f"bad_channels_{name}": count for name, count in counts.items()}
