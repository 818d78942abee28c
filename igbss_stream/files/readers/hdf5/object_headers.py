"""Find the messages in the header of an HDF5 object without HDF5, which may crash on what they refer to."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap

_CONTINUATION = 16  # the message that states where more messages are

_HEAD_1 = struct.Struct("<BxHII4x")  # version, number of messages, references, size
_MESSAGE_1 = struct.Struct("<HHB3x")  # type, size, flags
_HEAD_2 = struct.Struct("<4sBB")  # signature, version, flags
_MESSAGE_2 = struct.Struct("<BHB")
_SIGNATURE_2, _SIGNATURE_MORE = b"OHDR", b"OCHK"
_CHECKSUM = 4  # bytes at the end of a block of version 2
_TIMES, _LIMITS, _ORDER, _SIZE = 0x20, 0x10, 0x04, 0x03  # flags
_PLACE = struct.Struct("<QQ")  # address and size


@dataclass(frozen=True)
class _Block:
    """Part of a header.

    Parameters
    ----------
    start, stop : int
        Places of its messages in the file.
    has_signature : bool
        Whether the header has version 2.
    has_order : bool
        Whether messages state the order in which they were made.
    """

    start: int
    stop: int
    has_signature: bool
    has_order: bool


def list_messages(content: mmap, at: int, base: int) -> Iterator[tuple[int, bytes]]:
    """Yield kind and content of the messages, as far as they can be read.

    Parameters
    ----------
    content : mmap
        The file.
    at : int
        Place of the header in the file.
    base : int
        Size of the user block, from which addresses count.
    """
    waiting, seen = [_find_first_block(content, at)], {at}
    while waiting:
        block = waiting.pop()
        for kind, message in _list_messages(content, block):
            yield kind, message
            if kind == _CONTINUATION and len(message) >= _PLACE.size:
                address, size = _PLACE.unpack_from(message)
                start, stop = base + address, base + address + size
                if start in seen or stop > len(content):
                    continue
                seen.add(start)
                if block.has_signature:
                    start, stop = start + len(_SIGNATURE_MORE), stop - _CHECKSUM
                waiting.append(_Block(start, stop, block.has_signature, block.has_order))


def _find_first_block(content: mmap, at: int) -> _Block:
    """Return the block at the start of a header; an empty one if there is no header."""
    head = content[at : at + _HEAD_1.size]
    if len(head) < _HEAD_1.size:
        return _Block(at, at, False, False)
    if not head.startswith(_SIGNATURE_2):
        version, _, _, size = _HEAD_1.unpack(head)
        start = at + _HEAD_1.size
        return _Block(start, start + size if version == 1 else start, False, False)
    flags = _HEAD_2.unpack_from(head)[2]
    start = at + _HEAD_2.size + 16 * bool(flags & _TIMES) + 4 * bool(flags & _LIMITS)
    width = 1 << (flags & _SIZE)
    size = int.from_bytes(content[start : start + width], "little")
    return _Block(start + width, start + width + size, True, bool(flags & _ORDER))


def _list_messages(content: mmap, block: _Block) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of the messages in a block."""
    head = _MESSAGE_2 if block.has_signature else _MESSAGE_1
    order = 2 * block.has_order
    at, stop = block.start, min(block.stop, len(content))
    while at + head.size + order <= stop:
        kind, size, _ = head.unpack_from(content, at)
        at += head.size + order
        yield kind, content[at : min(at + size, stop)]
        at += size
