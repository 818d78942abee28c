"""Read recordings from text: numbers in columns, with or without a line of names.

Text files rarely state a sampling rate, so the user passes it unless a head or a column of times gives it.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.events import Events, OnsetFinder
from igbss_stream.files.channel_selection import pick_channels
from igbss_stream.files.gaps import get_indices
from igbss_stream.files.jittered_times import estimate_rate
from igbss_stream.files.messages import check_counts
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.readers.text.cells import split_cells
from igbss_stream.files.readers.text.clock import TextTiming, find_timing, read_columns, suggest_rate
from igbss_stream.files.readers.text.columns import ColumnChoice, choose_columns, get_values, rises
from igbss_stream.files.readers.text.lines import read_rows
from igbss_stream.files.readers.text.parse import parse_lines
from igbss_stream.files.readers.text.table import TextFormat, detect_format
from igbss_stream.files.recording import Facts, Fill, Recording

_N_ROWS = 1 << 14  # that are read at a time to find onsets


class TextRecording(Recording):
    """A recording in a text file; created by `open_text`.

    Parameters
    ----------
    path : Path
    columns : TextFormat
    picks : tuple of int
        Columns to read.
    **facts
        Parameters of `Recording`.
    """

    def __init__(self, path: Path, columns: TextFormat, picks: tuple[int, ...], **facts: Any) -> None:
        super().__init__(path, **facts)
        self._columns, self._columns_read, self._closed = columns, picks, False

    def close(self) -> None:
        """Close the recording."""
        self._closed = True

    def _make_filler(self, n: int) -> Fill:
        lines = read_rows(self.path, self._columns.encoding, self._columns.n_before)
        row, what = 0, repr(str(self.path))

        def fill(start: int, out: NDArray[Any]) -> None:
            nonlocal row
            if self._closed:
                raise RecordingError(f"{what} is closed; open it again to read from it")
            block = list(itertools.islice(lines, start - row, start - row + len(out)))
            row = start + len(out)
            if len(block) < len(out):
                raise RecordingError(
                    f"{what} became shorter during reading; read it again when it is complete"
                )
            parse_lines(block, self._columns, self._columns_read, out, what)

        return fill


def open_text(path: Path, options: ReadOptions) -> TextRecording:
    """Open a text file with columns of numbers.

    Parameters
    ----------
    path : Path
    options : ReadOptions

    Returns
    -------
    TextRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If the rate is unknown, or columns must be selected, are not numbers or are too few.
    """
    what = repr(str(path))
    if options.dataset is not None or options.axis is not None:
        raise ParameterError(f"{what} is text with one column per channel; omit --dataset and --axis")
    columns = detect_format(path, selected=options.channels is not None)
    triggers = pick_channels(options.event_names, columns.names, what) if options.event_names else ()
    stated = columns.head.rate if columns.head else None
    try:
        chosen = choose_columns(columns, options, what, triggers)
    except RecordingError as error:
        if options.rate or stated:
            raise
        raise RecordingError(
            f"{error}; it has no sampling rate either, so pass --rate{_suggest_rate(columns)} too"
        ) from error
    clocks = (*chosen.times, *chosen.counters)
    n_samples, values = read_columns(path, columns, clocks)
    by_column = dict(zip(clocks, values, strict=True))
    timing = find_timing(
        columns,
        {i: by_column[i] for i in chosen.times},
        {i: by_column[i] for i in chosen.counters},
        options.rate or stated,
        what,
    )
    rate, notes = options.rate or stated or timing.rate, columns.notes + chosen.notes + timing.notes
    if rate is None:
        raise RecordingError(f"{what} is text and has no sampling rate; pass --rate{timing.suggestion}")
    if not (options.rate or stated):
        listed = ", ".join(columns.names[i] for i in chosen.times)
        notes += (f"the rate follows from the times in {listed}",)
    if not columns.ends_complete:
        notes += ("the last line has no line break and may be cut within a number, so it is left out",)
    check_counts(n_samples, len(chosen.picks), what)
    unit, unit_notes = _find_unit(columns, chosen, options)
    names = tuple(columns.names[i] for i in chosen.picks)
    kind = columns.head.kind if columns.head else "text"
    why = "it is text with columns" + (" and the head of this program" if columns.head else "")
    gain = None if options.factor is None else np.full(len(names), float(options.factor))

    def find_events() -> Events:
        found = _find_onsets(path, columns, triggers, rate)
        return found.move(get_indices(timing.gaps, found.index))

    return TextRecording(
        path,
        columns,
        chosen.picks,
        facts=Facts(
            kind,
            why,
            "",
            rate,
            unit,
            names,
            gaps=timing.gaps,
            notes=notes + unit_notes,
            events=find_events if triggers else Events(),
            t0=_find_start(columns, timing, [by_column[i] for i in chosen.times]),
        ),
        n_samples=n_samples,
        dtype=np.dtype("f8"),
        gain=gain,
    )


def _find_start(
    columns: TextFormat, timing: TextTiming, times: Sequence[NDArray[np.float64]]
) -> float | None:
    """Return the Unix time of the first row: by the times, or by the head if these begin with 0."""
    if timing.t0 is not None or columns.head is None:
        return timing.t0
    return columns.head.t0 if all(len(column) and column[0] == 0 for column in times) else None


def _suggest_rate(columns: TextFormat) -> str:
    """Return the rate that a column of even times suggests; empty without such a column."""
    for i, name in enumerate(columns.names):
        if columns.is_numeric(i) and rises(columns, i):
            measured = estimate_rate(get_values(columns, i))
            return "" if measured is None else suggest_rate(name, measured)
    return ""


def _find_unit(
    columns: TextFormat, chosen: ColumnChoice, options: ReadOptions
) -> tuple[str | None, tuple[str, ...]]:
    """Return the unit of the columns that are read, and a note if they have several."""
    if options.unit or options.factor is not None:
        return options.unit, ()
    head = columns.head
    if head and head.unit and (options.channels is None or not head.channels):
        return head.unit, ()
    stated = {columns.units[i] for i in chosen.picks} if columns.units else set[str]()
    if len(stated) > 1:
        return None, (
            f"the columns have several units ({', '.join(sorted(stated - {''}))}), so it is unknown",
        )
    return (stated.pop() or None) if stated else None, ()


def _find_onsets(path: Path, columns: TextFormat, triggers: tuple[int, ...], rate: float) -> Events:
    """Return the onsets in columns of numbers or texts. A row with too few columns changes nothing."""
    finders = [OnsetFinder(columns.names[i], rate, from_start=True) for i in triggers]
    rows = read_rows(path, columns.encoding, columns.n_before)
    while block := list(itertools.islice(rows, _N_ROWS)):
        cells = [split_cells(line, columns.delimiter) for _, line in block]
        for i, finder in zip(triggers, finders, strict=True):
            finder.push(np.array([row[i] if i < len(row) else "" for row in cells]))
    return Events.join(finder.finish() for finder in finders)
