"""Numbers and times in the cells of a text."""

import csv
import math
from datetime import UTC, datetime, time

import numpy as np
from numpy.typing import NDArray

_MISSING = {
    "", "na", "n/a", "nan", "-nan", "null", "none", "#n/a", "nan(ind)", "-nan(ind)", "1.#qnan", "-1.#ind"
}  # fmt: skip
_INFINITE = {"∞": "inf", "-∞": "-inf", "+∞": "inf"}  # what oscilloscopes write beyond their range
_DAY = 86400.0


def split_cells(line: str, delimiter: str | None) -> tuple[str, ...]:
    """Return the cells of a line; without a delimiter, spaces separate them."""
    if delimiter is None:
        return tuple(line.split())
    if '"' not in line:
        return tuple(cell.strip() for cell in line.split(delimiter))
    return tuple(cell.strip() for cell in next(csv.reader([line], delimiter=delimiter)))


def count_columns(line: str, delimiter: str | None) -> int:
    """Return the number of cells of a line."""
    if delimiter is None or '"' in line:
        return len(split_cells(line, delimiter))
    return line.count(delimiter) + 1


def is_missing(cell: str) -> bool:
    """Return whether a cell states that its value is missing."""
    return cell.lower() in _MISSING


def parse_number(cell: str, decimal: str = ".") -> float:
    """Return the number in a cell; NaN if it states that it is missing.

    Raises
    ------
    ValueError
        If it is not a number.
    """
    if is_missing(cell):
        return math.nan
    if decimal != ".":
        if "." in cell:
            raise ValueError(cell)
        cell = cell.replace(decimal, ".")
    if "_" in cell:  # Python reads 1_000 as a number
        raise ValueError(cell)
    return float(_INFINITE.get(cell, cell))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Return whether a cell is a number; one that is missing is not."""
    try:
        parse_number(cell, decimal)
    except ValueError:
        return False
    return not is_missing(cell) or cell.lower() in ("nan", "-nan")


def parse_time(cell: str) -> float | None:
    """Return a date and time, or a time of day, in seconds; None for another text."""
    text = cell.replace("/", "-")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() if ":" in text else None
    try:
        clock = time.fromisoformat(text) if ":" in text else None
    except ValueError:
        return None
    if clock is None:
        return None
    return clock.hour * 3600 + clock.minute * 60 + clock.second + clock.microsecond * 1e-6


def unwrap_days(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times of day that go on after midnight."""
    steps = np.diff(times, prepend=times[:1])
    return np.asarray(times + _DAY * np.cumsum(steps < -_DAY / 2))
