"""What a page can show of a stream: the last samples of sources and channels, and what happened to them."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.feeds.wire import MetaMessage, Mixing
from igbss_stream.pages.view.traces import Ring

SECONDS = 60.0  # that are held, where memory allows
MEMORY = 1 << 27  # bytes that the samples of a stream may take
_MOST_MARKS = 500
_MODELS = 4  # whose mixing is held: samples of the last but one may come late
_LEAST = 64  # samples, at any rate and number of channels

Item = Chunk | Gap


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a place in the stream.

    Parameters
    ----------
    kind : {"gap", "model"}
    start, stop : int
        Indices it reaches from and to; the same where it has no length.
    text : str
        What it is, in a few words.
    """

    kind: str
    start: int
    stop: int
    text: str


@dataclass(frozen=True, eq=False)
class Weights:
    """A mixing as arrays.

    Parameters
    ----------
    channels : tuple of str
    unit : str or None
    matrix : ndarray of shape (channels, sources)
    mean : ndarray of shape (channels,)
    """

    channels: tuple[str, ...]
    unit: str | None
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64]

    @classmethod
    def of(cls, mixing: Mixing) -> "Weights":
        """Return the arrays of a mixing that came by the wire."""
        n_channels = len(mixing.channels)
        mean = np.zeros(n_channels) if mixing.mean is None else np.array(mixing.mean)
        return cls(mixing.channels, mixing.unit, np.array(mixing.matrix), mean)


@dataclass(frozen=True, eq=False)
class Panel:
    """Traces that are shown together.

    Parameters
    ----------
    names : tuple of str
    unit : str or None
    ring : Ring
    """

    names: tuple[str, ...]
    unit: str | None
    ring: Ring


class Shown:
    """Takes in what comes; memory is bounded whatever comes.

    Parameters
    ----------
    raw : bool
        Whether the channels come from a feed of their own (`take_raw`). Otherwise they are made from the
        sources, as the model has them.

    Attributes
    ----------
    sources, channels : Panel or None
        None until it is known what they are.
    stream : Stream or None
        What the publisher says of the sources.
    weights : Weights or None
        Of the model in force.
    version : int or None
        Of the model that made the last samples.
    marks : deque of Mark
        In their order.
    layout : int
        Rises whenever the traces are others than before.
    """

    def __init__(self, *, raw: bool = False) -> None:
        self.sources: Panel | None = None
        self.channels: Panel | None = None
        self.stream: Stream | None = None
        self.weights: Weights | None = None
        self.version: int | None = None
        self.marks: deque[Mark] = deque(maxlen=_MOST_MARKS)
        self.layout = 0
        self.problem = ""
        self._raw = raw
        self._mixings: dict[int, Weights] = {}
        self._fresh = True

    def take(self, items: Sequence[Item], meta: MetaMessage | None) -> None:
        """Take in what came of the sources; before it is described it is passed over.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        meta : MetaMessage or None
            The latest description.
        """
        if meta is None:
            return
        self._describe(meta.description)
        if meta.mixing is not None and meta.mixing.version not in self._mixings:
            self._mix(meta.mixing)
        for item in items:
            if isinstance(item, Gap):
                self._take_gap(item)
            else:
                self._take_samples(item)
            self._fresh = False

    def take_raw(self, items: Sequence[Item], stream: Stream | None) -> None:
        """Take in what came of a feed that has the channels themselves.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        stream : Stream or None
            What its publisher says of it.
        """
        if stream is None or self.stream is None:
            return
        if abs(stream.rate / self.stream.rate - 1) > 1e-3:
            self.problem = (
                f"The channels have {stream.rate:g} Hz, the sources {self.stream.rate:g} Hz: "
                "they cannot be shown side by side."
            )
            return
        self.problem = ""
        self.channels = self._panel(self.channels, stream.channels, stream.unit)
        offset = _offset(stream, self.stream)
        for item in items:
            if isinstance(item, Chunk) and item.data.shape[1] == self.channels.ring.n_traces:
                self.channels.ring.write(item.start + offset, item.data)

    @property
    def seconds(self) -> float:
        """How many are held."""
        return self.sources.ring.capacity / self.stream.rate if self.sources and self.stream else SECONDS

    def _describe(self, stream: Stream) -> None:
        self.stream = stream
        panel = self._panel(self.sources, stream.channels, stream.unit)
        if panel is not self.sources:
            self.sources = panel
            self.version = None
            self.marks.clear()
            self._mixings.clear()

    def _panel(self, before: Panel | None, names: tuple[str, ...], unit: str | None) -> Panel:
        """Return the panel of some traces: the one there is, if it is theirs."""
        if before is not None and before.names == names:
            return before if before.unit == unit else replace(before, unit=unit)
        self.layout += 1
        rate = self.stream.rate if self.stream else 1.0
        affordable = MEMORY // (2 * 4 * len(names))  # half of it for each panel, in float32
        return Panel(names, unit, Ring(len(names), max(_LEAST, min(round(SECONDS * rate), affordable))))

    def _mix(self, mixing: Mixing) -> None:
        self.weights = self._mixings[mixing.version] = Weights.of(mixing)
        while len(self._mixings) > _MODELS:
            del self._mixings[min(self._mixings)]
        if not self._raw:
            self.channels = self._panel(self.channels, mixing.channels, mixing.unit)

    def _take_gap(self, gap: Gap) -> None:
        if self.sources is None:
            return
        self.sources.ring.write(gap.start, np.empty((0, self.sources.ring.n_traces), np.float32))
        self.sources.ring.skip(gap.n_samples)
        last = self.marks[-1] if self.marks else None
        before = Gap(last.start, last.stop - last.start, last.text) if last and last.kind == "gap" else None
        if gap.continues(before):
            self.marks[-1] = replace(self.marks[-1], stop=gap.stop)
        else:
            self.marks.append(Mark("gap", gap.start, gap.stop, gap.reason))

    def _take_samples(self, chunk: Chunk) -> None:
        if self.sources is None or chunk.data.shape[1] != self.sources.ring.n_traces:
            return  # the description of another run is still to come
        if self.sources.ring.stop is not None and chunk.start < self.sources.ring.stop:
            self.marks.clear()  # the stream has begun anew
        self.sources.ring.write(chunk.start, chunk.data)
        if chunk.model_version != self.version and not self._fresh:
            self.marks.append(Mark("model", chunk.start, chunk.start, f"model {chunk.model_version}"))
        self.version = chunk.model_version
        weights = self._mixings.get(chunk.model_version)
        if weights is not None and self.channels is not None and not self._raw:
            made_up = chunk.data.astype(np.float64) @ weights.matrix.T + weights.mean
            self.channels.ring.write(chunk.start, made_up)


def _offset(stream: Stream, to: Stream) -> int:
    """Return what to add to the indices of one stream to have those of another, by their times."""
    if stream.t0 is None or to.t0 is None:
        return 0
    return round((stream.t0 - to.t0) * to.rate)
