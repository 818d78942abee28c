"""Store what a page shows of a stream: the last samples of sources and channels, and marks."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.events import Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.model_facts import LearningFacts, Mixing
from igbss_stream.feeds.wire import MetaMessage
from igbss_stream.model.learning import Learning
from igbss_stream.pages.view.traces import Ring
from igbss_stream.positions import Positions

SECONDS = 60.0  # of samples to keep, if memory permits
MEMORY = 1 << 27  # bytes, largest size of the samples of a stream
_MAX_MARKS = 500
_LONGEST_LABEL = 24  # characters
_MAX_MODELS = 4  # that are kept, because samples of an earlier model may arrive late
_MAX_REMOVALS = 64  # choices of sources that are kept, because samples before them may arrive late
_MIN_SAMPLES = 64  # at any sampling rate and number of channels

Item = Chunk | Gap


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark at a position in the stream.

    Parameters
    ----------
    kind : {"gap", "model", "event"}
    start, stop : int
        Indices; equal if the mark has no length.
    text : str
        Short description.
    """

    kind: str
    start: int
    stop: int
    text: str


@dataclass(frozen=True, eq=False)
class MixingWeights:
    """A mixing matrix and mean as arrays.

    Parameters
    ----------
    channels : tuple of str
    unit : str or None
    matrix : ndarray of shape (channels, sources)
    mean : ndarray of shape (channels,)
    positions : Positions or None
        Of the channels, if the publisher states them.
    """

    channels: tuple[str, ...]
    unit: str | None
    matrix: NDArray[np.float64]
    mean: NDArray[np.float64]
    positions: Positions | None = None

    @classmethod
    def from_wire(cls, mixing: Mixing, montage: Positions | None = None) -> "MixingWeights":
        """Convert a mixing received from the stream to arrays; a montage replaces its positions."""
        n_channels = len(mixing.channels)
        mean = np.zeros(n_channels) if mixing.mean is None else np.array(mixing.mean)
        stated = mixing.positions
        positions = None if stated is None else stated.as_positions(mixing.channels)
        positions = positions if montage is None else montage.select(mixing.channels)
        return cls(mixing.channels, mixing.unit, np.array(mixing.matrix), mean, positions)


@dataclass(frozen=True, eq=False)
class TracePanel:
    """Traces that are shown in one panel.

    Parameters
    ----------
    names : tuple of str
    unit : str or None
    ring : Ring
    """

    names: tuple[str, ...]
    unit: str | None
    ring: Ring


