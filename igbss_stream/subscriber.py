"""Read a published stream from Python: an iterator of samples and gaps."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import FeedError
from igbss_stream.feeds.keys import ClientKeys, derive_public_key
from igbss_stream.feeds.sequencer import Sequencer
from igbss_stream.feeds.socket_monitor import HandshakeFailure
from igbss_stream.feeds.wire import DataMessage, EndMessage, Message, MetaMessage
from igbss_stream.feeds.zmq_receiver import ZmqReceiver

_SLICE = 1.0  # seconds that one wait takes at most
_MOST_OTHERS = 32  # streams that are named besides the one that is read

_NO_KEYS = (
    "it encrypts, and no keys were given (or it is no publisher at all): give its public key, and a key of "
    "your own where it lets in only those it knows (--server-key and --key-file; in Python, keys)"
)
_OTHER_TERMS = "its public key is another than the one that was given, or it does not encrypt"
_NO_KEY = "it lets in only those it knows: give a key of your own (--key-file; in Python, secret_key)"


class Subscriber(Closeable):
    """Subscribes to a stream; iterating over it gives its chunks and gaps until it ends.

    A context manager, which closes the socket.

    Parameters
    ----------
    address : str
        Of the publisher, such as ``"tcp://127.0.0.1:5556"``; ``"5556"`` is the same.
    topic : str
        Name of the stream; left out, the first one that comes.
    timeout : float or None
        Longest wait in seconds for what comes next; None waits for ever.
    high_water_mark : int
        Messages held while the caller is busy. Beyond it the publisher drops, which shows as a gap.
    keys : ClientKeys, optional
        Where the publisher wants to know who reads.

    Raises
    ------
    FeedError
        If the address cannot be used; while reading, if nothing comes for `timeout` seconds.

    Notes
    -----
    Indices are those of the publisher. What it declares as missing is a `Gap` with its reason, as soon as
    it says so: what is missing in a row may come as several (`Gap.continues`). What was dropped on the way
    is one with the reason ``"dropped"``, and if the publisher starts over a gap of zero samples,
    ``"restart"``, stands before what follows.
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
        self._source = ZmqReceiver(
            address, topic, high_water_mark=high_water_mark, keys=keys, watch_handshakes=True
        )
        self._sequencer = Sequencer(reason="dropped")
        self._timeout = timeout
        self._keys = keys
        self._others: set[str] = set()
        self._name = topic
        self._meta: MetaMessage | None = None
        self._ready: deque[Chunk | Gap] = deque()
        self._ended = False

    def close(self) -> None:
        """Close the socket. Closing it twice is allowed."""
        self._source.close()

    @property
    def stream(self) -> Stream:
        """What holds for all samples; waits until the publisher has told."""
        return self.meta.description

    @property
    def meta(self) -> MetaMessage:
        """The publisher's description in full; waits until it has come."""
        self._read_until(lambda: self._meta is not None)
        if self._meta is None:
            raise FeedError(f"the stream at '{self._source.address}' ended before it was described")
        return self._meta

    @property
    def described(self) -> bool:
        """Whether the publisher has described the stream, so that `stream` and `meta` need not wait."""
        return self._meta is not None

    @property
    def ended(self) -> bool:
        """Whether the publisher has said that the stream is over."""
        return self._ended

    @property
    def others(self) -> tuple[str, ...]:
        """Names of other streams that came from this address, whose beginning is `topic`."""
        return tuple(sorted(self._others))

    @property
    def refusal(self) -> str:
        """Why the publisher does not let this end in, and what to do about it; empty if it does."""
        if self._source.handshake_failure is None:
            return ""
        if self._keys is None:
            return _NO_KEYS
        if self._source.handshake_failure is HandshakeFailure.ENCRYPTION:
            return _OTHER_TERMS
        if self._keys.secret_key is None:
            return _NO_KEY
        own = derive_public_key(self._keys.secret_key)
        return f"it does not let in the public key {own!r}: add it to curve.allowed of the publisher"

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait until something comes in, and take what is there: for a caller that has more to do.

        Parameters
        ----------
        timeout : float
            Longest wait in seconds; 0 takes what is there.

        Returns
        -------
        list of Chunk and Gap
            Empty if no samples came; `ended` tells whether more can come.
        """
        if not (self._ready or self._ended):
            for message in self._source.receive(timeout):
                self._take(message)
        ready = list(self._ready)
        self._ready.clear()
        return ready

    def silence(self, seconds: float) -> FeedError:
        """Return the error which says that nothing came for so many seconds, and what may be the cause."""
        address = self._source.address
        if self.refusal:
            return FeedError(f"nothing came from '{address}' for {seconds:g} s: {self.refusal}")
        return FeedError(
            f"nothing came from '{address}' for {seconds:g} s; "
            f"check that the publisher runs{self._further_causes()}"
        )

    def __iter__(self) -> Iterator[Chunk | Gap]:
        while True:
            self._read_until(lambda: bool(self._ready))
            if not self._ready:
                return
            yield self._ready.popleft()

    def _read_until(self, done: Callable[[], bool]) -> None:
        """Take messages in until `done`, or the stream has ended."""
        timeout = math.inf if self._timeout is None else self._timeout
        deadline = time.monotonic() + timeout
        while not (done() or self._ended):
            wait = min(deadline - time.monotonic(), _SLICE)
            if wait <= 0:
                raise self.silence(timeout)
            for message in self._source.receive(wait):
                self._take(message)

    def _further_causes(self) -> str:
        causes = [f"that it publishes '{self._name}'"] if self._name else []
        causes += ["that the keys are right"] if self._keys else []
        if self._source.rejected:
            causes.append(
                f"that it speaks this format ({dict(self._source.rejected)} messages were refused)"
            )
        return "".join(f", {cause}" for cause in causes)

    def _take(self, message: Message) -> None:
        header = message.header if isinstance(message, DataMessage) else message
        self._name = self._name or header.stream
        if header.stream != self._name:
            if len(self._others) < _MOST_OTHERS:
                self._others.add(header.stream)
            return
        if isinstance(message, MetaMessage):
            self._meta = message
        elif isinstance(message, EndMessage):
            self._ended = self._meta is None or message.run == self._meta.run
            self._ready += self._sequencer.end(message.start)
        else:
            self._ready += self._sequencer.push(message)
