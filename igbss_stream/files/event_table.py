"""The table of events in our HDF5 files: `/events`.

Its columns are those of `Event`, and `row`, the position among the stored rows, where gaps take none.
"""

from collections.abc import Sequence
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.events import Events, cut_text
from igbss_stream.files.gaps import get_rows

NAME = "events"
_FIELDS = ("row", "index", "time", "duration", "label", "source")
_MOST = 1 << 24


def make_event_table(events: Events, gaps: Sequence[Gap], rate: float | None) -> NDArray[np.void]:
    """Return events as rows of a table.

    Parameters
    ----------
    events : Events
    gaps : sequence of Gap
        Of the stored samples.
    rate : float or None
        In Hz. Without one, the times are NaN.
    """
    labels, sources = _encode(events.label), _encode(events.source)
    table = np.zeros(
        len(events),
        [
            *((name, "<f8") for name in _FIELDS[:4]),
            ("label", h5py.string_dtype("utf-8", labels.dtype.itemsize)),
            ("source", h5py.string_dtype("utf-8", sources.dtype.itemsize)),
        ],
    )
    table["row"], table["index"] = get_rows(gaps, events.index), events.index
    table["time"] = events.index / rate if rate else np.nan
    table["duration"], table["label"], table["source"] = events.duration, labels, sources
    return table


def _encode(texts: NDArray[np.object_]) -> NDArray[np.bytes_]:
    """Return texts as UTF-8 of at most 255 bytes each, cut between characters."""
    return np.array([cut_text(text).encode() for text in texts.tolist()] or [b" "], "S")[: len(texts)]


def read_event_table(handle: Any, first: int = 0) -> Events:
    """Return the events of a table; none if it is not one.

    Parameters
    ----------
    handle : h5py.Dataset or None
    first : int
        Index of the first stored row, from which the returned indices count.
    """
    if handle is None or handle.ndim != 1 or handle.dtype.names != _FIELDS or handle.size > _MOST:
        return Events()
    table = np.asarray(handle[()])
    texts = ([bytes(text).decode("utf-8", "replace") for text in table[name]] for name in _FIELDS[4:])
    label, source = texts
    known = np.where(np.isfinite(table["index"]), table["index"] - first, -1.0)  # -1 is before the samples
    return Events(known, label, table["duration"], source)
