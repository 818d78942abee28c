"""A recording of a stream, read back: what it says of itself, which models made it, and its samples."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import damage_reported, naming, open_file
from igbss_stream.files.readers.hdf5.layouts.plain import gaps_beside
from igbss_stream.files.readers.hdf5.layouts.values import dataset
from igbss_stream.files.results.series import Series

_MARKS = ("stream", "delay", "layout")
_TABLES = {"gaps": ("row", "start", "n_samples", "reason"), "models": ("row", "start", "version")}


@dataclass(frozen=True)
class ModelChange:
    """Where another model began to make the samples, or the same one went on in another run.

    Parameters
    ----------
    row : int
        Its first sample.
    version : int
        0 where no model made the samples.
    """

    row: int
    version: int


@dataclass(frozen=True)
class StreamFacts:
    """What a recording of a stream says of itself.

    Parameters
    ----------
    name : str
        Of the stream.
    delay : int
        Samples by which it came late.
    version : str
        Of the package that wrote it.
    began : datetime or None
        When its first sample was taken, if that is known.
    changes : tuple of ModelChange
        In their order; the first one at row 0, if there are any.
    """

    name: str
    delay: int
    version: str
    began: datetime | None
    changes: tuple[ModelChange, ...]


class StreamFile(Closeable):
    """A recording of a stream, open for reading, also while it is written. A context manager.

    Parameters
    ----------
    path : Path

    Raises
    ------
    RecordingError
        If it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_file(path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def is_stream(self) -> bool:
        """Whether it is a recording of a stream."""
        with damage_reported(self.path):
            return all(mark in self._file.attrs for mark in _MARKS) and all(
                (table := dataset(self._file, name)) is not None and table.dtype.names == fields
                for name, fields in _TABLES.items()
            )

    def facts(self) -> StreamFacts:
        """Return what it says of itself.

        Raises
        ------
        RecordingError
            If it is damaged.
        """
        with damage_reported(self.path):
            attrs, models = self._file.attrs, np.asarray(self._file["models"][()])
            t0, rate = (self._file["data"].attrs.get(name) for name in ("t0", "rate"))
            n_samples = len(self._file["data"])
            there = models[models["row"] < n_samples]  # the last one may have come before its samples
            return StreamFacts(
                name=str(attrs["stream"]),
                delay=int(attrs["delay"]),
                version=str(attrs.get("igbss_stream_version", "")),
                began=_began(t0, rate, there),
                changes=tuple(ModelChange(int(one["row"]), int(one["version"])) for one in there),
            )

    def series(self) -> Series:
        """Return the samples, to be read in blocks.

        Raises
        ------
        RecordingError
            If there are none yet.
        """
        handle = dataset(self._file, "data")
        if handle is None or handle.ndim != 2 or 0 in handle.shape:
            raise RecordingError(f"{naming('/data', self.path)} has no samples yet: record some first")
        return Series(self.path, "data", handle, gaps_beside(self._file, handle.shape[0]))


def _began(t0: Any, rate: Any, models: Any) -> datetime | None:
    """Return the time of the first sample, whose index the first model tells."""
    if t0 is None or rate is None or not len(models):
        return None
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(
            seconds=float(t0) + int(models["start"][0]) / float(rate)
        )
    except (OverflowError, ValueError):  # of a clock that was never set
        return None


def is_stream(path: Path) -> bool:
    """Return whether a file is a recording of a stream; False where it cannot be opened.

    Parameters
    ----------
    path : Path
    """
    try:
        with StreamFile(path) as file:
            return file.is_stream
    except RecordingError:
        return False
