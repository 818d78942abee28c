"""Detect how a text file writes its table: encoding, delimiter, decimal mark, names and units."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from igbss_stream.errors import RecordingError, printable
from igbss_stream.files.messages import complete_names
from igbss_stream.files.readers.text.cells import is_missing, is_number, parse_time, split_cells
from igbss_stream.files.readers.text.heads import PER_SECOND, Head, parse_head
from igbss_stream.files.readers.text.lines import (
    detect_encoding,
    ends_with_newline,
    is_block_head,
    is_content,
    read_lines,
)

_N_FIRST = 200  # lines from which the format is detected
_N_HEAD = 4096  # bytes from which the encoding is detected
_FORMS = [
    (delimiter, decimal) for delimiter in (";", "\t", ",", None) for decimal in (".", ",")
]  # commas may do both only in quoted cells
_BRACKETS = re.compile(r"[(\[{]\s*([^()\[\]{}]*?)\s*[)\]}]")
_UNITS = {
    "v",
    "mv",
    "uv",
    "nv",
    "volt",
    "volts",
    "a",
    "ma",
    "ua",
    "g",
    "t",
    "ft",
    "pt",
    "hz",
    "c",
    "°c",
    "degc",
}
_FEW = 20  # rows
_UNITS |= {"\u00b5v", "\u03bcv", "%", "pa", "kpa", "mmhg", "n", "kg", "m/s^2", "m/s2", "deg/s", *PER_SECOND}

Row = tuple[str, ...]


@dataclass(frozen=True)
class TextFormat:
    """Format of a text file.

    Parameters
    ----------
    encoding : str
    delimiter : str or None
        Separator of columns; None for spaces.
    decimal : str
        Decimal mark, "." or ",".
    n_before : int
        Lines before the first row, without comments and empty lines.
    n_cells : int
        Cells of a row, including empty ones after the last column.
    names, units : tuple of str
        Of each column; units may be empty.
    first : tuple of tuple of str
        Cells of the first rows.
    head : Head or None
        What a known program states before the table.
    ends_complete : bool
        Whether the last line of the file ends with a line break.
    notes : tuple of str
    """

    encoding: str
    delimiter: str | None
    decimal: str
    n_before: int
    n_cells: int
    names: Row
    units: Row
    first: tuple[Row, ...]
    head: Head | None
    ends_complete: bool
    notes: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def is_empty(self, column: int) -> bool:
        """Return whether the first rows have no value in a column."""
        return all(is_missing(row[column]) and row[column].lower() != "nan" for row in self.first)

    def is_numeric(self, column: int) -> bool:
        """Return whether the first rows have numbers in a column; some may be missing."""
        return all(is_missing(row[column]) or is_number(row[column], self.decimal) for row in self.first)


def detect_format(path: Path, *, selected: bool = False) -> TextFormat:
    """Detect the format of a text file from its first lines.

    Parameters
    ----------
    path : Path
    selected : bool
        Whether the user selects columns; the number of names may then differ from that of the columns.

    Raises
    ------
    RecordingError
        If it has no table of numbers, or one that can be read in two ways.
    """
    what = repr(str(path))
    with open(path, "rb") as file:
        encoding = detect_encoding(file.read(_N_HEAD)) or "utf-8-sig"
    lines = list(itertools.islice(read_lines(path, encoding), _N_FIRST))
    ends_complete = ends_with_newline(path, encoding)
    if lines and not ends_complete and not lines[-1].endswith(("\n", "\r")):
        lines = lines[:-1]
    head = parse_head(lines)
    n_head = head.n_before if head else 0
    content = [
        line for line in [line for line in lines if is_content(line)][n_head:] if not is_block_head(line)
    ]
    if len(content) < 2:
        raise RecordingError(f"{what} has fewer than two rows; pass a longer recording")
    delimiter, decimal = _find_form(content)
    rows = [split_cells(line, delimiter) for line in content]
    start = _find_start(rows, decimal)
    first, header = rows[start:], [row for row in rows[:start] if any(row)]
    n_cells, width = Counter(map(len, first)).most_common(1)[0][0], _find_width(first, what)
    first = [(*row[:width], *("",) * (width - len(row))) for row in first]
    try:
        names, units, notes = _name_columns(header, first, head, decimal, what)
        if delimiter == "," != decimal:
            _check_decimal_commas(names, first, what)
    except RecordingError as error:
        if not selected:
            raise
        reason = str(error).removeprefix(what).split(";")[0].split(":")[0].strip()
        names, units, notes = Row(), Row(), (f"the file {reason}; columns are numbered",)
    if decimal == ",":
        notes = ("the comma is taken as the decimal mark", *notes)
    return TextFormat(
        encoding,
        delimiter,
        decimal,
        n_head + start,
        n_cells,
        complete_names(names, width),
        units,
        tuple(first),
        head,
        ends_complete,
        notes,
    )


def _find_form(lines: Sequence[str]) -> tuple[str | None, str]:
    """Return the delimiter and the decimal mark that make most cells numbers."""
    body = lines[len(lines) // 2 :]

    def get_share(form: tuple[str | None, str]) -> float:
        delimiter, decimal = form
        if delimiter is not None and not all(delimiter in line for line in body):
            return -1.0
        cells = [cell for line in body for cell in split_cells(line.rstrip("\r\n"), delimiter)]
        return sum(is_missing(cell) or is_number(cell, decimal) for cell in cells) / max(1, len(cells))

    return max(_FORMS, key=get_share)  # the first of those that are equal


def _find_start(rows: list[Row], decimal: str) -> int:
    """Return the first row with numbers wherever the rows in the middle have numbers."""
    body = rows[len(rows) // 2 :]
    common = Counter(map(len, body)).most_common(1)[0][0]
    body = [row for row in body if len(row) == common]
    numeric = [i for i in range(common) if all(is_missing(r[i]) or is_number(r[i], decimal) for r in body)]
    numeric = [i for i in numeric if any(is_number(row[i], decimal) for row in body)]

    def has_numbers(row: Row) -> bool:
        cells = [row[i] for i in numeric if i < len(row)]
        whole = all(is_missing(cell) or is_number(cell, decimal) for cell in cells)
        return whole and any(is_number(cell, decimal) for cell in cells)

    return next((i for i, row in enumerate(rows) if has_numbers(row)), min(1, len(rows) - 1))


def _find_width(rows: list[Row], what: str) -> int:
    """Return the number of columns, without empty ones after the last."""
    widths = {len(row) - sum(1 for _ in itertools.takewhile(is_blank, reversed(row))) for row in rows}
    stored = {len(row) for row in rows}
    if len(stored) > 1 and len(widths) > 1:
        raise RecordingError(
            f"{what} has rows of different lengths ({min(stored)} to {max(stored)} columns) and is not a "
            "table of numbers; correct it. If its numbers have decimal commas, and commas separate the "
            "columns too, export it again with semicolons or decimal points"
        )
    return max(widths)


def is_blank(cell: str) -> bool:
    """Return whether a cell is empty."""
    return not cell


def _name_columns(
    header: list[Row], rows: list[Row], head: Head | None, decimal: str, what: str
) -> tuple[Row, Row, tuple[str, ...]]:
    """Return names and units of the columns, and notes about the lines before the table."""
    width, units, notes = len(rows[0]), Row(), Row()
    lines = [_strip_end(row) for row in header]
    if len(lines) > 1 and _is_units(lines[-1]):
        units = lines.pop()
    if head and head.names:
        lines.append(head.names)
    names = lines.pop() if lines else Row()
    if lines:
        notes += (f"{len(lines)} lines before the names of the columns are skipped",)
    if not names or (len(names) == 1 != width):
        notes += ("the line before the rows does not name the columns; they are numbered",) if names else ()
        return (), units, notes
    names, note = _fit_names(names, rows, head, decimal, what)
    units = tuple(_clean_unit(cell) for cell in units)
    if not units:
        found = [_BRACKETS.search(name) for name in names]
        units = tuple(each[1] if each and each[1].lower() in _UNITS else "" for each in found)
    padded = (*units, *("",) * (width - len(units)))[:width]
    return names, padded if any(padded) else (), notes + note


def _fit_names(
    names: Row, rows: list[Row], head: Head | None, decimal: str, what: str
) -> tuple[Row, tuple[str, ...]]:
    """Return names for all columns, if the line of names is longer or shorter than the rows."""
    width, n = len(rows[0]), len(names)
    if n == width:
        return names, ()
    if n == width - 1 and _counts(rows, decimal):
        label = "Time" if head else "index"
        return (label, *names), (f"the first column has no name; it is taken as {label.lower()}",)
    if head and head.names and n < width:
        return (*names, *("",) * (width - n)), ()
    if n == width + 1:
        return names[:width], (f"the rows have no column {printable(names[-1])!r}, the last name of {n}",)
    if width == 2 * n:
        raise RecordingError(
            f"{what} has {n} names but {width} columns: its numbers have decimal commas, and commas "
            "separate the columns too; export it again with semicolons, tabs or decimal points"
        )
    raise RecordingError(
        f"{what} has {n} names ({printable(', '.join(names[:4]))}) but {width} columns; correct the "
        "line of names, or remove it to number the columns"
    )


def _counts(rows: list[Row], decimal: str) -> bool:
    """Return whether the first column rises from row to row, as numbers or times."""
    cells = [row[0] for row in rows]
    if all(is_number(cell, decimal) for cell in cells):
        values: list[float | None] = [float(cell.replace(decimal, ".")) for cell in cells]
    else:
        values = [parse_time(cell) for cell in cells]
    found = [value for value in values if value is not None]
    rises = [b > a for a, b in itertools.pairwise(found)]
    return len(found) == len(cells) and sum(rises) > 0.8 * len(rises)


def _strip_end(row: Row) -> Row:
    """Return a row without empty cells at its end."""
    return row[: len(row) - sum(1 for _ in itertools.takewhile(is_blank, reversed(row)))]


def _is_units(row: Row) -> bool:
    """Return whether every cell of a row is a unit, and at least one is stated."""
    cells = [cell for cell in row if cell]
    return bool(cells) and all(_BRACKETS.fullmatch(c) or c.lower() in _UNITS for c in cells)


def _clean_unit(cell: str) -> str:
    """Return a unit without its brackets."""
    found = _BRACKETS.fullmatch(cell)
    return found[1] if found else cell


def _check_decimal_commas(names: Row, rows: list[Row], what: str) -> None:
    """Refuse a table in which every other column looks like the digits after decimal commas."""
    width = len(rows[0])
    offset = width % 2  # the first column may be a counter
    if names or width < 2:
        return
    whole, digits = ([row[i] for row in rows for i in range(offset + k, width, 2)] for k in (0, 1))
    if not all(cell.isdigit() for cell in digits) or not all(cell.lstrip("+-").isdigit() for cell in whole):
        return
    padded = any(len(cell) > 1 and cell[0] == "0" for cell in digits) or any(cell == "-0" for cell in whole)
    lengths = [{len(row[i]) for row in rows} for i in range(offset + 1, width, 2)]
    even = all(len(each) == 1 for each in lengths) and any(cell.startswith("-") for cell in whole)
    if padded or (even and len(rows) > _FEW):
        pairs = width // 2 + offset
        raise RecordingError(
            f"{what} has {width} columns of whole numbers, of which every other one has no sign "
            f"and as many digits as there are after a decimal mark: are they {pairs} columns with decimal "
            "commas? If so, export it again with semicolons, tabs or decimal points; if not, pass "
            f"--channels 0-{width - 1}"
        )
