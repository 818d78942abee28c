"""Choose the columns of a text: samples, times, counters, and those that are left out."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError, printable
from igbss_stream.files.channel_selection import format_ranges, pick_channels
from igbss_stream.files.counters import find_counter
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.text.cells import is_missing, parse_number, parse_time
from igbss_stream.files.readers.text.heads import PER_SECOND, UNIX_RANGE
from igbss_stream.files.readers.text.table import TextFormat

_RISING = 0.97  # of steps that increase in a column of times or of a counter, which may wrap
_ENOUGH = 20  # steps needed to apply this share
_STEADY = 0.999  # correlation of times that jitter with the numbers of their rows
_N_LISTED = 6  # names in a message
_TIMES = {
    "time", "times", "timestamp", "timestamps", "time stamp", "t", "date", "datetime", "date time", "unix",
    "unix time", "unixtime", "elapsed", "elapsed time", "originaltimestamp", "x value", "lsl timestamp",
    "zeit", "zeitstempel", "temps", "horodatage", "tiempo", "tempo", "tijd", "tid", "czas", "время", "时间",
    "時間",
    "s", "sec", "seconds", "ms", "msec", "milliseconds", "us", "ns",
}  # fmt: skip
_COUNTERS = {
    "index", "sample", "samples", "sample index", "sampleindex", "sample number", "sample no", "sample id",
    "nseq", "seq", "sequence", "sequence number", "counter", "count", "packet", "packet counter",
    "packet number", "packet num", "packet id", "frame", "frame number", "frame id", "n", "no", "id", "row",
}  # fmt: skip
_UNIT = re.compile(r"\s*[(\[][^()\[\]]*[)\]]\s*$|[\s_](?:ns|us|ms|s|sec)$")


@dataclass(frozen=True)
class ColumnChoice:
    """Which columns are read, and which contain times.

    Parameters
    ----------
    picks : tuple of int
        Columns with samples.
    times, counters : tuple of int
    notes : tuple of str
        About columns that are left out.
    """

    picks: tuple[int, ...]
    times: tuple[int, ...]
    counters: tuple[int, ...]
    notes: tuple[str, ...]


def choose_columns(
    columns: TextFormat, options: ReadOptions, what: str, triggers: tuple[int, ...]
) -> ColumnChoice:
    """Return the columns to read, without trigger columns, and those that contain times.

    Parameters
    ----------
    columns : TextFormat
    options : ReadOptions
    what : str
        Name of the file, for messages.
    triggers : tuple of int
        Columns of events.

    Raises
    ------
    ParameterError
        If a selected column does not exist.
    RecordingError
        If it is not clear whether a column has samples.
    """
    names = columns.names
    empty = [i for i in range(len(names)) if i not in triggers and columns.is_empty(i)]
    measured = [i for i in range(len(names)) if i not in (*triggers, *empty)]
    times, counters = _find_clocks(columns, measured)
    if options.channels is not None:
        picks = pick_channels(options.channels, names, what)
        known = tuple(i for i in range(len(names)) if i not in picks or i in counters)
        return ColumnChoice(picks, tuple(i for i in times if i in known), counters, ())
    stated = columns.head.channels if columns.head else ()
    if stated:
        picks = tuple(i for i in measured if names[i] in stated)
        others = _list(names, [i for i in measured if i not in picks])
        note = f"only the channels of the device are read, without {others}"
        return ColumnChoice(picks, times, counters, (note,) if others else ())
    _check_texts(columns, [i for i in measured if i not in times], what)
    counters = _check_rising(columns, measured, times, counters, what)
    kinds = (("time columns", times), ("counters", counters), ("empty columns", empty))
    notes = tuple(f"{kind} are omitted: {_list(names, left)}" for kind, left in kinds if left)
    return ColumnChoice(tuple(i for i in measured if i not in (*times, *counters)), times, counters, notes)


def _find_clocks(columns: TextFormat, measured: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the columns of times and counters, as far as their names or their cells say so."""
    times, counters = list[int](), list[int]()
    stated = columns.head.counters if columns.head else ()
    for i in measured:
        name = _UNIT.sub("", columns.names[i].lower().replace("_", " ").strip())
        if not columns.is_numeric(i):
            if all(is_missing(row[i]) or parse_time(row[i]) is not None for row in columns.first):
                times.append(i)
        elif columns.names[i] in stated or (name in _COUNTERS and _may_count(columns, i)):
            counters.append(i)
        elif (name in _TIMES or _is_date(columns, i)) and _may_be_time(columns, i):
            times.append(i)
    return tuple(sorted(times, key=columns.is_numeric, reverse=True)), tuple(counters)


