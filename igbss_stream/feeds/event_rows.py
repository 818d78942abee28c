"""The events in a message: their fields, the limits of each, and their conversion from tables."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec

from igbss_stream.events import LONGEST_TEXT, Events, cut_text
from igbss_stream.feeds.model_facts import MAX_INTEGER

MAX_EVENTS = 1024
"""Largest number of events in a message."""

_Index = Annotated[float, msgspec.Meta(ge=-0.5, lt=MAX_INTEGER)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
_Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]


class EventRow(msgspec.Struct, frozen=True):
    """An event as sent; see `Event` for the fields."""

    index: _Index
    label: _Text
    duration: _Seconds = 0.0
    source: _Text = ""


def find_long_text(rows: Iterable[EventRow]) -> str | None:
    """Return what is wrong with the first text that exceeds 255 bytes; None if none is.

    Parameters
    ----------
    rows : iterable of EventRow
    """
    for row in rows:
        for name, text in (("label", row.label), ("source", row.source)):
            n_bytes = len(text.encode("utf-8", "replace"))
            if n_bytes > LONGEST_TEXT:
                return f"the {name} of an event has {n_bytes} bytes; at most {LONGEST_TEXT} are allowed."
    return None


def split_rows(events: Events) -> Iterator[list[EventRow]]:
    """Yield events as rows that receivers accept, up to `MAX_EVENTS` at a time.

    Parameters
    ----------
    events : Events
        Texts are cut to 255 bytes, durations to 1e12 s; events outside the range of an index are omitted.
    """
    fitting = events[(events.index >= -0.5) & (events.index < MAX_INTEGER)]
    for first in range(0, len(fitting), MAX_EVENTS):
        yield [
            EventRow(one.index, cut_text(one.label), min(one.duration, 1e12), cut_text(one.source))
            for one in fitting[first : first + MAX_EVENTS]
        ]
