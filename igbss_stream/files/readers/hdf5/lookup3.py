"""Compute lookup3, the checksum by Bob Jenkins that HDF5 stores with its metadata.

https://burtleburtle.net/bob/hash/doobs.html
"""

import struct

_MASK = 0xFFFFFFFF
_WORDS = struct.Struct("<3I")
_SEED = 0xDEADBEEF


def compute_lookup3(content: bytes) -> int:
    """Return the checksum of bytes.

    Parameters
    ----------
    content : bytes

    Returns
    -------
    int
        Between 0 and 2**32 - 1.
    """
    a = b = c = (_SEED + len(content)) & _MASK
    # the last 1 to 12 bytes are mixed another way
    whole = max(0, len(content) - 1) // _WORDS.size * _WORDS.size
    for x, y, z in _WORDS.iter_unpack(content[:whole]):
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    if not content:
        return c
    x, y, z = _WORDS.unpack(content[whole:].ljust(_WORDS.size, b"\0"))
    return _finish((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second in ((4, 6), (8, 16), (19, 4)):
        a = (a - c) & _MASK ^ _rotate(c, first)
        c = (c + b) & _MASK
        b = (b - a) & _MASK ^ _rotate(a, second)
        a = (a + c) & _MASK
        a, b, c = c, a, b
    return a, b, c


def _finish(a: int, b: int, c: int) -> int:
    for shift in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotate(b, shift)) & _MASK
        a, b, c = b, c, a
    return b


def _rotate(x: int, n: int) -> int:
    return (x << n | x >> 32 - n) & _MASK
