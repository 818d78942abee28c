"""Record a stream to HDF5 while it runs.

Any HDF5 reader can open the file at any moment, while it is written and after the writer was killed.
docs/recording.md describes its content, and `growing_hdf5` how it is written.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream._util.version import __version__
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import ParameterError, RecordingError
from igbss_stream.files.writers.growing_hdf5 import (
    GrowingFile,
    claim_existing,
    create_growing,
    open_growing,
)
from igbss_stream.files.writers.growing_header import Table

IfExists = Literal["refuse", "overwrite", "append", "number"]
_IF_EXISTS = ("refuse", "overwrite", "append", "number")

GAP = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
MODEL = np.dtype([("row", "<i8"), ("start", "<i8"), ("version", "<i8")])
_CAPACITY = 1 << 16  # gaps, and model changes, in one file; unused room takes no disk space


class RecordingSink(Closeable):
    """Records a stream to an HDF5 file that is readable at any moment, even after a kill.

    A context manager that closes the file. After a kill, the file contains everything that was written
    until `flush_every` seconds before.

    Parameters
    ----------
    path : str or path
        The file.
    flush_every : float
        Largest delay in seconds until readers see written samples; 0 makes them visible at once.
    if_exists : {"refuse", "overwrite", "append", "number"}
        What to do if the file exists. ``"append"`` continues it after a gap with the reason ``"restart"``;
        ``"number"`` records to ``NAME-2.h5`` and so on instead.

    Attributes
    ----------
    path : Path
        The file that is written. After 65536 gaps or model changes, recording continues in the next
        numbered file.

    Raises
    ------
    ParameterError
        If an option is invalid.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, flush_every: float = 1.0, if_exists: IfExists = "refuse"
    ) -> None:
        if if_exists not in _IF_EXISTS:
            raise ParameterError(
                f"if_exists must be one of {', '.join(_IF_EXISTS)}. Got {if_exists!r} instead."
            )
        if not 0 <= flush_every < float("inf"):
            raise ParameterError(f"flush_every must be 0 s or more. Got {flush_every!r} instead.")
        self.path = Path(path)
        self._asked = self.path
        self._if_exists = if_exists
        self._flush_every = flush_every
        self._file: GrowingFile | None = None
        self._stream: Stream
        self._extra: Mapping[str, Any] | None = None
        self._model: int | None = None  # version of the last samples in the file
        self._shift: int | None = None  # file index minus index of this run
        self._gap: Gap | None = None  # last gap of this run in the file, in file indices
        self._due = 0.0
        self._stop: int | None = None  # next file index
        self._t0: float | None = None  # time of file index 0

    @property
    def n_samples(self) -> int:
        """Number of samples in the file, including those not visible to readers yet."""
        return 0 if self._file is None else self._file.lengths["data"]

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Open the file, and write the description of the stream.

        Another call starts another run of the same stream, after a gap with the reason ``"restart"``.

        Parameters
        ----------
        stream : Stream
        extra : mapping, optional
            Additional information to store; must be serialisable as JSON.

        Raises
        ------
        RecordingError
            If the file exists and must not be changed, is in use, is not a recording of this stream, or
            cannot be written.
        ParameterError
            If the description is too large, e.g. more than 4000 channels.
        """
        if self._file is not None:
            _check_same(self.path, _describe_stream(self._stream), stream)
        elif self._if_exists == "append" and os.path.lexists(self.path):
            self._open_to_append(stream)
        else:
            self.path = self._choose_path()
            self._file = create_growing(self.path, _make_tables(stream), _make_attributes(stream, extra))
            self._t0 = stream.t0
        self._stream, self._extra = stream, extra
        self._model = self._shift = None
        self._due = time.monotonic() + self._flush_every

    def write(self, item: Chunk | Gap) -> None:
        """Write samples or a gap. The array may be changed afterwards.

        A gap that continues the previous one for the same reason extends it.

        Parameters
        ----------
        item : Chunk or Gap
            If it does not continue the previous item, a gap with the reason ``"unrecorded"`` is inserted.

        Raises
        ------
        RecordingError
            If it cannot be written. The file stays readable with everything written before; writing may be
            tried again, or continue with later samples.
        ValueError
            If it begins before the end of the previous item, or has another number of channels.
        RuntimeError
            If no stream was started.
        """
        if self._file is None:
            raise RuntimeError("call start before write")
        start = self._find_start(item)
        if isinstance(item, Gap):
            self._write_gap(start, item.n_samples, item.reason)
        elif len(item.data):
            self._write_chunk(item, start)
        self.serve()

    def serve(self) -> None:
        """Flush if `flush_every` seconds have passed.

        `write` calls it. While nothing is written, call it a few times per second.
        """
        if self._file is not None and time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Make all written samples visible to readers; they then survive a kill of the process.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        if self._file is not None:
            self._due = time.monotonic() + self._flush_every
            self._file.commit()

    def close(self) -> None:
        """Flush to the disk and close. Closing it twice is allowed.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _choose_path(self) -> Path:
        """Return the path to record to; refuse one that exists unless `if_exists` allows it."""
        if not os.path.lexists(self.path):
            return self.path
        if self._if_exists == "number":
            return _find_next_path(self._asked)
        if self._if_exists != "overwrite":
            raise RecordingError(
                f"'{self.path}' already exists; choose another output, or if_exists = overwrite, append or "
                "number"
            )
        if os.path.isfile(self.path):
            claim_existing(self.path).close()  # refuse if another program records to it
        return self.path

    def _open_to_append(self, stream: Stream) -> None:
        """Open a recording to append to it."""
        _check_same(self.path, _read_description(self.path), stream)
        self._file = open_growing(self.path, _make_tables(stream))
        self._t0, self._stop = _read_end(self.path)

    def _find_start(self, item: Chunk | Gap) -> int:
        """Return the file index of an item; write a gap for missing samples before it."""
        if self._shift is None:
            self._shift = self._begin_run(item.start)
        start = item.start + self._shift
        if self._stop is None:
            self._stop = start
        if start < self._stop:
            raise ValueError(
                f"index {item.start} is already recorded; continue at {self._stop - self._shift}"
            )
        if start > self._stop:
            self._write_gap(self._stop, start - self._stop, "unrecorded")
        return start

    def _begin_run(self, first: int) -> int:
        """Write the gap since the previous run, measured by the clock if known; return the shift."""
        if self._stop is None:
            return 0
        now, missing = self._stream.time_of(first), 0
        if now is not None and self._t0 is not None:
            missing = max(0, round((now - self._t0) * self._stream.rate) - self._stop)
        self._gap = None  # do not extend a gap of the previous run
        self._write_gap(self._stop, missing, "restart")
        return self._stop - first

    def _write_gap(self, start: int, n_samples: int, reason: str) -> None:
        gap = Gap(start, n_samples, reason)
        if self._file is not None and self._gap is not None and gap.continues(self._gap):
            gap = Gap(self._gap.start, gap.stop - self._gap.start, reason)
            self._file.amend("gaps", _as_row(gap, self._file))
        else:
            file = self._get_file_with_room("gaps")
            file.append("gaps", _as_row(gap, file))
        self._gap, self._stop = gap, gap.stop

    def _write_chunk(self, chunk: Chunk, start: int) -> None:
        if chunk.data.shape[1:] != (self._stream.n_channels,):
            raise ValueError(
                f"samples of shape {chunk.data.shape} do not have the {self._stream.n_channels} "
                "channels of the stream"
            )
        file = self._get_file_with_room("models")
        before = dict(file.lengths)
        try:
            if chunk.model_version != self._model:
                row = (file.lengths["data"], start, chunk.model_version)
                file.append("models", np.array([row], MODEL))
            file.append("data", chunk.data)
        except RecordingError:
            file.lengths.update(before)
            raise
        self._model, self._stop = chunk.model_version, start + len(chunk.data)

    def _get_file_with_room(self, name: str) -> GrowingFile:
        """Return the file, or open the next one if the table of this name is full."""
        file = self._file
        assert file is not None
        if not file.has_room(name):
            file.close()
            self.path = _find_next_path(self._asked)
            file = create_growing(
                self.path, _make_tables(self._stream), _make_attributes(self._stream, self._extra)
            )
            self._file, self._model, self._gap = file, None, None
        return file


