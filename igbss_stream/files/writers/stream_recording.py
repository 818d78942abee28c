"""Record a stream into HDF5 while it comes.

The file can be opened at any moment by any reader of HDF5, while it is written and after the writer was
killed; docs/recording.md tells what it holds. `hdf5_growing` tells how that is done.
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

Existing = Literal["refuse", "overwrite", "append", "number"]
_EXISTING = ("refuse", "overwrite", "append", "number")

GAP = np.dtype([("row", "<i8"), ("start", "<i8"), ("n_samples", "<i8"), ("reason", "S40")])
MODEL = np.dtype([("row", "<i8"), ("start", "<i8"), ("version", "<i8")])
_CAPACITY = 1 << 16  # gaps, and models, that one file lists; the room for them takes no disk space unused


class RecordingSink(Closeable):
    """Records a stream into an HDF5 file that can be opened at any moment, even after a kill.

    A context manager, which closes the file. After a kill the file holds all that was written up to
    `flush_every` seconds before.

    Parameters
    ----------
    path : str or path
        The file.
    flush_every : float
        Seconds after which readers see what was written; 0 shows it at once.
    existing : {"refuse", "overwrite", "append", "number"}
        What to do if the file exists. ``"append"`` goes on in it, with a gap of reason ``"restart"``;
        ``"number"`` records beside it, to ``NAME-2.h5`` and so on.

    Attributes
    ----------
    path : Path
        The file that is written; after 65536 gaps or changes of the model in one file it is the next
        numbered one.

    Raises
    ------
    ParameterError
        If an option cannot be used.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, flush_every: float = 1.0, existing: Existing = "refuse"
    ) -> None:
        if existing not in _EXISTING:
            raise ParameterError(
                f"existing must be one of {', '.join(_EXISTING)}. Got {existing!r} instead."
            )
        if not 0 <= flush_every < float("inf"):
            raise ParameterError(f"flush_every must be 0 s or more. Got {flush_every!r} instead.")
        self.path = Path(path)
        self._asked = self.path
        self._existing = existing
        self._flush_every = flush_every
        self._file: GrowingFile | None = None
        self._stream: Stream
        self._extra: Mapping[str, Any] | None = None
        self._model: int | None = None  # that of the last samples in the file
        self._shift: int | None = None  # from the indices of this run to those of the file
        self._gap: Gap | None = None  # the last one that this run declared in the file, in its indices
        self._due = 0.0
        self._stop: int | None = None  # index after the last one, in those of the file
        self._t0: float | None = None  # of the indices of the file

    @property
    def n_samples(self) -> int:
        """Number of samples in the file, those that readers do not see yet included."""
        return 0 if self._file is None else self._file.lengths["data"]

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Open the file and describe the stream in it.

        A second start goes on with another run of the same stream, behind a gap of reason ``"restart"``.

        Parameters
        ----------
        stream : Stream
        extra : mapping, optional
            What else to keep; anything that JSON can say.

        Raises
        ------
        RecordingError
            If the file exists and must not be touched, is in use, is a recording of another stream or
            none, or cannot be written.
        ParameterError
            If the description is too large, e.g. more than 4000 channels.
        """
        if self._file is not None:
            _check_same(self.path, _told(self._stream), stream)
        elif self._existing == "append" and os.path.lexists(self.path):
            self._go_on(stream)
        else:
            self.path = self._free_path()
            self._file = create_growing(self.path, _tables(stream), _attributes(stream, extra))
            self._t0 = stream.t0
        self._stream, self._extra = stream, extra
        self._model = self._shift = None
        self._due = time.monotonic() + self._flush_every

    def write(self, item: Chunk | Gap) -> None:
        """Write samples, or a gap. The array may be changed afterwards.

        A gap that goes on where the last one ended, for the same reason, makes that one longer.

        Parameters
        ----------
        item : Chunk or Gap
            If it does not begin where the last one ended, a gap of reason ``"unrecorded"`` is put between.

        Raises
        ------
        RecordingError
            If the disk does not take it; the file holds what was written before and stays readable, and
            writing may be tried again, or go on with later samples.
        ValueError
            If it begins before the end of the last one, or has another number of channels.
        RuntimeError
            If no stream was started.
        """
        if self._file is None:
            raise RuntimeError("start a stream before writing")
        start = self._place(item)
        if isinstance(item, Gap):
            self._declare(start, item.n_samples, item.reason)
        elif len(item.data):
            self._store(item, start)
        self.serve()

    def serve(self) -> None:
        """Flush if it is due.

        `write` calls it; where nothing is written it must be called in its place, a few times a second.
        """
        if self._file is not None and time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Let readers see all that was written, and keep it whatever becomes of this process.

        Raises
        ------
        RecordingError
            If the disk does not take it.
        """
        if self._file is not None:
            self._due = time.monotonic() + self._flush_every
            self._file.commit()

    def close(self) -> None:
        """Flush, bring all to the disk, and close. Closing it twice is allowed.

        Raises
        ------
        RecordingError
            If the disk does not take it.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _free_path(self) -> Path:
        """Return the path to record to, where nothing is that must be kept."""
        if not os.path.lexists(self.path):
            return self.path
        if self._existing == "number":
            return _next_path(self._asked)
        if self._existing != "overwrite":
            raise RecordingError(
                f"'{self.path}' already exists; choose another output, or to overwrite it, append to it or "
                "number the recordings"
            )
        if os.path.isfile(self.path):
            claim_existing(self.path).close()  # refused if someone records to it
        return self.path

    def _go_on(self, stream: Stream) -> None:
        """Open a recording to append to it."""
        _check_same(self.path, _description(self.path), stream)
        self._file = open_growing(self.path, _tables(stream))
        self._t0, self._stop = _end_of(self.path)

    def _place(self, item: Chunk | Gap) -> int:
        """Return where an item begins, in the indices of the file; declare what is missing before."""
        if self._shift is None:
            self._shift = self._begin_run(item.start)
        start = item.start + self._shift
        if self._stop is None:
            self._stop = start
        if start < self._stop:
            raise ValueError(
                f"index {item.start} was recorded before; the next is {self._stop - self._shift}"
            )
        if start > self._stop:
            self._declare(self._stop, start - self._stop, "unrecorded")
        return start

    def _begin_run(self, first: int) -> int:
        """Declare what is missing since an earlier run, by the clock if it is known; return the shift."""
        if self._stop is None:
            return 0
        now, missing = self._stream.time_of(first), 0
        if now is not None and self._t0 is not None:
            missing = max(0, round((now - self._t0) * self._stream.rate) - self._stop)
        self._gap = None  # each run has a gap of its own
        self._declare(self._stop, missing, "restart")
        return self._stop - first

    def _declare(self, start: int, n_samples: int, reason: str) -> None:
        gap = Gap(start, n_samples, reason)
        if self._file is not None and self._gap is not None and gap.continues(self._gap):
            gap = Gap(self._gap.start, gap.stop - self._gap.start, reason)
            self._file.amend("gaps", _row_of(gap, self._file))
        else:
            file = self._with_room("gaps")
            file.append("gaps", _row_of(gap, file))
        self._gap, self._stop = gap, gap.stop

    def _store(self, chunk: Chunk, start: int) -> None:
        if chunk.data.shape[1:] != (self._stream.n_channels,):
            raise ValueError(
                f"samples of shape {chunk.data.shape} do not belong to {self._stream.n_channels} channels"
            )
        file = self._with_room("models")
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

    def _with_room(self, name: str) -> GrowingFile:
        """Return the file, or the next one if the list of this name is full."""
        file = self._file
        assert file is not None
        if not file.room(name):
            file.close()
            self.path = _next_path(self._asked)
            file = create_growing(self.path, _tables(self._stream), _attributes(self._stream, self._extra))
            self._file, self._model, self._gap = file, None, None
        return file


def _row_of(gap: Gap, file: GrowingFile) -> NDArray[np.void]:
    """Return a gap as a row of the list of gaps, behind the samples that are in the file."""
    reason = gap.reason.encode()[: GAP["reason"].itemsize]
    return np.array([(file.lengths["data"], gap.start, gap.n_samples, reason)], GAP)


def _next_path(path: Path) -> Path:
    """Return the first of ``NAME-2.h5``, ``NAME-3.h5``, ... that does not exist."""
    number = 2
    while os.path.lexists(numbered := path.with_name(f"{path.stem}-{number}{path.suffix}")):
        number += 1
    return numbered


def _tables(stream: Stream) -> list[Table]:
    attrs = {
        "rate": stream.rate,
        "unit": None if stream.unit is None else _storable(stream.unit),
        "channels": [_storable(name) for name in stream.channels],
        "t0": stream.t0,
    }
    samples = Table("data", stream.dtype.newbyteorder("<"), (stream.n_channels,), None, attrs)
    return [Table("gaps", GAP, (), _CAPACITY), Table("models", MODEL, (), _CAPACITY), samples]


def _attributes(stream: Stream, extra: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "stream": _storable(stream.name),
        "delay": stream.delay,
        "extra": json.dumps(dict(extra or {})),
        "igbss_stream_version": __version__,
    }


def _storable(text: str) -> str:
    """Return text that HDF5 can store."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _told(stream: Stream) -> dict[str, Any]:
    """Return what must be the same for two runs to lie in one recording."""
    return {
        "stream": _storable(stream.name),
        "rate": stream.rate,
        "unit": None if stream.unit is None else _storable(stream.unit),
        "channels": [_storable(name) for name in stream.channels],
        "dtype": stream.dtype.name,
    }


def _description(path: Path) -> dict[str, Any]:
    """Read from a recording what `_told` returns."""
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
            f"'{path}' is not a recording of a stream, so none can be appended to it; choose another output"
        ) from error


def _check_same(path: Path, recorded: dict[str, Any], stream: Stream) -> None:
    for name, value in _told(stream).items():
        if recorded[name] != value:
            raise RecordingError(
                f"'{path}' is a recording with {name} {recorded[name]!r}, but the stream has {value!r}; "
                "choose another output"
            )


def _end_of(path: Path) -> tuple[float | None, int | None]:
    """Return the time of index 0 of a recording, and the index after its last."""
    with h5py.File(path, "r") as file:
        data, gaps, models = (file[name] for name in ("data", "gaps", "models"))
        t0 = data.attrs.get("t0")
        for table in (gaps[-1:], models[:1]):
            for row in table:
                missing = row["n_samples"] if "n_samples" in table.dtype.names else 0
                return t0, int(row["start"] + missing + len(data) - row["row"])
    return t0, None
