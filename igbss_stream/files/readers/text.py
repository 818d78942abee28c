"""Read recordings from text: numbers in columns, with or without a line of names.

Text files do not state a sampling rate, so the user must pass it. OpenBCI files state the rate and name the
electrode channels.
"""

import csv
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError, RecordingError, printable
from igbss_stream.events import Events, OnsetFinder
from igbss_stream.files.channel_selection import format_ranges, pick_channels
from igbss_stream.files.messages import as_one_line, check_counts, complete_names
from igbss_stream.files.read_options import ReadOptions
from igbss_stream.files.recording import Facts, Fill, Recording

_COMMENTS = ("#", "%")
_N_FIRST = 200  # lines from which the format is detected
_LONGEST_LINE = 1 << 20
_N_ROWS = 1 << 14  # that are read at a time to find onsets
_N_SHOWN = 40  # characters of a cell in a message
_RISING = 0.97  # of steps that increase in a column of times or of a counter, which may wrap
_ENOUGH = 20  # steps needed to apply this share
_TIMES = {"time", "timestamp", "timestamps", "t", "samples", "sample", "sample index", "index"}
_OPENBCI_RATE = re.compile(r"%\s*Sample Rate\s*=\s*([0-9.]+)")


@dataclass(frozen=True)
class TextFormat:
    """Format of a text file.

    Parameters
    ----------
    delimiter : str or None
        Separator of columns; None for spaces.
    n_before : int
        Lines before the first row, without comments and empty lines.
    names : tuple of str
    first : tuple of tuple of str
        Cells of the first rows.
    openbci_rate : float or None
    """

    delimiter: str | None
    n_before: int
    names: tuple[str, ...]
    first: tuple[tuple[str, ...], ...]
    openbci_rate: float | None

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)


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
        self._columns, self._picks, self._closed = columns, picks, False

    def close(self) -> None:
        """Close the recording."""
        self._closed = True

    def _make_filler(self, n: int) -> Fill:
        lines = _read_rows(self.path, self._columns.n_before)
        row = 0

        def fill(start: int, out: NDArray[Any]) -> None:
            nonlocal row
            if self._closed:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            block = list(itertools.islice(lines, start - row, start - row + len(out)))
            row = start + len(out)
            if len(block) < len(out):
                raise RecordingError(
                    f"{str(self.path)!r} became shorter during reading; read it again when it is complete"
                )
            try:
                if any(
                    _count_columns(line, self._columns.delimiter) != self._columns.width
                    for _, line in block
                ):
                    raise ValueError("rows of different length")
                out[:] = np.loadtxt(
                    [line for _, line in block],
                    delimiter=self._columns.delimiter,
                    usecols=self._picks,
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                )
            except (ValueError, IndexError) as error:
                raise self._make_error(block, error) from error

        return fill

    def _make_error(self, block: list[tuple[int, str]], error: Exception) -> RecordingError:
        """Return an error that states which line cannot be read, and why."""
        columns, what = self._columns, repr(str(self.path))
        for number, line in block:
            cells = _split_cells(line, columns.delimiter)
            if len(cells) != columns.width:
                return RecordingError(
                    f"line {number} of {what} has {len(cells)} columns, but the first rows have "
                    f"{columns.width}; correct it"
                )
            wrong = next((i for i in self._picks if not _is_number(cells[i])), None)
            if wrong is not None:
                return RecordingError(
                    f"line {number} of {what} has {printable(cells[wrong][:_N_SHOWN])!r} in column {wrong} "
                    f"({printable(columns.names[wrong])}), which is not a number; correct it (write "
                    "nan for a missing "
                    "value), or pass --channels with other columns"
                )
        return RecordingError(
            f"lines {block[0][0]} to {block[-1][0]} of {what} cannot be read: {as_one_line(error)}; "
            "correct "
            "them"
        )


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
    columns = _detect_format(path)
    rate = options.rate or columns.openbci_rate
    if rate is None:
        suggestion = _suggest_rate(columns)
        raise RecordingError(f"{what} is text and has no sampling rate; pass --rate{suggestion}")
    triggers = pick_channels(options.event_names, columns.names, what) if options.event_names else ()
    picks, notes = _pick_columns(columns, options, what, triggers)
    n_samples = sum(1 for _ in _read_rows(path, columns.n_before))
    check_counts(n_samples, len(picks), what)
    names = tuple(columns.names[i] for i in picks)
    microvolts = columns.openbci_rate is not None and not options.channels
    kind = "OpenBCI text" if columns.openbci_rate is not None else "text"
    why = "it is text with columns" + (" and states %Sample Rate" if kind != "text" else "")
    unit = options.unit or ("uV" if microvolts and options.factor is None else None)
    gain = None if options.factor is None else np.full(len(picks), float(options.factor))
    events = (lambda: _find_onsets(path, columns, triggers, rate)) if triggers else Events()
    return TextRecording(
        path,
        columns,
        picks,
        facts=Facts(kind, why, "", rate, unit, names, notes=notes, events=events),
        n_samples=n_samples,
        dtype=np.dtype("f8"),
        gain=gain,
    )


