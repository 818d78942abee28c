"""The events of a stream: what happened, at which sample, and for how long.

The position of an event is a sample index, with a fraction if it lies between two samples. Missing samples
count, as in a `Chunk` or a `Gap`; time follows from the index (`Stream.time_of`), never the reverse.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

LONGEST_TEXT = 255
"""Largest number of bytes of a label or source in messages and files."""
_DIGITS = 6  # of an index; times in seconds are not more precise


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened during a stream.

    Parameters
    ----------
    index : float
        Index of the sample, where missing samples count.
    label : str
    duration : float
        In seconds; 0 for an instant, or if it is not known.
    source : str
        Where the event comes from: a list of annotations, a marker stream, a trigger channel.
    """

    index: float
    label: str
    duration: float = 0.0
    source: str = ""


class Events:
    """A table of events, sorted by index. Not changed after its creation.

    Parameters
    ----------
    index : array of shape (events,)
        In samples.
    label : sequence of str
        One per event.
    duration : array of shape (events,), optional
        In seconds. Default: 0. What is not finite, or negative, becomes 0.
    source : str or sequence of str
        Of all events, or one per event.

    Attributes
    ----------
    index, duration : ndarray of shape (events,)
    label, source : ndarray of str, of shape (events,)
        Of dtype object.
    """

    __slots__ = ("duration", "index", "label", "source")

    def __init__(
        self,
        index: ArrayLike = (),
        label: Iterable[str] = (),
        duration: ArrayLike | None = None,
        source: str | Iterable[str] = "",
    ) -> None:
        at = np.round(np.asarray(index, np.float64).reshape(-1), _DIGITS)
        order = np.argsort(at, kind="stable")
        length = np.zeros(len(at)) if duration is None else np.array(duration, np.float64).reshape(-1)
        length[~(np.isfinite(length) & (length > 0))] = 0.0
        sources = [source] * len(at) if isinstance(source, str) else source
        self.index, self.duration = at[order], length[order]
        self.label, self.source = (_as_texts(texts, len(at))[order] for texts in (label, sources))

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Event]:
        columns = self.index.tolist(), self.label.tolist(), self.duration.tolist(), self.source.tolist()
        return (Event(*row) for row in zip(*columns, strict=True))

    @overload
    def __getitem__(self, which: int) -> Event: ...

    @overload
    def __getitem__(self, which: slice | NDArray[Any]) -> "Events": ...

    def __getitem__(self, which: "int | slice | NDArray[Any]") -> "Event | Events":
        """Return one event, or those of a slice or mask."""
        columns = self.index[which], self.label[which], self.duration[which], self.source[which]
        if isinstance(which, slice | np.ndarray):
            return Events(*columns)
        index, label, duration, source = columns
        return Event(float(index), str(label), float(duration), str(source))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Events) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equality compares arrays

    def __repr__(self) -> str:
        return f"Events({len(self)}: {format_counts(self.count_labels()) or 'none'})"

    def move(self, index: ArrayLike) -> "Events":
        """Return the events at other indices, in the same order.

        Parameters
        ----------
        index : array of shape (events,)
        """
        return Events(index, self.label, self.duration, self.source)

    def select_samples(self, n: int) -> "Events":
        """Return the events of the samples from 0 to `n` - 1, each the nearest sample of its events."""
        return self[(self.index >= -0.5) & (self.index < n - 0.5)]

    def count_labels(self) -> dict[str, int]:
        """Return the number of events of each label, the most frequent first."""
        found = Counter(self.label.tolist())
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @classmethod
    def join(cls, tables: "Iterable[Events]") -> "Events":
        """Return the events of several tables as one table."""
        parts = [table for table in tables if len(table)]
        if len(parts) < 2:
            return parts[0] if parts else cls()
        columns = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("index", "label", "duration", "source")
        )
        return cls(*columns)

    @classmethod
    def from_rows(cls, events: Iterable[Event]) -> "Events":
        """Return a table of single events."""
        rows = list(events)
        return cls(
            [one.index for one in rows],
            [one.label for one in rows],
            [one.duration for one in rows],
            [one.source for one in rows],
        )


def _as_texts(texts: Iterable[Any], n: int) -> NDArray[np.object_]:
    """Return texts as an array of `n` entries."""
    given = [str(text) for text in texts]
    if len(given) != n:
        raise ValueError(f"{n} events have {len(given)} texts")
    out = np.empty(n, object)
    out[:] = given
    return out


NO_EVENTS = Events()
"""An empty table; creating one takes time where events are rare."""


def cut_text(text: str) -> str:
    """Return a text without the characters after the first 255 bytes of UTF-8."""
    return text.encode("utf-8", "replace")[:LONGEST_TEXT].decode(errors="ignore")


def format_counts(counts: dict[str, int], most: int = 8) -> str:
    """Format the number of events of each label, such as ``"rt 74, square 80"``.

    Parameters
    ----------
    counts : dict
        Of `Events.count_labels`.
    most : int
        Number of labels that are listed.
    """
    listed = [f"{label or '(empty)'} {n}" for label, n in list(counts.items())[:most]]
    more = len(counts) - most
    return ", ".join([*listed, *([f"... ({more} more labels)"] if more > 0 else [])])


class OnsetFinder:
    """Finds the onsets in a trigger channel, block by block.

    An event begins where the value changes to another one than zero, and lasts until it changes again.

    Parameters
    ----------
    source : str
        Name of the channel.
    rate : float or None
        In Hz, for the durations.
    mask : int or None
        Bits of the values that count.
    from_start : bool
        Whether a value at the first sample is an event. Its onset is not known.
    """

    def __init__(
        self, source: str, rate: float | None, *, mask: int | None = None, from_start: bool = False
    ) -> None:
        self._source, self._rate, self._mask = source, rate, mask
        self._value: Any = "" if from_start else None
        self._starts, self._labels = list[float](), list[str]()
        self._stops, self._n = list[float](), 0

    def push(self, values: ArrayLike, start: int | None = None) -> None:
        """Add the values of the next samples: numbers, or texts.

        Parameters
        ----------
        values : array of shape (samples,)
        start : int, optional
            Index of the first of them. Default: they follow the previous ones.
        """
        x = np.asarray(values)
        self._n = self._n if start is None else start
        if x.dtype.kind in "fiub" and self._mask is not None:
            x = np.nan_to_num(x).astype(np.int64) & self._mask
        if not len(x):
            return
        changes = np.flatnonzero(x[1:] != x[:-1]) + 1
        for at in [0, *changes.tolist()]:
            label = label_value(x[at])
            if self._value is None:
                self._value = label
            elif label != self._value:
                self._end(self._n + at)
                self._value = label
                if label:
                    self._starts.append(self._n + at)
                    self._labels.append(label)
        self._n += len(x)

    def pop_onsets(self) -> Events:
        """Return the events that have begun since the last call, without their durations."""
        events = Events(self._starts, self._labels, None, self._source)
        self._starts, self._labels, self._stops = [], [], []
        return events

    def finish(self) -> Events:
        """Return all events."""
        self._end(self._n)
        lengths = np.subtract(self._stops, self._starts)
        return Events(
            self._starts, self._labels, lengths / self._rate if self._rate else None, self._source
        )

    def _end(self, at: int) -> None:
        if len(self._stops) < len(self._starts):
            self._stops.append(at)


def label_value(value: Any) -> str:
    """Return the label of a value of a trigger channel; empty for zero, NaN and empty text."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            return text
    number = float(value)
    if number == 0 or math.isnan(number):
        return ""
    return f"{number:.0f}" if number.is_integer() and abs(number) < 2**53 else f"{number:g}"
