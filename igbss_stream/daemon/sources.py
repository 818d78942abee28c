"""Sources of the daemon: the interface of a source, silence, and messages from sockets.

A source owns a socket or file and its count of samples. A socket source learns what it receives from the
first message, so `stream` is None until then.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.keys import CurveClientSection, CurveServerSection
from igbss_stream.daemon.config.sources import LslInput, OpenEphysInput, ZmqInput
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.keys import ClientKeys, ServerKeys
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import DataMessage, EndMessage, Message, MetaMessage, WireLimits
from igbss_stream.feeds.zmq_receiver import ZmqReceiver

log = logging.getLogger(__name__)

_RATE_TOLERANCE = 1e-3  # largest relative difference of device clocks: 1000.012 Hz is 1 kHz
_SEQUENCER_COUNTS = (
    "duplicates",
    "late",
    "reordered",
    "strays",
    "restarts",
    "samples_in",
    "samples_lost",
)


class Source(Protocol):
    """Interface of a source."""

    stream: Stream | None
    """Description of the stream; None until it is known."""
    ended: bool
    """Whether nothing will arrive any more."""
    silence: "SilenceMonitor"

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived."""

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name. Any thread may call this."""

    def close(self) -> None:
        """Close the socket or file."""


class SilenceMonitor:
    """Log once that a source is silent, and once that it sends again.

    Parameters
    ----------
    name : str
        Name of the stream.
    after : float
        Seconds; may be changed.
    """

    def __init__(self, name: str, after: float) -> None:
        self.after = after
        self.is_silent = False
        self.count = 0
        self._name = name
        self._last = time.monotonic()

    def update(self, arrived: bool) -> bool:
        """Note whether something arrived; return whether silence begins now."""
        now = time.monotonic()
        if arrived:
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


def count_rejections(rejected: Mapping[str, int]) -> dict[str, int]:
    """Return counters of rejected messages under the names of events.

    Parameters
    ----------
    rejected : mapping
        Counts by reason, to which the thread of the streams may add reasons meanwhile.
    """
    snapshot = dict(rejected)  # one operation of the interpreter, which no other thread interrupts
    return {f"rejected_{reason}": count for reason, count in snapshot.items()}


class SocketSource:
    """Receive messages from a ZeroMQ socket, in the format of docs/wire.md or of Open Ephys.

    Parameters
    ----------
    name : str
        Name of the stream in the daemon.
    config : ZmqInput or OpenEphysInput

    Raises
    ------
    FeedError
        If the socket cannot be opened.
    """

    def __init__(self, name: str, config: ZmqInput | OpenEphysInput) -> None:
        self.stream: Stream | None = None
        self.ended = False
        self.n_refused = 0
        self.silence = SilenceMonitor(name, config.silence)
        self._name, self._config = name, config
        self._sequencer: Sequencer | None = None
        self.receiver = _open_receiver(config)
        self.address = self.receiver.address

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived in the order of the samples."""
        messages = self.receiver.receive(timeout)
        out = [item for message in messages for item in self._handle(message)]
        if self.silence.update(bool(messages)) and self._sequencer is not None:
            out += self._sequencer.flush()
        return out

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        counts = {"messages": self.receiver.received, "silences": self.silence.count}
        counts |= count_rejections(self.receiver.rejected)
        counts["rejected_description"] = self.n_refused
        counts["denied"] = self.receiver.denied
        if self._sequencer is not None:
            sequenced = self._sequencer.counts
            counts |= {name: getattr(sequenced, name) for name in _SEQUENCER_COUNTS}
            counts |= count_rejections(sequenced.rejected)
        return counts

    def close(self) -> None:
        """Close the socket."""
        self.receiver.close()

    def _handle(self, message: Message) -> list[Chunk | Gap]:
        if isinstance(message, MetaMessage):
            self._describe(message)
            return []
        if isinstance(message, EndMessage):
            return [] if self._sequencer is None else self._sequencer.end(message.start)
        if self.stream is None and isinstance(message, DataMessage):
            self._describe(message)
        if self._sequencer is None:
            return []  # a gap before the first sample, or a stream that was refused
        return self._sequencer.push(message)

    def _describe(self, message: MetaMessage | DataMessage) -> None:
        """Set the description of the stream once; refuse a stream that is not as expected."""
        if self.stream is not None:
            return
        try:
            stream = apply_expectations(self._name, self._config, _get_description(message))
        except ParameterError as error:
            self.n_refused += 1
            if self.n_refused == 1:
                log.error("stream %s: %s", self._name, error)
            return
        self.stream = stream
        self._sequencer = Sequencer(round(self._config.reorder_window * stream.rate))


def _open_receiver(config: ZmqInput | OpenEphysInput) -> ZmqReceiver:
    limits = WireLimits(message_bytes=config.limits.message_bytes, channels=config.limits.channels)
    if isinstance(config, OpenEphysInput):
        return ZmqReceiver(config.address, format="openephys", high_water_mark=config.queue, limits=limits)
    return ZmqReceiver(
        config.address,
        config.topic,
        socket=config.socket,
        bind=config.bind,
        high_water_mark=config.queue,
        limits=limits,
        keys=None if config.curve is None else as_socket_keys(config.curve),
    )


def as_socket_keys(
    section: CurveClientSection | CurveServerSection,
) -> ClientKeys | ServerKeys:
    """Return the keys of a section as the sockets need them."""
    if isinstance(section, CurveServerSection):
        return ServerKeys(section.secret_key.value, section.allowed)
    return ClientKeys(section.server_key, section.secret_key.value)


def _get_description(message: MetaMessage | DataMessage) -> Stream:
    """Return the description of a stream in a message; channels without names are numbered."""
    if isinstance(message, MetaMessage):
        return message.description
    header = message.header
    names = tuple(f"channel {i}" for i in range(message.data.shape[1]))
    return Stream(header.stream, header.rate, names, header.unit, message.data.dtype, header.t0)


def apply_expectations(name: str, config: ZmqInput | OpenEphysInput | LslInput, sent: Stream) -> Stream:
    """Return the description of a stream with the name, channels and unit of the configuration.

    Parameters
    ----------
    name : str
        Name of the stream in the daemon.
    config : section
    sent : Stream
        Description by the sender.

    Raises
    ------
    ParameterError
        If the stream is not as the configuration expects.
    """
    names = sent.channels
    if config.rate is not None and abs(config.rate - sent.rate) > _RATE_TOLERANCE * config.rate:
        raise ParameterError(
            f"source.rate is {config.rate:g} Hz, but the stream has {sent.rate:g} Hz; correct source.rate "
            "or the sender."
        )
    if config.unit is not None and sent.unit is not None and sent.unit != config.unit:
        raise ParameterError(
            f"source.unit is {config.unit!r}, but the stream has {sent.unit!r}; correct source.unit or the "
            "sender."
        )
    if config.channels is not None:
        if len(config.channels) != len(names):
            raise ParameterError(
                f"source.channels names {len(config.channels)} channels, but the stream has {len(names)}; "
                "correct source.channels or the sender."
            )
        names = config.channels
    return replace(sent, name=name, channels=names, unit=sent.unit or config.unit, delay=0)
