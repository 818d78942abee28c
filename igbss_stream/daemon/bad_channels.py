"""Leave bad channels out of a stream of the daemon: log what changes, and keep counts over runs."""

import logging
import math
import sys
from collections.abc import Callable
from dataclasses import asdict

from igbss_stream.bad_channels.memory import ChannelMemory
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.events import Events, cut_text
from igbss_stream.preparation.bad_channels.stage import BadChannelStage

log = logging.getLogger(__name__)


class WatchedChannels:
    """The bad channels of a stream, from its first description on.

    Parameters
    ----------
    config : StreamSection
    announce : callable
        Called with the changes of channels as events, in indices of the source.
    memory : ChannelMemory, optional
        What an earlier run of the daemon has learned; for the first run of the stream.

    Attributes
    ----------
    bad : tuple of str
        Names of the channels that are currently bad. Any thread may read them.
    """

    def __init__(
        self,
        config: StreamSection,
        announce: Callable[[Events], None],
        memory: ChannelMemory | None = None,
    ) -> None:
        self._name, self._settings = config.name, config.bad_channels.as_settings()
        self._stage: BadChannelStage | None = None
        self._ratio = 1.0
        self._memory, self._announce = memory, announce
        self.bad: tuple[str, ...] = ()

    def begin(self, stream: Stream, rate: float) -> None:
        """Begin a run of a stream; nothing is known of its channels, unless an earlier daemon learned it.

        Parameters
        ----------
        stream : Stream
        rate : float
            Sampling rate of the prepared samples, in Hz.
        """
        self._ratio = rate / stream.rate
        memory, self._memory = self._memory, None
        if memory is not None and not memory.fits(stream.channels, stream.rate, stream.unit):
            memory = None
        stage = BadChannelStage(stream, self._settings, memory)
        if self._stage is not None:
            stage.counts = self._stage.counts  # which never decrease
        self._stage, self.bad = stage, stage.bad

    def push(self, item: Chunk | Gap) -> Chunk | Gap:
        """Return the next item with bad channels replaced, and log changes.

        Parameters
        ----------
        item : Chunk or Gap
        """
        if self._stage is None:
            return item
        item = self._stage.push(item)
        found = self._stage.pop_events()
        for event in found:
            log.warning("stream %s: %s", self._name, event)
        if found:
            labels = [cut_text(f"{event.channel} is {event.kind}") for event in found]
            self._announce(Events([event.index for event in found], labels, source="bad channels"))
        self.bad = self._stage.bad
        return item

    def settle(self) -> None:
        """Do what the next samples would have to wait for."""
        if self._stage is not None:
            self._stage.settle()

    def get_memory(self) -> ChannelMemory | None:
        """Return what was learned of the channels; None if nothing was."""
        return self._memory if self._stage is None else self._stage.get_memory()

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
