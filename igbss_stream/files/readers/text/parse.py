"""Convert lines of a text to numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError, printable
from igbss_stream.files.readers.text.cells import (
    count_columns,
    parse_number,
    split_cells,
)
from igbss_stream.files.readers.text.table import TextFormat

_N_SHOWN = 40  # characters of a cell in a message
Lines = Sequence[tuple[int, str]]


def parse_lines(
    lines: Lines, columns: TextFormat, picks: tuple[int, ...], out: NDArray[Any], what: str
) -> None:
    """Write the numbers of lines to an array; empty cells become NaN.

    Parameters
    ----------
    lines : sequence of (int, str)
        Each with its number.
    columns : TextFormat
    picks : tuple of int
    out : array of shape (lines, columns.width)
        Only the columns `picks` are written.
    what : str
        Name of the file, for messages.

    Raises
    ------
    RecordingError
        If a line has too few or too many cells, or a cell is not a number.
    """
    try:
        out[:] = load_numbers([line for _, line in lines], columns, picks)
    except (ValueError, IndexError) as error:
        _parse_slowly(lines, columns, picks, out, what, error)


def load_numbers(lines: Sequence[str], columns: TextFormat, picks: Sequence[int]) -> NDArray[np.float64]:
    """Return the numbers in some columns of lines, all of which must be there.

    Raises
    ------
    ValueError, IndexError
        If a line has another number of cells, or a cell is not a number.
    """
    delimiter = columns.delimiter
    if any(count_columns(line, delimiter) != columns.n_cells for line in lines):
        raise ValueError("rows of different length")
    if columns.decimal != ".":
        if delimiter == columns.decimal or any("." in line for line in lines):
            raise ValueError("points beside decimal commas, or commas in quoted cells")
        lines = [line.replace(columns.decimal, ".") for line in lines]
    return np.loadtxt(
        lines, delimiter=delimiter, usecols=tuple(picks), ndmin=2, comments=None, quotechar='"'
    )


def _parse_slowly(
    lines: Lines,
    columns: TextFormat,
    picks: tuple[int, ...],
    out: NDArray[Any],
    what: str,
    error: Exception,
) -> None:
    """Parse cell by cell; say which line is wrong."""
    for row, (number, line) in enumerate(lines):
        cells = split_cells(line, columns.delimiter)
        beyond = any(cells[columns.width :])
        if len(cells) < columns.width or beyond:
            raise RecordingError(
                f"line {number} of {what} has {len(cells)} columns, but the first rows have "
                f"{columns.width}; correct it"
            )
        for at, i in enumerate(picks):
            try:
                out[row, at] = parse_number(cells[i], columns.decimal)
            except ValueError:
                raise RecordingError(
                    f"line {number} of {what} has {printable(cells[i][:_N_SHOWN])!r} in column {i} "
                    f"({printable(columns.names[i])}), which is not a number; correct it "
                    "(write nan for a missing value), or pass --channels with other columns"
                ) from error
