"""Where samples of a live stream come from, as the daemon sees it: chunks and gaps in order, and who sends.

A feed owns its socket or file and its account of samples. What it sends is known only once something has
come, so that `stream` is None at first.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.keys import CurveClient, CurveServer
from igbss_stream.daemon.config.sources import LslFeed, OpenEphysFeed, ZmqFeed
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.keys import ClientKeys, ServerKeys
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import DataMessage, EndMessage, Message, MetaMessage, WireLimits
from igbss_stream.feeds.zmq_receiver import ZmqReceiver

log = logging.getLogger(__name__)

_RATE_TOLERANCE = 1e-3  # share by which clocks of devices differ at most: 1000.012 Hz is 1 kHz


class Feed(Protocol):
    """What the daemon needs of a feed."""

    stream: Stream | None
    """What it sends; None as long as that is not known."""
    ended: bool
    """Whether nothing will come any more."""
    silence: "Silence"

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to so many seconds, and return what came."""

    def counts(self) -> Mapping[str, int]:
        """Return counters by name."""

    def close(self) -> None:
        """Close what it holds."""


class Silence:
    """Notices that nothing comes, says so once, and says when something comes again.

    Parameters
    ----------
    name : str
        Of the stream.
    after : float
        Seconds; may be changed.
    """

    def __init__(self, name: str, after: float) -> None:
        self.after = after
        self.is_silent = False
        self.count = 0
        self._name = name
        self._last = time.monotonic()

    def heard(self, something: bool) -> bool:
        """Take note; return whether silence begins now."""
        now = time.monotonic()
        if something:
            if self.is_silent:
                log.info("stream %s is back after %.1f s", self._name, now - self._last)
            self.is_silent, self._last = False, now
            return False
        begins = not self.is_silent and now - self._last > self.after
        if begins:
            self.is_silent = True
            self.count += 1
            log.warning("stream %s has been silent for %g s", self._name, self.after)
        return begins


class SocketFeed:
    """Messages from a ZeroMQ socket, in the format of docs/wire.md or of Open Ephys.

    Parameters
    ----------
    name : str
        Of the stream, in the daemon.
    config : ZmqFeed or OpenEphysFeed

    Raises
    ------
    FeedError
        If the socket cannot be opened.
    """

    def __init__(self, name: str, config: ZmqFeed | OpenEphysFeed) -> None:
        self.stream: Stream | None = None
        self.ended = False
        self.is_failed = False
        self.refused = 0
        self.silence = Silence(name, config.silence)
        self._name, self._config = name, config
        self._sequencer: Sequencer | None = None
        self.source = _source(config)
        self.address = self.source.address

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to so many seconds, and return what came in the order of its samples."""
        messages = self.source.receive(timeout)
        out = [item for message in messages for item in self._take(message)]
        if self.silence.heard(bool(messages)) and self._sequencer is not None:
            out += self._sequencer.flush()
        return out

    def counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        counted = {"messages": self.source.received, "silences": self.silence.count}
        counted |= {f"rejected_{reason}": n for reason, n in self.source.rejected.items()}
        counted["rejected_description"] = self.refused
        counted["denied"] = self.source.denied
        if self._sequencer is not None:
            counts = self._sequencer.counts
            for field in (
                "duplicates",
                "late",
                "reordered",
                "strays",
                "restarts",
                "samples_in",
                "samples_lost",
            ):
                counted[field] = getattr(counts, field)
            counted |= {f"rejected_{reason}": n for reason, n in counts.rejected.items()}
        return counted

    def close(self) -> None:
        """Close the socket."""
        self.source.close()

    def _take(self, message: Message) -> list[Chunk | Gap]:
        if isinstance(message, MetaMessage):
            self._describe(message)
            return []
        if isinstance(message, EndMessage):
            return [] if self._sequencer is None else self._sequencer.end(message.start)
        if self.stream is None and isinstance(message, DataMessage):
            self._describe(message)
        if self._sequencer is None:
            return []  # a gap before the first sample, or a feed that was refused
        return self._sequencer.push(message)

    def _describe(self, message: MetaMessage | DataMessage) -> None:
        """Learn what is sent, once; refuse what is not as expected."""
        if self.stream is not None:
            return
        try:
            stream = described(self._name, self._config, _sent(message))
        except ParameterError as error:
            self.refused += 1
            if self.refused == 1:
                log.error("stream %s: %s", self._name, error)
            return
        self.stream = stream
        reorder_window = round(self._config.reorder_window * stream.rate)
        self._sequencer = Sequencer(reorder_window)


def _source(config: ZmqFeed | OpenEphysFeed) -> ZmqReceiver:
    limits = WireLimits(message_bytes=config.limits.message_bytes, channels=config.limits.channels)
    if isinstance(config, OpenEphysFeed):
        return ZmqReceiver(config.address, format="openephys", high_water_mark=config.queue, limits=limits)
    return ZmqReceiver(
        config.address,
        config.topic,
        socket=config.socket,
        bind=config.bind,
        high_water_mark=config.queue,
        limits=limits,
        keys=None if config.curve is None else curve(config.curve),
    )


def curve(keys: CurveClient | CurveServer) -> ClientKeys | ServerKeys:
    """Return the keys of a section as sockets take them."""
    if isinstance(keys, CurveServer):
        return ServerKeys(keys.secret_key.value, keys.allowed)
    return ClientKeys(keys.server_key, keys.secret_key.value)


def _sent(message: MetaMessage | DataMessage) -> Stream:
    """Return what a message says of its stream; channels have numbers where it has no names."""
    if isinstance(message, MetaMessage):
        return message.description
    header = message.header
    names = tuple(f"channel {i}" for i in range(message.data.shape[1]))
    return Stream(header.stream, header.rate, names, header.unit, message.data.dtype, header.t0)


def described(name: str, config: ZmqFeed | OpenEphysFeed | LslFeed, sent: Stream) -> Stream:
    """Return the stream that a feed sends, with what the configuration says of it.

    Parameters
    ----------
    name : str
        Of the stream, in the daemon.
    config : section
    sent : Stream
        As the feed describes itself.

    Raises
    ------
    ParameterError
        If it is not what the configuration expects.
    """
    names = sent.channels
    if config.rate is not None and abs(config.rate - sent.rate) > _RATE_TOLERANCE * config.rate:
        raise ParameterError(f"source.rate is {config.rate:g} Hz, but the feed says {sent.rate:g} Hz.")
    if config.unit is not None and sent.unit is not None and sent.unit != config.unit:
        raise ParameterError(f"source.unit is {config.unit!r}, but the feed says {sent.unit!r}.")
    if config.channels is not None:
        if len(config.channels) != len(names):
            raise ParameterError(
                f"source.channels names {len(config.channels)} channels, but the feed has {len(names)}."
            )
        names = config.channels
    return replace(sent, name=name, channels=names, unit=sent.unit or config.unit, delay=0)