def _check_texts(columns: TextFormat, measured: Sequence[int], what: str) -> None:
    texts = [columns.names[i] for i in measured if not columns.is_numeric(i)]
    if texts:
        raise RecordingError(
            f"{what} has columns that are not numbers ({', '.join(texts[:4])}); pass --channels with "
            f"the columns to read, from 0 to {columns.width - 1}, or --events with a column of labels"
        )


def _check_rising(
    columns: TextFormat,
    measured: Sequence[int],
    times: tuple[int, ...],
    counters: tuple[int, ...],
    what: str,
) -> tuple[int, ...]:
    """Return the counters, also those that only values show; ask about other columns that rise."""
    known = bool(times or counters)
    open_ = [i for i in measured if i not in (*times, *counters)]
    found = tuple(i for i in open_ if find_counter(get_values(columns, i)))
    rising = [i for i in open_ if i in found or rises(columns, i)]
    asked = [i for i in rising if not (known and i in found)]
    if asked:
        rest = format_ranges([i for i in open_ if i not in rising])
        raise RecordingError(
            f"{what} has a column that increases evenly, like a time or a counter "
            f"({', '.join(columns.names[i] for i in asked[:4])}); pass --channels {rest} to omit it, or "
            f"{format_ranges(open_)} to read it as a channel"
        )
    return counters + found


def get_values(columns: TextFormat, column: int) -> NDArray[np.float64]:
    """Return the numbers of the first rows of a column."""
    return np.array([parse_number(row[column], columns.decimal) for row in columns.first])


def _is_date(columns: TextFormat, column: int) -> bool:
    """Return whether the first rows of a column are seconds, ms, us or ns since 1970, of a usual year."""
    x = get_values(columns, column)
    return any(np.all((x / n >= UNIX_RANGE[0]) & (x / n < UNIX_RANGE[1])) for n in PER_SECOND.values())


def _may_be_time(columns: TextFormat, column: int) -> bool:
    """Return whether a column with the name of a time may be one; T may be a temperature."""
    x = get_values(columns, column)
    x = x[np.isfinite(x)]
    if len(x) < 2 or np.ptp(x) == 0:
        return False
    is_rising = np.mean(np.diff(x) >= 0) >= _RISING
    return bool(is_rising or (len(x) > _ENOUGH and np.corrcoef(x, np.arange(len(x)))[0, 1] > _STEADY))


def _may_count(columns: TextFormat, column: int) -> bool:
    return _may_be_time(columns, column) or find_counter(get_values(columns, column)) is not None


def rises(columns: TextFormat, column: int) -> bool:
    """Return whether the first rows of a column increase like a time or a counter."""
    steps = np.diff(get_values(columns, column))
    if len(steps) < 2 or not np.isfinite(steps).all():
        return False
    even = steps.min() > 0 and np.ptp(steps) <= 1e-3 * steps.max()
    return bool(even or (len(steps) >= _ENOUGH and np.mean(steps > 0) >= _RISING))


def _list(names: Sequence[str], which: Sequence[int]) -> str:
    listed = ", ".join(printable(names[i]) for i in which[:_N_LISTED])
    return listed + (f" and {len(which) - _N_LISTED} more" if len(which) > _N_LISTED else "")