def _suggest_rate(columns: TextFormat) -> str:
    """Return the rate that a column of even times suggests; empty without such a column."""
    for i, name in enumerate(columns.names):
        if all(_is_number(row[i]) for row in columns.first) and _is_counter(columns, i):
            step = float(np.mean(_compute_steps(columns, i)))
            if np.ptp(_compute_steps(columns, i)) <= 1e-3 * step and step != 1:
                unit, rate = ("seconds", 1 / step) if step < 1 else ("milliseconds", 1e3 / step)
                return f" ({name} increases by {step:.4g} per row: --rate {rate:.6g} if it is in {unit})"
    return ""


def _find_onsets(path: Path, columns: TextFormat, triggers: tuple[int, ...], rate: float) -> Events:
    """Return the onsets in columns of numbers or texts. A row with too few columns changes nothing."""
    finders = [OnsetFinder(columns.names[i], rate, from_start=True) for i in triggers]
    rows = _read_rows(path, columns.n_before)
    while block := list(itertools.islice(rows, _N_ROWS)):
        cells = [_split_cells(line, columns.delimiter) for _, line in block]
        for i, finder in zip(triggers, finders, strict=True):
            finder.push(np.array([row[i] if i < len(row) else "" for row in cells]))
    return Events.join(finder.finish() for finder in finders)


def _pick_columns(
    columns: TextFormat, options: ReadOptions, what: str, triggers: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the columns to read, without trigger columns, and notes about omitted ones."""
    names = columns.names
    if options.channels is not None:
        return pick_channels(options.channels, names, what), ()
    if columns.openbci_rate is not None:
        electrodes = tuple(
            i for i, name in enumerate(names) if name.startswith("EXG Channel") and i not in triggers
        )
        return electrodes, ("only the electrode columns (EXG) are read",)
    measured = [i for i in range(len(names)) if i not in triggers]
    texts = [names[i] for i in measured if not all(_is_number(row[i]) for row in columns.first)]
    if texts:
        raise RecordingError(
            f"{what} has columns that are not numbers ({', '.join(texts[:4])}); pass --channels with "
            f"the columns to read, from 0 to {len(names) - 1}, or --events with a column of labels"
        )
    times = tuple(i for i in measured if names[i].lower() in _TIMES and _may_be_time(columns, i))
    counting = tuple(i for i in measured if i not in times and _is_counter(columns, i))
    if counting and not times:
        rest = format_ranges([i for i in measured if i not in counting])
        raise RecordingError(
            f"{what} has a column that increases evenly, like a time or a counter "
            f"({', '.join(names[i] for i in counting[:4])}); pass --channels {rest} to omit it, or "
            f"0-{len(names) - 1} to read it as a channel"
        )
    notes = (f"time columns are omitted: {', '.join(names[i] for i in times)}",) if times else ()
    return tuple(i for i in measured if i not in times), notes


def _compute_steps(columns: TextFormat, column: int) -> NDArray[np.float64]:
    return np.diff([float(row[column]) for row in columns.first])


def _may_be_time(columns: TextFormat, column: int) -> bool:
    """Return whether a column with the name of a time may be one; T may be a temperature."""
    return bool(np.mean(_compute_steps(columns, column) >= 0) >= _RISING)


def _is_counter(columns: TextFormat, column: int) -> bool:
    """Return whether the first rows of a column increase like a time or a counter."""
    steps = _compute_steps(columns, column)
    if len(steps) < 2 or not np.isfinite(steps).all():
        return False
    even = steps.min() > 0 and np.ptp(steps) <= 1e-3 * steps.max()
    return bool(even or (len(steps) >= _ENOUGH and np.mean(steps > 0) >= _RISING))


def _detect_format(path: Path) -> TextFormat:
    """Detect the format of a text file from its first lines."""
    rate, lines = None, []
    for line in itertools.islice(_read_lines(path), _N_FIRST):
        stated = _OPENBCI_RATE.match(line)
        rate = float(stated[1]) if stated else rate
        if line.strip() and not line.startswith(_COMMENTS):
            lines.append(line)
    if len(lines) < 2:
        raise RecordingError(f"{str(path)!r} has fewer than two rows; pass a longer recording")
    delimiter = next((d for d in (";", ",", "\t") if d in lines[0] and d in lines[1]), None)
    rows = [_split_cells(line, delimiter) for line in lines]
    has_names = not any(map(_is_number, rows[0])) and any(map(_is_number, rows[1]))
    first = rows[1:] if has_names else rows
    width = len(first[0])
    if any(len(row) != width for row in first):
        raise RecordingError(
            f"{str(path)!r} has rows of different lengths and is not a table of numbers; convert it first"
        )
    names = rows[0] if has_names else ()
    return TextFormat(delimiter, int(has_names), complete_names(names, width), tuple(first), rate)


def _split_cells(line: str, delimiter: str | None) -> tuple[str, ...]:
    if delimiter is None:
        return tuple(line.split())
    return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line


def _read_rows(path: Path, n_before: int) -> Iterator[tuple[int, str]]:
    """Yield the lines with samples, each with its line number."""
    lines = (
        (number, line)
        for number, line in enumerate(_read_lines(path), 1)
        if line.strip() and not line.startswith(_COMMENTS)
    )
    return itertools.islice(lines, n_before, None)


def _count_columns(line: str, delimiter: str | None) -> int:
    """Return the number of columns of a line."""
    if delimiter is None or '"' in line:
        return len(_split_cells(line, delimiter))
    return line.count(delimiter) + 1
