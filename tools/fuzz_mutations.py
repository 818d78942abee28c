"""Mutate the bytes of a file: bits, lengths, numbers in binary and in text."""

import re
from random import Random
from typing import Literal

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_EXTREMES = (
    b"0", b"-1", b"1", b"2", b"65536", b"2147483647", b"-2147483648", b"4294967296", b"9" * 20, b"1e999",
    b"-1e308", b"1e-320", b"nan", b"inf", b"", b"x",
)  # fmt: skip
_WORDS = (b"\0", b"\xff", b"\x7f", b"\x80", b"\x01", b"\x40")
_WIDTHS = (1, 2, 4, 4, 8, 8)
_HEAD = 512  # bytes, where most fields are


def mutate(content: bytes, rng: Random) -> bytes:
    """Return a mutated copy of the content of a file, by one to three changes."""
    out = content
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        out = rng.choice(_CHANGES)(out, rng)
    return out


def _place(content: bytes, rng: Random) -> int:
    """Return a place in the content, half of the time at its start."""
    n = max(1, len(content))
    return rng.randrange(min(n, _HEAD)) if rng.random() < 0.5 else rng.randrange(n)


def _flip(content: bytes, rng: Random) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 32)) if out else 0):
        out[_place(content, rng)] ^= 1 << rng.randrange(8)
    return bytes(out)


def _truncate(content: bytes, rng: Random) -> bytes:
    return content[: _place(content, rng)]


def _insert(content: bytes, rng: Random) -> bytes:
    at, n = _place(content, rng), rng.choice((1, 2, 4, 17, 300))
    added = rng.choice((rng.randbytes(n), rng.choice(_WORDS) * n, content[at : at + n]))
    return content[:at] + added + content[at:]


def _delete(content: bytes, rng: Random) -> bytes:
    at = _place(content, rng)
    return content[:at] + content[at + rng.choice((1, 2, 4, 17, 300)) :]


def _swap(content: bytes, rng: Random) -> bytes:
    n, out = rng.choice((1, 4, 8, 16, 64)), bytearray(content)
    a, b = sorted((_place(content, rng), _place(content, rng)))
    if b - a < n or b + n > len(out):
        return content
    out[a : a + n], out[b : b + n] = content[b : b + n], content[a : a + n]
    return bytes(out)


def _set_field(content: bytes, rng: Random) -> bytes:
    """Set an aligned binary field to an extreme, a small or a random number."""
    width = rng.choice(_WIDTHS)
    at = _place(content, rng) // width * width
    order: Literal["little", "big"] = rng.choice(("little", "big"))
    value = rng.choice((
        rng.choice(_WORDS) * width,
        rng.randrange(16).to_bytes(width, order),
        (1 << 8 * width - 1).to_bytes(width, order),
        ((1 << 8 * width - 1) - 1).to_bytes(width, order),
        rng.randbytes(width),
    ))  # fmt: skip
    return content[:at] + value + content[at + width :]


def _set_number(content: bytes, rng: Random) -> bytes:
    """Set a number in text to an extreme, in fields of a fixed width without moving what follows."""
    found = list(_NUMBER.finditer(content[: rng.choice((_HEAD, 4096, len(content)))]))
    if not found:
        return content
    at, value = rng.choice(found), rng.choice(_EXTREMES)
    width = at.end() - at.start()
    if rng.random() < 0.5:
        value = value[:width].ljust(width)
    return content[: at.start()] + value + content[at.end() :]


def _change_line(content: bytes, rng: Random) -> bytes:
    """Delete, repeat or exchange lines of a text."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 2:
        return content
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    change = rng.choice(("delete", "repeat", "exchange"))
    if change == "delete":
        del lines[i]
    elif change == "repeat":
        lines[i:i] = [lines[j]] * rng.choice((1, 2, 50))
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


_CHANGES = (
    _flip, _flip, _truncate, _insert, _delete, _swap, _set_field, _set_field, _set_number, _set_number,
    _change_line,
)  # fmt: skip
