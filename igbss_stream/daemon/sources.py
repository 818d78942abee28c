"""Sources of the daemon: the interface of a source, silence, and messages from sockets.

A source owns a socket or file and its count of samples. A socket source learns what it receives from the
first message, so `stream` is None until then.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Protocol

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.keys import CurveClientSection, CurveServerSection
from igbss_stream.daemon.config.sources import OpenEphysInput, ZmqInput
from igbss_stream.daemon.counter_watch import CounterWatch
from igbss_stream.daemon.descriptions import apply_expectations, describe, is_alike, is_described
from igbss_stream.daemon.pause import Pause
from igbss_stream.errors import ParameterError
from igbss_stream.events import Events
from igbss_stream.feeds.event_sequencer import EventSequencer
from igbss_stream.feeds.keys import ClientKeys, ServerKeys
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.wire import (
    DataMessage,
    EndMessage,
    EventsMessage,
    Message,
    MetaMessage,
    WireLimits,
)
from igbss_stream.feeds.zmq_receiver import ZmqReceiver

log = logging.getLogger(__name__)

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
    run: int
    """Number of times that the stream began anew, with another description."""
    ended: bool
    """Whether nothing will arrive any more."""
    silence: "SilenceMonitor"

    @property
    def has_pending(self) -> bool:
        """Whether the next call of `receive` returns items of another run at once."""

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived, all of the same run."""

    def pop_events(self) -> Events:
        """Return the events that arrived since the last call, in indices of the samples of this run."""

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
        self.run = 0
        self.ended = False
        self.silence = SilenceMonitor(name, config.silence)
        self._name, self._config = name, config
        self._watch = CounterWatch(name, (*(config.events or ()), *(config.omit or ())))
        self._rejected: Counter[str] = Counter()
        self._sent: Stream | None = None  # the description as the sender gave it
        self._meta: MetaMessage | None = None
        self._sequencer: Sequencer | None = None
        self._events = EventSequencer()
        self._past: Counter[str] = Counter()  # counts of earlier sequencers
        self._successor: str | None = None  # stream that may replace one that was silent
        self._odd: DataMessage | None = None  # first message with another description
        self._pending: deque[Message] = deque()  # from a change of the description on
        self._pause = Pause()
        self.receiver = _open_receiver(config)
        self.address = self.receiver.address

    @property
    def has_pending(self) -> bool:
        """Whether messages of another run wait for the next call of `receive`."""
        return bool(self._pending)

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived in the order of the samples.

        If the sender changes its description, only the items before the change are returned. The next call
        changes `stream` and `run`, and returns those after it.
        """
        if self._pending:
            messages, self._pending = self._pending, deque()
            if not self._begin_stream(messages[0]):
                messages.popleft()
        else:
            messages = deque(self.receiver.receive(timeout))
        arrived = any(self._is_sign_of_life(message) for message in messages)
        out: list[Chunk | Gap] = []
        while messages and not self._pending:
            out += self._handle(messages.popleft())
            self._events.settle()  # before the sender begins another run
        self._pending.extend(messages)
        self._watch.look(out, self.stream, self.run)
        if self.silence.update(arrived) and self._sequencer is not None:
            out += self._sequencer.flush()
        return out

    def pop_events(self) -> Events:
        """Return the events that arrived since the last call, in indices of the samples of this run."""
        return self._events.pop()

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        counts = Counter({"messages": self.receiver.received, "silences": self.silence.count})
        counts["denied"] = self.receiver.denied
        counts["rejected_description"] = 0
        counts["events_lost"] = self._events.n_lost
        counts.update(self._past)
        sequencer = self._sequencer
        if sequencer is not None:
            counts.update(_count_sequenced(sequencer))
        counts.update(count_rejections(self.receiver.rejected))
        counts.update(count_rejections(self._rejected))
        return counts

    def close(self) -> None:
        """Close the socket."""
        self.receiver.close()

    def _handle(self, message: Message) -> list[Chunk | Gap]:
        name = _get_stream_name(message)
        if isinstance(message, EventsMessage):
            if self._sent is not None and name == self._sent.name:
                self._events.push(message)
            return []
        if self._sent is not None:
            if name == self._sent.name:
                self._successor = None
            elif not self._may_replace(name):
                return []
        if isinstance(message, MetaMessage):
            self._meta = message
            if self._sent is None:
                self._check(message.description)
            return []
        if isinstance(message, DataMessage):
            return self._handle_samples(message)
        if self._sequencer is None:
            return []  # a gap before the first sample, or a stream that was refused
        if isinstance(message, EndMessage):
            return self._sequencer.end(message.start, message.run)
        return self._sequencer.push(message)

    def _is_sign_of_life(self, message: Message) -> bool:
        """Return whether a message ends the silence: samples or a gap, and not of another stream."""
        if self._sent is None:
            return True
        is_apart = isinstance(message, MetaMessage | EventsMessage)
        return not is_apart and _get_stream_name(message) == self._sent.name

    def _may_replace(self, name: str) -> bool:
        """Return whether another stream may replace the current one, which is silent; count it if not."""
        if self.silence.is_silent:
            self._successor = name  # its next messages arrive when the silence is over
        if name == self._successor:
            return True
        if not self._rejected["stream"]:
            log.warning(
                "stream %s: another stream, %r, arrives at the same address and is left out; set "
                "source.topic, or use one address for each sender",
                self._name,
                name,
            )
        self._rejected["stream"] += 1
        return False

    def _handle_samples(self, message: DataMessage) -> list[Chunk | Gap]:
        """Return the items that are complete with a message, or hold one that begins another stream."""
        if self._sent is None or self._sequencer is None:
            return [] if not self._begin_stream(message) else self._handle_samples(message)
        is_same = message.header.stream == self._sent.name and is_described(message, self._sent)
        if is_same and not self._sequencer.is_exhausted and not self._is_renamed():
            self._dismiss_odd()
            return self._sequencer.push(message)
        if not self._pause.is_over:
            self._reject(message)
            return self._sequencer.push(message) if is_same else []
        if not is_same and (self._odd is None or not is_alike(self._odd, message)):
            self._dismiss_odd()
            self._odd = message  # one odd message changes nothing: a second one must follow
            return []
        self._pending.extend([message] if self._odd is None else [self._odd, message])
        self._odd = None
        return self._sequencer.flush()

    def _is_renamed(self) -> bool:
        """Return whether the sender has described other channels, with the same samples."""
        return (
            self._meta is not None
            and self._sent is not None
            and self._meta.channels != self._sent.channels
            and len(self._meta.channels) == self._sent.n_channels
        )

    def _dismiss_odd(self) -> None:
        if self._odd is not None:
            self._reject(self._odd)
            self._odd = None

    def _reject(self, message: DataMessage) -> None:
        """Count a message that differs from the description of the stream."""
        sent = self._sent
        if sent is None:
            return
        if message.data.shape[1] != sent.n_channels:
            self._rejected["channels"] += 1
        elif message.data.dtype != sent.dtype:
            self._rejected["dtype"] += 1
        elif not is_described(message, sent):
            self._rejected["description"] += 1

    def _begin_stream(self, message: Message) -> bool:
        """Begin the stream of a message; return whether it is as expected."""
        if not isinstance(message, DataMessage):
            raise TypeError("a stream begins with samples")
        sent = describe(message, self._meta)
        stream = self._check(sent)
        if self._sequencer is not None:
            self._past.update(_count_sequenced(self._sequencer))
            self._past["restarts"] += 1
            self._pause.begin()
            log.warning(
                "stream %s: the sender begins anew, with %d channels at %g Hz in %s",
                self._name, sent.n_channels, sent.rate, sent.unit or "an unknown unit",
            )  # fmt: skip
        self._sent, self._sequencer = sent, None
        if stream is None:
            self._sent = None
            return False
        self.run += self.stream is not None
        self.stream = stream
        self._sequencer = Sequencer(round(self._config.reorder_window * stream.rate))
        self._events.follow(self._sequencer)
        return True

    def _check(self, sent: Stream) -> Stream | None:
        """Return the stream with what the configuration sets; None if it is not as expected."""
        try:
            return apply_expectations(self._name, self._config, sent)
        except ParameterError as error:
            if not self._rejected["description"]:
                log.error("stream %s: %s", self._name, error)
            self._rejected["description"] += 1
            return None


def _get_stream_name(message: Message) -> str:
    return message.header.stream if isinstance(message, DataMessage) else message.stream


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


def _count_sequenced(sequencer: Sequencer) -> dict[str, int]:
    """Return the counters of a sequencer by name."""
    counts = sequencer.counts
    return {name: getattr(counts, name) for name in _SEQUENCER_COUNTS} | count_rejections(counts.rejected)
