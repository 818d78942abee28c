"""Receive LSL markers, and place them at the samples of another stream; needs the extra ``lsl``.

Markers are streams without a regular rate: text or numbers, each with a time. Their senders may appear and
vanish at any time. LSL itself finds a sender again that restarts with the same source_id, and keeps the
markers that have arrived before.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from igbss_stream.errors import printable
from igbss_stream.events import NO_EVENTS, Event, Events, label_value
from igbss_stream.feeds.liblsl import ERRORS, pylsl
from igbss_stream.feeds.lsl_markers import OWN_SOURCE
from igbss_stream.feeds.lsl_query import LslQuery

_SEARCH = 0.5  # seconds between looks at the streams that were found
_PATIENCE = 5.0  # seconds that markers wait until the clock of their sender is known
_MOST_STREAMS = 32
_MOST_WAITING = 1 << 16
_AT_ONCE = 4096  # markers


@dataclass(slots=True)
class _MarkerStream:
    """One stream of markers, and its clock."""

    name: str
    inlet: Any
    clock_offset: float | None = None  # what to add to its times to get those of this machine
    unknown_since: float = field(default_factory=time.monotonic)
    held: list[tuple[float, str]] = field(default_factory=list)  # by the time of the sender

    def pull(self) -> None:
        """Take the markers that have arrived."""
        while True:
            rows, times = self.inlet.pull_chunk(0.0, _AT_ONCE, as_numpy=True)
            self.held += zip(times.tolist(), map(_as_label, rows.tolist()), strict=True)
            if len(times) < _AT_ONCE:
                return

    def pop(self, *, is_lost: bool = False) -> list[tuple[float, str]]:
        """Return the markers with their time by the clock of this machine, once its offset is known."""
        if not self.held:
            return []
        now = time.monotonic()
        try:
            self.clock_offset = float(self.inlet.time_correction(0.0))
            self.unknown_since = now
        except ERRORS:  # not measured yet, since the start or a restart of the sender
            if not is_lost and now < self.unknown_since + _PATIENCE:
                return []
        offset = self.clock_offset or 0.0
        held, self.held = self.held, []
        return [(at + offset, label) for at, label in held if label]


class LslMarkerInlet:
    """Receive all streams of markers with given properties.

    Parameters
    ----------
    queries : sequence of LslQuery
        Streams that match any of them are received. Those that this package publishes itself are left out
        unless their name or source_id is given.

    Attributes
    ----------
    received : int
        Number of markers received, without those that are 0 or empty.
    n_lost : int
        Number of markers dropped: before the first sample, or more than 65536 that waited for samples.
    """

    def __init__(self, queries: Sequence[LslQuery]) -> None:
        self.received = self.n_lost = 0
        self._resolvers = [(query, pylsl.ContinuousResolver(pred=query.predicate)) for query in queries]
        self._streams: dict[str, _MarkerStream] = {}
        self._waiting: deque[tuple[float, Event]] = deque()  # with the time by the clock of this machine
        self._next_search = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the streams that were found."""
        return tuple(stream.name for stream in self._streams.values())

    def receive(self) -> None:
        """Take the markers that have arrived. Does not wait, and does not raise."""
        now = time.monotonic()
        if now >= self._next_search:
            self._next_search = now + _SEARCH
            self._search()
        for key, stream in list(self._streams.items()):
            is_lost = False
            try:
                stream.pull()
            except ERRORS:  # without a source_id by which LSL would find it again
                is_lost = True
                del self._streams[key]
            self._keep(stream.pop(is_lost=is_lost), stream.name)

    def pop(self, find_index: Callable[[float], float | None]) -> Events:
        """Return the markers that the samples have reached, at the samples of their times.

        Parameters
        ----------
        find_index : callable
            Returns the index of a time by the LSL clock of this machine; None if it is not known yet.
        """
        if not self._waiting:
            return NO_EVENTS
        waiting, placed = deque[tuple[float, Event]](), list[Event]()
        for at, event in self._waiting:
            index = find_index(at)
            if index is None:
                waiting.append((at, event))
            elif index < -0.5:
                self.n_lost += 1
            else:
                placed.append(Event(index, event.label, 0.0, event.source))
        self._waiting = waiting
        return Events.from_rows(placed)

    def close(self) -> None:
        """Close the inlets; markers that have arrived can still be returned."""
        self._streams.clear()  # pylsl destroys them
        self._resolvers.clear()

    def _keep(self, markers: list[tuple[float, str]], source: str) -> None:
        for at, label in markers:
            self.received += 1
            self._waiting.append((at, Event(0.0, label, 0.0, source)))
        while len(self._waiting) > _MOST_WAITING:
            self._waiting.popleft()
            self.n_lost += 1

    def _search(self) -> None:
        """Open the streams that have appeared."""
        for query, resolver in self._resolvers:
            for info in resolver.results():
                # LSL finds a sender again by its source_id: then it is the same stream
                key = f"{info.name()}\0{info.source_id()}" if info.source_id() else info.uid()
                if key in self._streams or len(self._streams) >= _MOST_STREAMS or _is_own(info, query):
                    continue
                if info.nominal_srate() > 0:
                    continue  # samples, which have the type of markers
                try:
                    self._streams[key] = _MarkerStream(printable(info.name()), pylsl.StreamInlet(info))
                except ERRORS:
                    continue


def _is_own(info: Any, query: LslQuery) -> bool:
    """Return whether a stream of this package was found by its type only: it might be of this daemon."""
    return query.name is None and query.source_id is None and info.source_id().startswith(OWN_SOURCE)


def _as_label(row: list[Any]) -> str:
    """Return the values of a marker as text; empty if all are 0 or empty."""
    values = (value.decode(errors="replace") if isinstance(value, bytes) else value for value in row)
    return ", ".join(filter(None, map(label_value, values)))