class ViewState:
    """Stores what a stream delivers, in bounded memory.

    Parameters
    ----------
    raw : bool
        Whether the channels come from a separate feed (`update_channels`). Otherwise they are computed from
        the sources.
    montage : Positions, optional
        Replace those that the stream states.

    Attributes
    ----------
    sources, channels : TracePanel or None
        None until they are described.
    cleaned : TracePanel or None
        The channels as modelled by the sources that are not taken out; None if the stream does not state
        which are taken out.
    cleaning : CleaningFacts or None
        Which sources are taken out from the next samples on, and names, as the publisher states.
    stream : Stream or None
        Description of the sources by the publisher.
    weights : MixingWeights or None
        Weights of the active model.
    version : int or None
        Version of the model that produced the last samples.
    marks : deque of Mark
        Gaps and models, in the order of the stream.
    event_marks : deque of Mark
        Events, in the order of their arrival.
    """

    def __init__(self, *, raw: bool = False, montage: Positions | None = None) -> None:
        self.sources: TracePanel | None = None
        self.channels: TracePanel | None = None
        self.cleaned: TracePanel | None = None
        self.cleaning: CleaningFacts | None = None
        self.stream: Stream | None = None
        self.weights: MixingWeights | None = None
        self.version: int | None = None
        self.marks: deque[Mark] = deque(maxlen=_MAX_MARKS)
        self.event_marks: deque[Mark] = deque(maxlen=_MAX_MARKS)
        self.problem = ""
        self.bad_channels: tuple[str, ...] = ()
        self._raw, self._montage = raw, montage
        self._run: int | None = None
        self._mixings: dict[int, MixingWeights] = {}
        self._learnings: dict[int, LearningFacts] = {}
        self._removals: deque[tuple[int, list[int]]] = deque(maxlen=_MAX_REMOVALS)
        self._fresh = True

    def update(self, items: Sequence[Item], meta: MetaMessage | None, offset: int = 0) -> None:
        """Add data of the sources; data that arrive before their description are ignored.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        meta : MetaMessage or None
            The latest description.
        offset : int
            Index of the items minus that of the publisher.
        """
        if meta is None:
            return
        self._update_description(meta.description)
        self.bad_channels = meta.bad_channels
        if meta.run != self._run:  # versions count from 1 again
            self._run = meta.run
            self._forget_models()
        if meta.learning is not None:
            self._learnings[meta.learning.version] = meta.learning
            _drop_oldest(self._learnings)
        if meta.mixing is not None and meta.mixing.version not in self._mixings:
            self._update_mixing(meta.mixing)
        if meta.cleaning != self.cleaning:
            self._update_cleaning(meta.cleaning, offset)
        for item in items:
            if isinstance(item, Gap):
                self._take_gap(item)
            else:
                self._take_samples(item)
            self._fresh = False

    def update_events(self, events: Events) -> None:
        """Add events of the sources, each at its nearest sample.

        Parameters
        ----------
        events : Events
            In indices of the sources.
        """
        for event in events:
            at, text = round(event.index), event.label
            if len(text) > _LONGEST_LABEL:
                text = f"{text[: _LONGEST_LABEL - 1]}…"
            self.event_marks.append(Mark("event", at, at, text))

    def list_marks(self, oldest: int) -> list[Mark]:
        """Return the marks that end at or after an index, in the order of the stream."""
        marks = [mark for mark in (*self.marks, *self.event_marks) if mark.stop >= oldest]
        return sorted(marks, key=lambda mark: mark.stop)

    def _clear_marks(self) -> None:
        self.marks.clear()
        self.event_marks.clear()

    def update_channels(self, items: Sequence[Item], stream: Stream | None) -> None:
        """Add data of a feed of raw channels.

        Parameters
        ----------
        items : sequence of Chunk and Gap
        stream : Stream or None
            Its description by the publisher.
        """
        if stream is None or self.stream is None:
            return
        if abs(stream.rate / self.stream.rate - 1) > 1e-3:
            self.problem = (
                f"The channels have a sampling rate of {stream.rate:g} Hz, the sources "
                f"{self.stream.rate:g} Hz; "
                "they cannot be shown side by side."
            )
            return
        self.problem = ""
        self.channels = self._get_panel(self.channels, stream.channels, stream.unit)
        offset = _compute_offset(stream, self.stream)
        for item in items:
            if isinstance(item, Chunk) and item.data.shape[1] == self.channels.ring.n_traces:
                self.channels.ring.write(item.start + offset, item.data)

    @property
    def seconds(self) -> float:
        """Number of seconds that are kept."""
        return self.sources.ring.capacity / self.stream.rate if self.sources and self.stream else SECONDS

    @property
    def learning(self) -> Learning | None:
        """How the model that produced the last samples was learned; None if that is not known."""
        facts = None if self.version is None else self._learnings.get(self.version)
        return None if facts is None else facts.as_learning()

    def _update_description(self, stream: Stream) -> None:
        self.stream = stream
        panel = self._get_panel(self.sources, stream.channels, stream.unit)
        if panel is not self.sources:
            self.sources = panel
            self.version = None
            self._clear_marks()
            self._forget_models()

    def _forget_models(self) -> None:
        self._mixings.clear()
        self._learnings.clear()
        self._removals.clear()
        self.cleaning = None

    def _update_cleaning(self, cleaning: CleaningFacts | None, offset: int) -> None:
        """Note which sources are taken out from an index on; samples before it may still arrive."""
        self.cleaning = cleaning
        if cleaning is not None and cleaning.excluded is not None:
            self._removals.append((cleaning.start + offset, list(cleaning.excluded)))

    def _get_panel(self, before: TracePanel | None, names: tuple[str, ...], unit: str | None) -> TracePanel:
        """Return the panel of the given traces; the existing one if the names are the same."""
        if before is not None and before.names == names:
            return before if before.unit == unit else replace(before, unit=unit)
        rate = self.stream.rate if self.stream else 1.0
        affordable = MEMORY // (3 * 4 * len(names))  # a third for each panel, in float32
        return TracePanel(
            names, unit, Ring(len(names), max(_MIN_SAMPLES, min(round(SECONDS * rate), affordable)))
        )

    def _update_mixing(self, mixing: Mixing) -> None:
        weights = MixingWeights.from_wire(mixing, self._montage)
        self.weights = self._mixings[mixing.version] = weights
        _drop_oldest(self._mixings)
        if not self._raw:
            self.channels = self._get_panel(self.channels, mixing.channels, mixing.unit)

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
            return  # the description of the new run has not arrived yet
        if self.sources.ring.stop is not None and chunk.start < self.sources.ring.stop:
            self._clear_marks()  # the stream has restarted
        self.sources.ring.write(chunk.start, chunk.data)
        if chunk.model_version != self.version and not self._fresh:
            self.marks.append(Mark("model", chunk.start, chunk.start, f"model {chunk.model_version}"))
        self.version = chunk.model_version
        weights = self._mixings.get(chunk.model_version)
        if weights is None:
            return
        sources = chunk.data.astype(np.float64)
        if self.channels is not None and not self._raw:
            self.channels.ring.write(chunk.start, sources @ weights.matrix.T + weights.mean)
        if self._removals:
            self.cleaned = self._get_panel(self.cleaned, weights.channels, weights.unit)
            sources[:, self._find_removed(chunk)] = 0.0
            self.cleaned.ring.write(chunk.start, sources @ weights.matrix.T + weights.mean)
        else:
            self.cleaned = None

    def _find_removed(self, chunk: Chunk) -> list[int]:
        """Return the sources that are taken out of the channels of a chunk."""
        found = [removed for start, removed in self._removals if start <= chunk.start]
        return [source for source in found[-1] if source < chunk.data.shape[1]] if found else []


def _drop_oldest(models: dict[int, Any]) -> None:
    """Keep the latest versions."""
    while len(models) > _MAX_MODELS:
        del models[min(models)]


def _compute_offset(stream: Stream, to: Stream) -> int:
    """Return the offset from the indices of one stream to those of another, from their start times."""
    if stream.t0 is None or to.t0 is None:
        return 0
    return round((stream.t0 - to.t0) * to.rate)
