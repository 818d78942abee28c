"""Read the lines of a text file in any of the usual encodings."""

import codecs
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path

COMMENTS = ("#", "%")
_BLOCK_HEAD = re.compile(
    "(Interval|ExcelDateTime|TimeFormat|DateFormat|ChannelTitle|Range|UnitName|TopValue|BottomValue)=\t"
)
_LONGEST_LINE = 1 << 20
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1a")) + b"\x7f"  # no text contains these
_MOST_ZEROS = 0.4  # share of zeros among the high bytes of UTF-16 without a mark, at least


def detect_encoding(head: bytes) -> str | None:
    """Return the encoding of a text from its first bytes; None if they are not text."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[0::2], head[1::2]
    for high, low, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if high and high.count(0) > _MOST_ZEROS * len(head) / 2 and 0 not in low:
            return encoding
    if not head or any(head.count(code) for code in _CONTROL):
        return None
    try:
        head[:-4].decode("utf-8")  # the last character may be incomplete
    except UnicodeDecodeError:
        return "cp1252"  # what Windows writes where it does not write Unicode
    return "utf-8-sig"


def read_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a file, with their ends."""
    with open(path, encoding=encoding, errors="replace") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line


def read_rows(path: Path, encoding: str, n_before: int) -> Iterator[tuple[int, str]]:
    """Yield the lines with samples, each with its line number.

    Parameters
    ----------
    path : Path
    encoding : str
    n_before : int
        Lines before the first row, without comments and empty lines.
    """
    lines = (
        (number, line) for number, line in enumerate(read_lines(path, encoding), 1) if is_content(line)
    )
    rows = itertools.islice(lines, n_before, None)
    return ((number, line) for number, line in rows if not is_block_head(line))


def is_block_head(line: str) -> bool:
    """Return whether a line belongs to the head of a further block of LabChart."""
    return _BLOCK_HEAD.match(line) is not None


def is_content(line: str) -> bool:
    """Return whether a line is neither empty nor a comment."""
    return bool(line.strip()) and not line.startswith(COMMENTS)


def ends_with_newline(path: Path, encoding: str) -> bool:
    """Return whether the last line of a file is complete."""
    width = 2 if encoding.startswith("utf-16") else 1
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - width))
        last = file.read()
    return b"\n" in last or b"\r" in last
