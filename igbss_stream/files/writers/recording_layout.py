"""The layout of a recorded stream: its tables and attributes, and what a file that exists contains.

docs/recording.md describes it.
"""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import RecordingError
from igbss_stream.files.positions_dataset import POSITIONS_NAME, make_positions_dataset
from igbss_stream.files.writers.growing_hdf5 import GrowingFile, claim_existing, create_growing
from igbss_stream.files.writers.growing_header import LAYOUT, Table
from igbss_stream.files.writers.learning_table import make_learning_table
from igbss_stream.files.writers.locking import get_partial_path
from igbss_stream.files.writers.recorded_events import make_growing_event_table
from igbss_stream.files.writers.rotation import Rotation, make_dated_path
from igbss_stream.files.writers.write_errors import check_output_path, explain_write_error

IfExists = Literal["refuse", "overwrite", "append", "number"]
IF_EXISTS = ("refuse", "overwrite", "append", "number")

GAP = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
MODEL = np.dtype([("row", "<i8"), ("start", "<i8"), ("version", "<i8")])

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
UNREADABLE = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError)
"""What reading a damaged recording may raise."""


def make_tables(stream: Stream, capacity: int) -> list[Table]:
    """Return the datasets of a recording.

    Parameters
    ----------
    stream : Stream
    capacity : int
        Largest number of gaps, and of changes of the model.
    """
    attrs = {
        "rate": stream.rate,
        "unit": None if stream.unit is None else _clean_text(stream.unit),
        "channels": [_clean_text(name) for name in stream.channels],
        "t0": stream.t0,
    }
    samples = Table("data", stream.dtype.newbyteorder("<"), (stream.n_channels,), None, attrs)
    return [
        _make_positions_table(stream),
        Table("gaps", GAP, (), capacity),
        Table("models", MODEL, (), capacity),
        make_learning_table(stream.n_channels, capacity),
        make_growing_event_table(),
        samples,
    ]


def _make_positions_table(stream: Stream) -> Table:
    """Return the table of the positions, which has rows only if they are known."""
    attrs = {} if stream.positions is None else make_positions_dataset(stream.positions, stream.channels)[1]
    return Table(POSITIONS_NAME, np.dtype("<f8"), (3,), stream.n_channels, attrs)


def _as_position_rows(stream: Stream) -> NDArray[np.float64]:
    """Return the positions of the channels as rows of their table; none if no position is known."""
    if stream.positions is None:
        return np.empty((0, 3))
    return stream.positions.select(stream.channels).xyz


def as_gap_row(gap: Gap, row: int) -> NDArray[np.void]:
    """Return a gap before a row of the samples as a row of the table of gaps."""
    reason = gap.reason.encode()[: GAP["reason"].itemsize]
    return np.array([(row, gap.start, gap.n_samples, reason)], GAP)


def check_shape(chunk: Chunk, stream: Stream) -> None:
    """Refuse samples that do not have the channels of the stream.

    Raises
    ------
    ValueError
    """
    if chunk.data.shape[1:] != (stream.n_channels,):
        raise ValueError(
            f"samples of shape {chunk.data.shape} do not have the {stream.n_channels} channels of the "
            "stream"
        )


def create_recording(
    path: Path, stream: Stream, extra: Mapping[str, Any] | None, capacity: int, *, wait: bool
) -> GrowingFile:
    """Create a recording without samples; a file that exists is replaced.

    Parameters
    ----------
    path : Path
    stream : Stream
    extra : mapping or None
        Additional information to store.
    capacity : int
        Largest number of gaps, and of changes of the model.
    wait : bool
        Whether to wait until the file is on the disk.

    Raises
    ------
    RecordingError
        If the file cannot be written.
    ParameterError
        If the description is too large.
    """
    attributes = {
        "stream": _clean_text(stream.name),
        "delay": stream.delay,
        "extra": json.dumps(dict(extra or {})),
        "igbss_stream_version": __version__,
    }
    file = create_growing(path, make_tables(stream, capacity), attributes, wait=wait)
    try:
        file.append(POSITIONS_NAME, _as_position_rows(stream))
    except RecordingError:
        with suppress(RecordingError):
            file.close(wait=False)
        raise
    return file


def _clean_text(text: str) -> str:
    """Remove from a text what HDF5 cannot store."""
    return text.replace("\0", "").encode(errors="replace").decode()


