"""Encode pictures with few colours as PNG, to embed them in a page."""

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def encode_data_url(pixels: NDArray[np.uint8], colours: Sequence[str]) -> str:
    """Encode a picture as a data URL.

    Parameters
    ----------
    pixels : ndarray of shape (height, width)
        Indices of colours, top row first. Larger values are transparent.
    colours : sequence of str
        In the form ``#rrggbb``; at most 255 colours.

    Returns
    -------
    str
    """
    height, width = pixels.shape
    palette = b"".join(bytes.fromhex(colour[1:]) for colour in colours) + b"\0\0\0"
    indices = np.minimum(pixels, len(colours)).astype(np.uint8)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)  # no filter
    data = (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", palette)
        + _chunk(b"tRNS", b"\xff" * len(colours) + b"\0")
        + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(data).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
