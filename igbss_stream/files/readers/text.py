"""Recordings as text: numbers in columns, with or without a line of names; read in blocks.

A text does not tell its rate, so it must be given; OpenBCI's does, and names its channels of electrodes.
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

from igbss_stream.errors import InputError, ParameterError, RecordingError, printable
from igbss_stream.files.channel_selection import picked, ranges
from igbss_stream.files.messages import check_counts, numbered, one_line
from igbss_stream.files.read_options import Wanted
from igbss_stream.files.recording import Facts, Fill, Recording

_COMMENTS = ("#", "%")
_SNIFFED = 200  # lines
_LONGEST_LINE = 1 << 20
_SHOWN = 40  # characters of a cell that a message shows
_RISING = 0.97  # share of steps upwards that makes a column a time or a counter, which may wrap
_ENOUGH = 20  # steps, to go by that share
_TIMES = {"time", "timestamp", "timestamps", "t", "samples", "sample", "sample index", "index"}
_OPENBCI_RATE = re.compile(r"%\s*Sample Rate\s*=\s*([0-9.]+)")


@dataclass(frozen=True)
class Columns:
    """How a text is written.

    Parameters
    ----------
    delimiter : str or None
        Between columns; None for spaces.
    n_before : int
        Lines before the first row, comments and empty ones not counted.
    names : tuple of str
    first : tuple of tuple of str
        The cells of the first rows.
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
    """A recording in an open text; `open_text` makes it.

    Parameters
    ----------
    path : Path
    columns : Columns
    wanted : tuple of int
        The columns that are read.
    **facts
        What `Recording` takes.
    """

    def __init__(self, path: Path, columns: Columns, wanted: tuple[int, ...], **facts: Any) -> None:
        super().__init__(path, **facts)
        self._columns, self._wanted, self._closed = columns, wanted, False

    def close(self) -> None:
        """Let go of the file."""
        self._closed = True

    def _make_filler(self, n: int) -> Fill:
        lines = _rows(self.path, self._columns.n_before)
        row = 0

        def fill(start: int, out: NDArray[Any]) -> None:
            nonlocal row
            if self._closed:
                raise RecordingError(f"{str(self.path)!r} is closed; open it again to read from it")
            block = list(itertools.islice(lines, start - row, start - row + len(out)))
            row = start + len(out)
            if len(block) < len(out):
                raise RecordingError(
                    f"{str(self.path)!r} has become shorter while it was read; read it again when it is "
                    "whole"
                )
            try:
                if any(_width(line, self._columns.delimiter) != self._columns.width for _, line in block):
                    raise ValueError("rows of different length")
                out[:] = np.loadtxt(
                    [line for _, line in block],
                    delimiter=self._columns.delimiter,
                    usecols=self._wanted,
                    ndmin=2,
                    comments=None,
                    quotechar='"',
                )
            except (ValueError, IndexError) as error:
                raise self._wrong(block, error) from error

        return fill

    def _wrong(self, block: list[tuple[int, str]], error: Exception) -> RecordingError:
        """Say which line cannot be read, and why."""
        columns, what = self._columns, repr(str(self.path))
        for number, line in block:
            cells = _cells(line, columns.delimiter)
            if len(cells) != columns.width:
                return RecordingError(
                    f"line {number} of {what} has {len(cells)} columns where the first rows have "
                    f"{columns.width}; repair it"
                )
            wrong = next((i for i in self._wanted if not _is_number(cells[i])), None)
            if wrong is not None:
                return RecordingError(
                    f"line {number} of {what} has {printable(cells[wrong][:_SHOWN])!r} in column {wrong} "
                    f"({printable(columns.names[wrong])}), which is no number; repair it (nan stands for a "
                    "missing one), or pass --channels with other columns"
                )
        return RecordingError(
            f"lines {block[0][0]} to {block[-1][0]} of {what} cannot be read: {one_line(error)}; repair "
            "them"
        )


def open_text(path: Path, wanted: Wanted) -> TextRecording:
    """Open a text with columns of numbers.

    Parameters
    ----------
    path : Path
    wanted : Wanted

    Returns
    -------
    TextRecording

    Raises
    ------
    ParameterError, RecordingError, InputError
        If the rate is not given, or the columns are not told, no numbers or too few.
    """
    what = repr(str(path))
    if wanted.dataset is not None or wanted.axis is not None:
        raise ParameterError(f"{what} is a text with a column a channel; leave --dataset and --axis out")
    columns = _sniffed(path)
    rate = wanted.rate or columns.openbci_rate
    if rate is None:
        clock = _clock(columns)
        raise RecordingError(f"{what} is a text, which does not tell its rate; pass --rate{clock}")
    picks, notes = _columns(columns, wanted, what)
    n_samples = sum(1 for _ in _rows(path, columns.n_before))
    check_counts(n_samples, len(picks), what)
    if len(picks) > n_samples:
        raise InputError(f"{what} has {len(picks)} channels and {n_samples} samples, fewer than channels")
    names = tuple(columns.names[i] for i in picks)
    microvolts = columns.openbci_rate is not None and not wanted.channels
    kind = "OpenBCI text" if columns.openbci_rate is not None else "text"
    why = "it is text with columns" + (" and states %Sample Rate" if kind != "text" else "")
    unit = wanted.unit or ("uV" if microvolts and wanted.factor is None else None)
    gain = None if wanted.factor is None else np.full(len(picks), float(wanted.factor))
    return TextRecording(
        path,
        columns,
        picks,
        facts=Facts(kind, why, "", rate, unit, names, notes=notes),
        n_samples=n_samples,
        dtype=np.dtype("f8"),
        gain=gain,
    )


