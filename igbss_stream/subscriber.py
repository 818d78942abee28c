"""Read a published stream from Python: an iterator of samples and gaps."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError
from igbss_stream.events import Events
from igbss_stream.feeds.event_sequencer import EventSequencer
from igbss_stream.feeds.keys import ClientKeys, derive_public_key
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.socket_monitor import HandshakeFailure
from igbss_stream.feeds.wire import DataMessage, EndMessage, EventsMessage, Message, MetaMessage
from igbss_stream.feeds.zmq_receiver import ZmqReceiver
from igbss_stream.model.learning import Learning

_MAX_WAIT = 1.0  # seconds of a single wait
_MAX_OTHERS = 32  # other streams whose names are kept

_NO_KEYS = (
    "it encrypts and no keys were given, or it is not a publisher: give its public key, and a secret key "
    "if it admits only known keys (--server-key and --key-file; in Python, keys)"
)
_OTHER_ENCRYPTION = (
    "its public key differs from the given one, or it does not encrypt: check the public key "
    "(--server-key; in Python, server_key)"
)
_NO_SECRET_KEY = "it admits only known keys: give a secret key (--key-file; in Python, secret_key)"


class Subscriber(Closeable):
    """Subscribe to a stream; iterate over its chunks and gaps until it ends.

    A context manager, which closes the socket.

    Parameters
    ----------
    address : str
        Address of the publisher, such as ``"tcp://127.0.0.1:5556"``; ``"5556"`` is the same.
    topic : str
        Name of the stream; by default the first stream that arrives.
    timeout : float or None
        Longest wait for the next message in seconds; None waits forever.
    high_water_mark : int
        Largest number of queued messages. The publisher drops messages beyond it, which results in a gap.
    keys : ClientKeys, optional
        Needed if the publisher encrypts.

    Raises
    ------
    FeedError
        If the address cannot be used; while reading, if nothing arrives for `timeout` seconds.

    Notes
    -----
    Indices are those of the publisher. Samples that it declares missing are a `Gap` with its reason, as
    soon as they are declared; consecutive missing samples may arrive as several gaps (`Gap.continues`).
    Samples that were dropped on the way are a gap with the reason ``"dropped"``. If the publisher restarts,
    a gap of zero samples with the reason ``"restart"`` precedes the new samples. These may have another
    rate, unit and number of channels, which `stream` then describes.

    `pop_events` returns the events of the stream. Each follows the sample that it belongs to.
    """

    def __init__(
        self,
        address: str,
        topic: str = "",
        *,
        timeout: float | None = 10.0,
        high_water_mark: int = 1000,
        keys: ClientKeys | None = None,
    ) -> None:
        self._receiver = ZmqReceiver(
            address, topic, high_water_mark=high_water_mark, keys=keys, watch_handshakes=True
        )
        self._sequencer = Sequencer(reason="dropped", follows_layout=True)
        self._events = EventSequencer(self._sequencer)
        self._timeout = timeout
        self._keys = keys
        self._others: set[str] = set()
        self._name = topic
        self._meta: MetaMessage | None = None
        self._messages: deque[Message] = deque()  # received, but not handled
        self._ready: deque[Chunk | Gap] = deque()
        self._ended = False

    @property
    def index_offset(self) -> int:
        """Index of the items minus that of the publisher; 0 until it restarts."""
        return self._sequencer.offset

    @property
    def events_lost(self) -> int:
        """Number of events that were published but did not arrive, or that nobody read."""
        return self._events.n_lost

    def close(self) -> None:
        """Close the socket. Closing it twice is allowed."""
        self._receiver.close()

    @property
    def stream(self) -> Stream:
        """Description of the stream; waits until it has arrived."""
        return self.meta.description

    @property
    def meta(self) -> MetaMessage:
        """The complete description of the last items by the publisher; waits until it has arrived."""
        self._read_until(lambda: self._meta is not None)
        if self._meta is None:
            raise FeedError(
                f"the stream at '{self._receiver.address}' ended before it was described; "
                "subscribe before its publisher ends"
            )
        return self._meta

    @property
    def learning(self) -> Learning | None:
        """How the model was learned: its view, and the reliability of each source in dB.

        Waits until the stream is described. None before the first model, if the model was not learned, or
        if the publisher does not state it. ``meta.learning.version`` is the version of the model.
        """
        learning = self.meta.learning
        return None if learning is None else learning.as_learning()

    @property
    def described(self) -> bool:
        """Whether the description has arrived; `stream` and `meta` do not wait then."""
        return self._meta is not None

    @property
    def ended(self) -> bool:
        """Whether the publisher has ended the stream."""
        return self._ended

    @property
    def others(self) -> tuple[str, ...]:
        """Names of other streams received from this address; they begin with `topic`."""
        return tuple(sorted(self._others))

    @property
    def refusal(self) -> str:
        """Why the publisher refuses the connection, and the remedy; empty if it does not."""
        if self._receiver.handshake_failure is None:
            return ""
        if self._keys is None:
            return _NO_KEYS
        if self._receiver.handshake_failure is HandshakeFailure.ENCRYPTION:
            return _OTHER_ENCRYPTION
        if self._keys.secret_key is None:
            return _NO_SECRET_KEY
        own = derive_public_key(self._keys.secret_key)
        return f"it does not allow the public key {own!r}: add it to curve.allowed of the publisher"

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait for messages, and return the items that have arrived; an alternative to iteration.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds; 0 does not wait.

        Returns
        -------
        list of Chunk and Gap
            Empty if no samples arrived; `ended` shows whether the stream is over.
        """
        if not (self._ready or self._ended):
            self._handle_messages(timeout)
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def pop_events(self) -> Events:
        """Return the events that have arrived since the last call; does not wait.

        Their indices are those of the items. Call it after each item or `receive`, and once more when the
        stream has ended. A Subscriber keeps up to 1024 messages of events.
        """
        return self._events.pop()

    def silence(self, seconds: float) -> FeedError:
        """Return the error of a publisher that was silent for `seconds`, with the possible causes."""
        address = self._receiver.address
        if self.refusal:
            return FeedError(f"nothing came from '{address}' for {seconds:g} s: {self.refusal}")
        return FeedError(
            f"nothing came from '{address}' for {seconds:g} s; "
            f"check that the publisher runs{self._list_causes()}"
        )

    def __iter__(self) -> Iterator[Chunk | Gap]:
        while True:
            self._read_until(lambda: bool(self._ready))
            if not self._ready:
                return
            yield self._ready.popleft()

    def _read_until(self, done: Callable[[], bool]) -> None:
        """Receive messages until `done` or the end of the stream."""
        timeout = math.inf if self._timeout is None else self._timeout
        deadline = time.monotonic() + timeout
        while not (done() or self._ended):
            wait = min(deadline - time.monotonic(), _MAX_WAIT)
            if wait <= 0:
                raise self.silence(timeout)
            self._handle_messages(wait)

    def _list_causes(self) -> str:
        causes = [f"that it publishes '{self._name}'"] if self._name else []
        causes += ["that the keys are correct"] if self._keys else []
        if self._receiver.rejected:
            causes.append(
                f"that it uses this format ({dict(self._receiver.rejected)} messages were rejected)"
            )
        return "".join(f", {cause}" for cause in causes)

    def _handle_messages(self, timeout: float) -> None:
        """Handle what arrives, up to the description of another run if items are ready before it."""
        if not self._messages:
            self._messages.extend(self._receiver.receive(timeout))
        while self._messages and not (self._ready and self._is_of_another_run(self._messages[0])):
            self._handle_message(self._messages.popleft())

    def _is_of_another_run(self, message: Message) -> bool:
        return (
            isinstance(message, MetaMessage)
            and self._meta is not None
            and message.stream == self._name
            and message.run != self._meta.run
        )

    def _handle_message(self, message: Message) -> None:
        header = message.header if isinstance(message, DataMessage) else message
        if not isinstance(message, EventsMessage):
            self._name = self._name or header.stream
        if header.stream != self._name and isinstance(message, EventsMessage):
            return
        if header.stream != self._name:
            if len(self._others) < _MAX_OTHERS:
                self._others.add(header.stream)
            return
        if isinstance(message, MetaMessage):
            self._meta = message
        elif isinstance(message, EndMessage):
            self._ended = self._meta is None or message.run == self._meta.run
            self._ready += self._sequencer.end(message.start, message.run)
        elif isinstance(message, EventsMessage):
            self._events.push(message)
        else:
            self._ready += self._sequencer.push(message)