def _as_row(gap: Gap, file: GrowingFile) -> NDArray[np.void]:
    """Return a gap after the last sample of the file as a row of the table of gaps."""
    reason = gap.reason.encode()[: GAP["reason"].itemsize]
    return np.array([(file.lengths["data"], gap.start, gap.n_samples, reason)], GAP)


def _find_next_path(path: Path) -> Path:
    """Return the first of ``NAME-2.h5``, ``NAME-3.h5``, ... that does not exist."""
    number = 2
    while os.path.lexists(candidate := path.with_name(f"{path.stem}-{number}{path.suffix}")):
        number += 1
    return candidate


def _make_tables(stream: Stream) -> list[Table]:
    attrs = {
        "rate": stream.rate,
        "unit": None if stream.unit is None else _clean_text(stream.unit),
        "channels": [_clean_text(name) for name in stream.channels],
        "t0": stream.t0,
    }
    samples = Table("data", stream.dtype.newbyteorder("<"), (stream.n_channels,), None, attrs)
    return [Table("gaps", GAP, (), _CAPACITY), Table("models", MODEL, (), _CAPACITY), samples]


def _make_attributes(stream: Stream, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "stream": _clean_text(stream.name),
        "delay": stream.delay,
        "extra": json.dumps(dict(extra or {})),
        "igbss_stream_version": __version__,
    }


def _clean_text(text: str) -> str:
    """Remove from a text what HDF5 cannot store."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _describe_stream(stream: Stream) -> dict[str, Any]:
    """Return the properties that all runs of a recording share."""
    return {
        "stream": _clean_text(stream.name),
        "rate": stream.rate,
        "unit": None if stream.unit is None else _clean_text(stream.unit),
        "channels": [_clean_text(name) for name in stream.channels],
        "dtype": stream.dtype.name,
    }


def _read_description(path: Path) -> dict[str, Any]:
    """Read the result of `_describe_stream` from a recording."""
    try:
        with h5py.File(path, "r") as file:
            data = file["data"]
            return {
                "stream": file.attrs["stream"],
                "rate": float(data.attrs["rate"]),
                "unit": data.attrs.get("unit"),
                "channels": list(data.attrs["channels"]),
                "dtype": data.dtype.name,
            }
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise RecordingError(
            f"'{path}' is not a recording of a stream and cannot be continued; choose another output"
        ) from error


def _check_same(path: Path, recorded: dict[str, Any], stream: Stream) -> None:
    for name, value in _describe_stream(stream).items():
        if recorded[name] != value:
            raise RecordingError(
                f"'{path}' is a recording with {name} {recorded[name]!r}, but the stream has {value!r}; "
                "choose another output"
            )


def _read_end(path: Path) -> tuple[float | None, int | None]:
    """Read the time of index 0 of a recording, and the index after its last."""
    with h5py.File(path, "r") as file:
        data, gaps, models = (file[name] for name in ("data", "gaps", "models"))
        t0 = data.attrs.get("t0")
        for table in (gaps[-1:], models[:1]):
            for row in table:
                missing = row["n_samples"] if "n_samples" in table.dtype.names else 0
                return t0, int(row["start"] + missing + len(data) - row["row"])
    return t0, None