def _clock(columns: Columns) -> str:
    """Return what a column of even times says of the rate; nothing where there is none, or a counter."""
    for i, name in enumerate(columns.names):
        if all(_is_number(row[i]) for row in columns.first) and _counts(columns, i):
            step = float(np.mean(_steps(columns, i)))
            if np.ptp(_steps(columns, i)) <= 1e-3 * step and step != 1:
                unit, rate = ("seconds", 1 / step) if step < 1 else ("milliseconds", 1e3 / step)
                return f" ({name} goes up by {step:.4g} a row: --rate {rate:.6g} if that is in {unit})"
    return ""


def _columns(columns: Columns, wanted: Wanted, what: str) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the columns to read, and what is left out."""
    names = columns.names
    if wanted.channels is not None:
        return picked(wanted.channels, names, what), ()
    if columns.openbci_rate is not None:
        electrodes = tuple(i for i, name in enumerate(names) if name.startswith("EXG Channel"))
        return electrodes, ("columns other than those of electrodes (EXG) are left out",)
    texts = [names[i] for i in range(len(names)) if not all(_is_number(row[i]) for row in columns.first)]
    if texts:
        raise RecordingError(
            f"{what} has columns that are not numbers ({', '.join(texts[:4])}); pass --channels with "
            f"those to take, of {len(names)} columns counted from 0"
        )
    times = tuple(i for i, name in enumerate(names) if name.lower() in _TIMES and _goes_on(columns, i))
    counting = tuple(i for i in range(len(names)) if i not in times and _counts(columns, i))
    if counting and not times:
        rest = ranges([i for i in range(len(names)) if i not in counting])
        raise RecordingError(
            f"{what} has a column that rises evenly, as a time or a counter does "
            f"({', '.join(names[i] for i in counting[:4])}); pass --channels {rest} to leave it out, or "
            f"0-{len(names) - 1} to take it as a channel"
        )
    left = (f"columns of time are left out: {', '.join(names[i] for i in times)}",) if times else ()
    return tuple(i for i in range(len(names)) if i not in times), left


def _steps(columns: Columns, column: int) -> NDArray[np.float64]:
    return np.diff([float(row[column]) for row in columns.first])


def _goes_on(columns: Columns, column: int) -> bool:
    """Return whether a column that is called a time may be one: T may be a temperature."""
    return bool(np.mean(_steps(columns, column) >= 0) >= _RISING)


def _counts(columns: Columns, column: int) -> bool:
    """Return whether a column is a time or a counter, by its first rows."""
    steps = _steps(columns, column)
    if len(steps) < 2 or not np.isfinite(steps).all():
        return False
    even = steps.min() > 0 and np.ptp(steps) <= 1e-3 * steps.max()
    return bool(even or (len(steps) >= _ENOUGH and np.mean(steps > 0) >= _RISING))


def _sniffed(path: Path) -> Columns:
    """Tell how a text is written by its first lines."""
    rate, lines = None, []
    for line in itertools.islice(_lines(path), _SNIFFED):
        stated = _OPENBCI_RATE.match(line)
        rate = float(stated[1]) if stated else rate
        if line.strip() and not line.startswith(_COMMENTS):
            lines.append(line)
    if len(lines) < 2:
        raise RecordingError(f"{str(path)!r} has fewer than two rows; give a longer recording")
    delimiter = next((d for d in (";", ",", "\t") if d in lines[0] and d in lines[1]), None)
    rows = [_cells(line, delimiter) for line in lines]
    has_names = not any(map(_is_number, rows[0])) and any(map(_is_number, rows[1]))
    first = rows[1:] if has_names else rows
    width = len(first[0])
    if any(len(row) != width for row in first):
        raise RecordingError(
            f"{str(path)!r} has rows of different length; it is no table of numbers: convert it first"
        )
    given = rows[0] if has_names else ()
    return Columns(delimiter, int(has_names), numbered(given, width), tuple(first), rate)


def _cells(line: str, delimiter: str | None) -> tuple[str, ...]:
    if delimiter is None:
        return tuple(line.split())
    return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lines(path: Path) -> Iterator[str]:
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line


def _rows(path: Path, n_before: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that hold samples, each with its number."""
    told = (
        (number, line)
        for number, line in enumerate(_lines(path), 1)
        if line.strip() and not line.startswith(_COMMENTS)
    )
    return itertools.islice(told, n_before, None)


def _width(line: str, delimiter: str | None) -> int:
    """Return how many columns a line has."""
    if delimiter is None or '"' in line:
        return len(_cells(line, delimiter))
    return line.count(delimiter) + 1
