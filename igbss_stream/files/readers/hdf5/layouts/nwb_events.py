"""Events of NWB: tables of intervals and of events, series of annotations, and the start of the session."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import h5py
import numpy as np

from igbss_stream.events import label_value
from igbss_stream.files.bad_rows import is_bad
from igbss_stream.files.clock import TimedEvents, Timeline
from igbss_stream.files.readers.hdf5.file import decode_text, read_attribute
from igbss_stream.files.readers.hdf5.layouts.values import (
    get_dataset,
    is_numeric,
    parse_time,
    read_number,
    read_text,
    read_text_attribute,
    walk_groups,
)

_MOST = 1 << 20  # events in a table
_INVALID = "invalid_times"  # the table of intervals whose samples are invalid
# Columns that name an event, the best first; otherwise the name of the table does.
_NAMES = ("label", "event_type", "event", "condition", "stimulus", "trial_type", "annotation", "tags")


def read_timeline(series: Any) -> Timeline:
    """Return the events of a file, and when a series begins.

    Parameters
    ----------
    series : h5py.Group
    """
    file = series.file
    time_0 = parse_time(
        read_text(file, "timestamps_reference_time") or read_text(file, "session_start_time")
    )
    return Timeline(_read_events(file), _read_first_time(series), time_0)


def _read_first_time(series: Any) -> float:
    """Return the time of the first sample of a series, in seconds; 0 if it is not stated."""
    start = read_number(series, "starting_time")
    if start is not None:
        return start
    times = get_dataset(series, "timestamps")
    if times is None or times.ndim != 1 or not len(times) or not is_numeric(times):
        return 0.0
    first = float(times[0])
    return first if np.isfinite(first) else 0.0


def _read_events(file: Any) -> TimedEvents:
    """Return all events of a file."""
    readers = {
        "TimeIntervals": _read_intervals,
        "AnnotationSeries": _read_annotations,
        "EventsTable": _read_event_table,
        "AnnotatedEventsTable": _read_event_table,
        "Events": _read_event_series,
        "LabeledEvents": _read_event_series,
    }
    found = []
    for group in walk_groups(file):
        reader = readers.get(read_text_attribute(group, "neurodata_type") or "")
        table = None if reader is None else reader(group)
        if table is not None:
            found.append(table)
    return TimedEvents.join(found)


def _read_intervals(group: Any) -> TimedEvents | None:
    """Return the events of a table such as the trials."""
    start, stop = _read_numbers(group, "start_time"), _read_numbers(group, "stop_time")
    if start is None:
        return None
    length = stop - start if stop is not None and len(stop) == len(start) else np.zeros(len(start))
    table = _make_table(group, start, length)
    if _name(group) != _INVALID:
        return table
    labels = [label if is_bad(label) else f"BAD_{label}" for label in table.label]
    return replace(table, label=labels)


def _read_event_table(group: Any) -> TimedEvents | None:
    """Return the events of a table with one event a row."""
    start, length = _read_numbers(group, "timestamp"), _read_numbers(group, "duration")
    if start is None:
        return None
    return _make_table(
        group, start, np.zeros(len(start)) if length is None or len(length) != len(start) else length
    )


def _make_table(group: Any, start: Any, length: Any) -> TimedEvents:
    name = _name(group)
    labels = next((found for column in _NAMES if (found := _read_labels(group, column, len(start)))), None)
    return TimedEvents(start, labels or [name] * len(start), length, [name] * len(start))


def _read_annotations(group: Any) -> TimedEvents | None:
    """Return the events of a series of texts with timestamps."""
    times = _read_numbers(group, "timestamps")
    labels = None if times is None else _read_labels(group, "data", len(times))
    if times is None or labels is None:
        return None
    return TimedEvents(times, labels, np.zeros(len(times)), [_name(group)] * len(times))


def _read_event_series(group: Any) -> TimedEvents | None:
    """Return the events of a series of timestamps, with the codes of labels in a LabeledEvents."""
    times = _read_numbers(group, "timestamps")
    if times is None:
        return None
    name, codes = _name(group), _read_numbers(group, "data")
    labels = [name] * len(times)
    if codes is not None and len(codes) == len(times):
        stated = read_attribute(group["data"], "labels")
        texts = [decode_text(text) or "" for text in np.atleast_1d(stated)] if stated is not None else []
        labels = [
            texts[code] if 0 <= code < len(texts) else str(code) for code in codes.astype(int).tolist()
        ]
    return TimedEvents(times, labels, np.zeros(len(times)), [name] * len(times))


def _name(group: Any) -> str:
    return str(group.name.rsplit("/", 1)[-1])


def _read_numbers(group: Any, name: str) -> Any:
    """Return a column of numbers in float64; None if there is none."""
    found = get_dataset(group, name)
    if found is None or found.ndim != 1 or found.size > _MOST or not is_numeric(found):
        return None
    return np.asarray(found[()], np.float64)


def _read_labels(group: Any, name: str, n: int) -> Sequence[str] | None:
    """Return a column as labels; None if there is none, or its rows are lists."""
    found = get_dataset(group, name)
    if found is None or found.ndim != 1:
        return None
    ends = get_dataset(group, f"{name}_index")
    if len(found) > _MOST or (ends is None and len(found) != n):
        return None
    is_text = h5py.check_string_dtype(found.dtype) is not None
    if not is_text and (not is_numeric(found) or found.dtype.kind == "f"):
        return None
    texts = [(decode_text(value) or "") if is_text else label_value(value) for value in found[()].tolist()]
    if ends is None:
        return texts
    if ends.ndim != 1 or len(ends) != n or not is_numeric(ends):
        return None
    stops = ends[()].astype(int).tolist()
    return [", ".join(texts[a:b]) for a, b in zip([0, *stops[:-1]], stops, strict=True)]
