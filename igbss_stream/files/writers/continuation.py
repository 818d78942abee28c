"""Continue a recording that exists."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from igbss_stream.chunk import Stream
from igbss_stream.errors import IgbssError, RecordingError, printable
from igbss_stream.files.positions_dataset import POSITIONS_NAME
from igbss_stream.files.writers.growing_hdf5 import GrowingFile, open_growing
from igbss_stream.files.writers.growing_header import Table
from igbss_stream.files.writers.recording_layout import (
    UNREADABLE,
    check_is_recording,
    explain_difference,
    find_free_path,
    find_last_path,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Continuation:
    """A recording that was opened to append to it.

    Parameters
    ----------
    path : Path
    file : GrowingFile
    t0 : float or None
        Unix time of index 0, in seconds.
    stop : int or None
        Index after its last; None if it has none.
    """

    path: Path
    file: GrowingFile
    t0: float | None
    stop: int | None


def find_continuation(asked: Path, stream: Stream, tables: Sequence[Table]) -> Continuation | None:
    """Open the last of the recordings ``NAME.h5``, ``NAME-2.h5``, ... to append a run of a stream.

    Parameters
    ----------
    asked : Path
        The first of them, which exists.
    stream : Stream
    tables : sequence of Table
        Of a new recording of the stream.

    Returns
    -------
    Continuation or None
        None if it cannot be continued, which is logged.

    Raises
    ------
    RecordingError
        If it was never a recording.
    """
    path = find_last_path(asked)
    check_is_recording(path)
    try:
        return _continue_recording(path, stream, tables)
    except RecordingError as error:
        log.warning("the recording continues in '%s': %s", find_free_path(asked), error)
        return None


def _continue_recording(path: Path, stream: Stream, tables: Sequence[Table]) -> Continuation:
    """Open a recording to append a run of a stream; raise a `RecordingError` if it cannot be continued."""
    try:
        with h5py.File(path, "r") as file:
            missing = [table.name for table in tables if table.name not in file]
            description = {} if missing else _read_description(file)
            t0, stop = _read_end(file)
    except UNREADABLE as error:
        raise _make_unreadable_error(path, error) from error
    if missing:
        difference = f"it was recorded by an earlier version, without a table of {missing[-1]}"
    else:
        difference = explain_difference(description, stream)
    if difference:
        raise RecordingError(f"'{path}' cannot be continued: {printable(difference)}")
    return Continuation(path, open_growing(path, tables), t0, stop)


def measure_pause(stream: Stream, first: int, t0: float | None, stop: int) -> int:
    """Return the number of samples between two runs; 0 if the clocks of both are not known.

    Parameters
    ----------
    stream : Stream
        The present run.
    first : int
        Its first index.
    t0 : float or None
        Unix time of index 0 of the file, in seconds.
    stop : int
        Index after the last of the file.
    """
    now = stream.time_of(first)
    return 0 if now is None or t0 is None else max(0, round((now - t0) * stream.rate) - stop)


def _read_description(file: Any) -> dict[str, Any]:
    """Read the result of `describe_stream` from a recording."""
    data = file["data"]
    return {
        "stream": file.attrs["stream"],
        "rate": float(data.attrs["rate"]),
        "unit": data.attrs.get("unit"),
        "channels": list(data.attrs["channels"]),
        "dtype": data.dtype.name,
        POSITIONS_NAME: file[POSITIONS_NAME][()].tolist(),
    }


def _read_end(file: Any) -> tuple[float | None, int | None]:
    """Read the time of index 0 of a recording, and the index after its last."""
    data, gaps, models = (file[name] for name in ("data", "gaps", "models"))
    t0 = data.attrs.get("t0")
    for table in (gaps[-1:], models[:1]):
        for row in table:
            missing = row["n_samples"] if "n_samples" in table.dtype.names else 0
            return t0, int(row["start"] + missing + len(data) - row["row"])
    return t0, None


def _make_unreadable_error(path: Path, error: BaseException) -> IgbssError:
    reason = " ".join(str(error).split())
    return RecordingError(f"'{path}' is damaged or in use and cannot be continued: {reason}")