def describe_stream(stream: Stream) -> dict[str, Any]:
    """Return the properties that all samples of a file share."""
    return {
        "stream": _clean_text(stream.name),
        "rate": stream.rate,
        "unit": None if stream.unit is None else _clean_text(stream.unit),
        "channels": [_clean_text(name) for name in stream.channels],
        "dtype": stream.dtype.name,
        POSITIONS_NAME: _as_position_rows(stream).tolist(),
    }


def explain_difference(before: Mapping[str, Any], stream: Stream) -> str:
    """Return how a stream differs from a description, as a clause; empty if it does not."""
    for name, value in describe_stream(stream).items():
        old = before[name]
        if name == POSITIONS_NAME:
            is_same = np.array_equal(np.ravel(old), np.ravel(value), equal_nan=True)
            return "" if is_same else "the stream has other positions of its channels"
        if old != value and name == "channels" and len(old) != len(value):
            return f"the stream has {len(value)} channels instead of {len(old)}"
        if old != value:
            return f"the stream has {name} {value!r} instead of {old!r}"
    return ""


def find_free_path(path: Path) -> Path:
    """Return the first of ``NAME.h5``, ``NAME-2.h5``, ``NAME-3.h5``, ... that does not exist."""
    number, candidate = 1, path
    while os.path.lexists(candidate):
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def find_last_path(path: Path) -> Path:
    """Return the last of ``NAME.h5``, ``NAME-2.h5``, ... before the first that does not exist."""
    number, last = 1, path
    while os.path.lexists(candidate := path.with_name(f"{path.stem}-{number + 1}{path.suffix}")):
        number, last = number + 1, candidate
    return last


def check_recording_path(path: Path, if_exists: IfExists, rotate: Rotation | None = None) -> None:
    """Check that a recording can begin at a path, without changing anything.

    A file that another program uses is not refused, because the program may have ended by then.

    Parameters
    ----------
    path : Path
    if_exists : {"refuse", "overwrite", "append", "number"}
    rotate : Rotation, optional

    Raises
    ------
    RecordingError
        If `RecordingSink` would refuse it.
    """
    check_output_path(path)
    longest = path if rotate is None else make_dated_path(path, time.time())
    try:
        os.lstat(get_partial_path(longest))
    except FileNotFoundError:
        pass
    except OSError as error:  # e.g. a name that is too long
        raise RecordingError(f"'{path}' cannot be written: {explain_write_error(error)}") from error
    if rotate is not None:
        return
    if if_exists == "refuse":
        refuse_existing(path)
    if if_exists == "append" and os.path.lexists(path):
        check_is_recording(find_last_path(path))


def choose_path(path: Path, if_exists: IfExists, rotate: Rotation | None, now: float) -> Path:
    """Return the path of a recording that begins now; refuse one that exists unless `if_exists` allows it.

    Parameters
    ----------
    path : Path
    if_exists : {"refuse", "overwrite", "append", "number"}
    rotate : Rotation or None
    now : float
        Unix time in seconds.

    Raises
    ------
    RecordingError
        If it exists and must not be replaced, or another program records to it.
    """
    if rotate is not None:
        return make_dated_path(path, now)
    if if_exists in ("append", "number"):
        return find_free_path(path)
    if if_exists == "refuse":
        refuse_existing(path)
    if os.path.isfile(path):
        claim_existing(path).close()  # refuse if another program records to it
    return path


def refuse_existing(path: Path) -> None:
    """Refuse a path that exists.

    Raises
    ------
    RecordingError
    """
    if os.path.lexists(path):
        raise RecordingError(
            f"'{path}' already exists; choose another output, or if_exists = overwrite, append or number"
        )


def check_is_recording(path: Path) -> None:
    """Refuse a file that was never a recording of a stream.

    A recording that is damaged, in use or of another stream is not refused: it is left as it is, and the
    samples go to another file.

    Raises
    ------
    RecordingError
        If the file has other content.
    """
    if _is_other_file(path):
        raise RecordingError(
            f"'{path}' is not a recording of a stream and cannot be continued; choose another output, or "
            "if_exists = number"
        )


def _is_other_file(path: Path) -> bool:
    """Return whether a file is readable, but not a recording."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(_SIGNATURE))
            if start != _SIGNATURE:
                return any(start)  # a power failure leaves zeros or nothing
    except OSError:
        return not os.path.isfile(path)  # a recording without permission, or no file
    try:
        with h5py.File(path, "r") as file:
            return LAYOUT not in file.attrs
    except UNREADABLE:
        return False
