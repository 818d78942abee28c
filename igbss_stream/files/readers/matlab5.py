"""Check the structure of a MATLAB file before version 7.3, which SciPy trusts: it may crash otherwise.

A file is a list of elements: a tag with a type and a size, and content. The content of an array is elements
again, the order of which depends on the class of the array.
"""

import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from igbss_stream.errors import RecordingError

_HEAD = 128  # bytes
_NUMERIC = frozenset((1, 2, 3, 4, 5, 6, 7, 9, 12, 13))  # types of elements
_CHARACTERS = frozenset((1, 2, 3, 4, 16, 17, 18))
_INT8, _INT32, _UINT32, _ARRAY, _COMPRESSED, _UTF8 = 1, 5, 6, 14, 15, 16
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17  # classes of arrays
_NUMBERS = range(6, 16)
_INTEGERS = frozenset((_INT32, _UINT32))
_NAMES = frozenset((_INT8, _UTF8))
_MOST_AXES = 32
_DEEPEST = 64  # arrays within arrays
_LONGEST = 1 << 20  # bytes of an element that describes an array
_STEP = 1 << 20  # bytes inflated at a time


class _Content:
    """The content of a file, or of a compressed element of it.

    Parameters
    ----------
    read : callable
        Takes a number of bytes, and returns at most that many.
    order : {"<", ">"}
        Of the bytes.
    """

    def __init__(self, read: Callable[[int], bytes], order: str) -> None:
        self._read, self._order = read, order

    def take(self, n: int) -> bytes:
        """Return the next bytes."""
        found = self._read(n)
        if len(found) < n:
            raise ValueError("it ends within an element")
        return found

    def unpack(self, code: str, content: bytes) -> tuple[int, ...]:
        """Return the integers in bytes."""
        n = len(content) // struct.calcsize(code)
        return struct.unpack(f"{self._order}{n}{code}", content[: n * struct.calcsize(code)])

    def read_tag(self) -> tuple[int, int]:
        """Return type and size of an element that has no small form."""
        kind, size = self.unpack("I", self.take(8))
        return kind, size

    def read_element(self, kinds: frozenset[int], what: str, most: int = _LONGEST) -> bytes:
        """Return the content of an element."""
        tag = self.take(8)
        first, size = self.unpack("I", tag)
        is_small = first >> 16 != 0  # up to four bytes, in the place of the size
        kind, size = (first & 0xFFFF, first >> 16) if is_small else (first, size)
        if kind not in kinds or size > (4 if is_small else most):
            raise ValueError(f"{what} has {size} bytes of type {kind}")
        return tag[4 : 4 + size] if is_small else self.take(-(-size // 8) * 8)[:size]

    def skip_element(self, kinds: frozenset[int], what: str) -> None:
        """Pass over an element of any size."""
        tag = self.take(8)
        first, size = self.unpack("I", tag)
        is_small = first >> 16 != 0
        kind, size = (first & 0xFFFF, first >> 16) if is_small else (first, size)
        if kind not in kinds or (is_small and size > 4):
            raise ValueError(f"{what} has {size} bytes of type {kind}")
        left = 0 if is_small else -(-size // 8) * 8
        while left > 0:
            left -= len(self.take(min(left, _STEP)))


def check_matlab_file(path: Path) -> None:
    """Refuse a MATLAB file of version 5 to 7.2 whose elements do not describe arrays.

    Parameters
    ----------
    path : Path

    Raises
    ------
    RecordingError
        If it is damaged.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            if len(head) < _HEAD or head[126:128] not in (b"IM", b"MI"):
                raise ValueError("it has no head")
            while file.read(1):
                file.seek(-1, 1)
                _check_variable(file, "<" if head[126:128] == b"IM" else ">")
    except OSError as error:
        raise RecordingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except (ValueError, zlib.error) as error:
        raise RecordingError(
            f"{str(path)!r} is a damaged MATLAB file: {error}; copy or save it again"
        ) from error


def _check_variable(file: BinaryIO, order: str) -> None:
    """Check the next element of a file, and go to the one after it."""
    content = _Content(file.read, order)
    kind, size = content.read_tag()
    after = file.tell() + size
    if kind == _COMPRESSED:
        content = _Content(_Inflater(file, size).read, order)
        kind, size = content.read_tag()
    if kind != _ARRAY:
        raise ValueError(f"a variable is of type {kind}")
    if size:
        _check_array(content, 0)
    file.seek(after)


class _Inflater:
    """Reads a compressed element.

    Parameters
    ----------
    file : file
        At the content of the element.
    size : int
        Number of compressed bytes.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._left, self._stream, self._rest = file, size, zlib.decompressobj(), b""

    def read(self, n: int) -> bytes:
        """Return at most `n` bytes."""
        out = self._rest
        while len(out) < n and not self._stream.eof:
            packed = self._stream.unconsumed_tail
            if not packed:
                packed = self._file.read(min(_STEP, self._left))
                self._left -= len(packed)
                if not packed:
                    break
            out += self._stream.decompress(packed, _STEP)
        self._rest = out[n:]
        return out[:n]


def _check_nested(content: _Content, depth: int) -> None:
    """Check an array within another one."""
    kind, size = content.read_tag()
    if kind != _ARRAY or depth > _DEEPEST:
        raise ValueError(f"an array within another one is of type {kind}, at depth {depth}")
    if size:
        _check_array(content, depth)


def _check_array(content: _Content, depth: int) -> None:
    """Check an array after its tag."""
    flags = content.unpack("I", content.read_element(frozenset((_UINT32,)), "a description"))
    if len(flags) != 2:
        raise ValueError("an array has no class")
    kind, is_complex = flags[0] & 0xFF, bool(flags[0] & 0x800)
    if kind == _OPAQUE:
        for _ in range(3):
            content.read_element(_NAMES, "a name")
        _check_nested(content, depth + 1)
        return
    shape = content.unpack("i", content.read_element(_INTEGERS, "a shape"))
    content.read_element(_NAMES, "a name")
    if not 2 <= len(shape) <= _MOST_AXES or min(shape) < 0:
        raise ValueError(f"an array has the shape {shape[:_MOST_AXES]}")
    n = math.prod(shape)
    if kind in _NUMBERS or kind == _SPARSE:
        for _ in range((2 if kind == _SPARSE else 0) + 1 + is_complex):
            content.skip_element(_NUMERIC, "an array of numbers")
    elif kind == _CHAR:
        content.skip_element(_CHARACTERS, "a text")
    elif kind in (_CELL, _STRUCT, _OBJECT, _FUNCTION):
        for _ in range(_count_members(content, kind, n)):
            _check_nested(content, depth + 1)
    else:
        raise ValueError(f"an array is of class {kind}")


def _count_members(content: _Content, kind: int, n: int) -> int:
    """Return the number of arrays within an array of n elements."""
    if kind == _FUNCTION:
        return 1
    if kind == _CELL:
        return n
    if kind == _OBJECT:
        content.read_element(_NAMES, "a name")
    (width,) = content.unpack("i", content.read_element(_INTEGERS, "a length of names")) or (0,)
    names = content.read_element(_NAMES, "a list of names")
    if width < 1:
        raise ValueError(f"names have {width} bytes")
    if len(names) < width and n > _LONGEST:  # which take no bytes, but memory and time
        raise ValueError(f"{n} structures have no fields")
    return n * (len(names) // width)
