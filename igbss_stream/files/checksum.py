"""Protect an HDF5 file by a checksum, which is verified before HDF5 opens the file.

The C code of HDF5 may never return from a file whose bytes have changed. A file that is written completely
therefore begins with a user block, which HDF5 skips: a text that states the length and the SHA-256 of the
rest. Files without checksum begin with the signature of HDF5, so damage to the text does not make a file
with a checksum look like one without.
"""

import hashlib
import os
from io import BufferedIOBase
from pathlib import Path

from igbss_stream.errors import RecordingError

BLOCK_BYTES = 512  # the smallest user block

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MAGIC = b"igbss-stream model, checksum of all bytes after this block\n"
_REMEDY = "restore it from a backup, or delete it and learn the model again"


def write_checksum(file: BufferedIOBase) -> None:
    """Fill the user block of a complete HDF5 file.

    Parameters
    ----------
    file : file
        Open for reading and writing.
    """
    file.seek(BLOCK_BYTES)
    block = _make_block(file)
    file.seek(0)
    file.write(block)


def verify_checksum(path: Path, *, only_models: bool = False) -> None:
    """Refuse a file that has a checksum and is damaged.

    Parameters
    ----------
    path : Path
    only_models : bool, default=False
        Whether the file can only be one that `igbss_stream` wrote, so that a user block with other content
        is damage.

    Raises
    ------
    RecordingError
        If the content differs from the checksum. A file without checksum is not refused.
    """
    try:
        with open(path, "rb") as file:
            block = file.read(BLOCK_BYTES)
            if block.startswith(_SIGNATURE):
                return
            has_hdf5 = file.read(len(_SIGNATURE)) == _SIGNATURE
            if not block.startswith(_MAGIC) and not (only_models and has_hdf5):
                return
            file.seek(BLOCK_BYTES)
            intact = block == _make_block(file)
    except OSError as error:
        raise RecordingError(
            f"{str(path)!r} cannot be read: {error.strerror}; check its permissions and the disk"
        ) from error
    if not intact:
        raise RecordingError(f"{str(path)!r} is damaged: its content differs from its checksum; {_REMEDY}")


def _make_block(file: BufferedIOBase) -> bytes:
    """Return the user block for the bytes from the position of a file to its end."""
    start = file.tell()
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    length = file.seek(0, os.SEEK_END) - start
    return (_MAGIC + f"bytes {length}\nsha256 {digest}\n".encode()).ljust(BLOCK_BYTES, b"\0")
