"""Read a recording of a stream: its attributes, its model changes, and its samples."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import name_dataset, open_file, report_damage
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset
from igbss_stream.files.results.series import Series
from igbss_stream.model.learning import Learning

_MARKS = ("stream", "delay", "layout")
_LEARNING = ("row", "version", "view", "contradicted", "contradiction", "drift_removed", "reliability")
_TABLES = {"gaps": ("row", "start", "n_samples", "reason"), "models": ("row", "start", "version")}


@dataclass(frozen=True)
class ModelChange:
    """A row at which the model changed, or another run began.

    Parameters
    ----------
    row : int
        First sample of the new model or run.
    version : int
        Version of the model; 0 if no model separated the samples.
    """

    row: int
    version: int


@dataclass(frozen=True)
class StreamFacts:
    """Description of a recording of a stream.

    Parameters
    ----------
    name : str
        Name of the stream.
    delay : int
        Algorithmic delay, in samples.
    version : str
        Version of the package that wrote the file.
    began : datetime or None
        Time of the first sample, if known.
    changes : tuple of ModelChange
        In order; the first one is at row 0.
    """

    name: str
    delay: int
    version: str
    began: datetime | None
    changes: tuple[ModelChange, ...]


class StreamFile(Closeable):
    """A recording of a stream, open for reading. It may still be written. A context manager.

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
        """Whether the file is a recording of a stream."""
        with report_damage(self.path):
            return all(mark in self._file.attrs for mark in _MARKS) and all(
                (table := get_dataset(self._file, name)) is not None and table.dtype.names == fields
                for name, fields in _TABLES.items()
            )

    def read_facts(self) -> StreamFacts:
        """Read the description of the recording.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            attrs, models = self._file.attrs, np.asarray(self._file["models"][()])
            t0, rate = (self._file["data"].attrs.get(name) for name in ("t0", "rate"))
            n_samples = len(self._file["data"])
            stored = models[models["row"] < n_samples]  # the last model may be written before its samples
            return StreamFacts(
                name=str(attrs["stream"]),
                delay=int(attrs["delay"]),
                version=str(attrs.get("igbss_stream_version", "")),
                began=_compute_beginning(t0, rate, stored),
                changes=tuple(ModelChange(int(one["row"]), int(one["version"])) for one in stored),
            )

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the channels of the recording, which are sources if a model produced them."""
        with report_damage(self.path):
            return tuple(map(str, self._file["data"].attrs["channels"]))

    def read_learning(self) -> list[tuple[int, int, Learning]]:
        """Read how the models of the stream were learned: first row, version, and `Learning` of each.

        Recordings of version 0.1 do not state it.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            table = get_dataset(self._file, "learning")
            if table is None or table.dtype.names != _LEARNING:
                return []
            rows, n_samples = np.asarray(table[()]), len(self._file["data"])
            return [_read_learning(one) for one in rows[rows["row"] < n_samples]]

    def open_series(self) -> Series:
        """Open the samples, to read them in blocks.

        Raises
        ------
        RecordingError
            If there are no samples yet.
        """
        handle = get_dataset(self._file, "data")
        if handle is None or handle.ndim != 2 or 0 in handle.shape:
            raise RecordingError(
                f"{name_dataset('/data', self.path)} has no samples yet; record some first"
            )
        return Series(self.path, "data", self._file, handle)


def _read_learning(row: Any) -> tuple[int, int, Learning]:
    """Return first row, version and learning of a row of the table."""
    contradicted = float(row["contradicted"])
    contradictions = {} if np.isnan(contradicted) else {contradicted: float(row["contradiction"])}
    reliability = row["reliability"].astype(np.float64)
    learning = Learning((), float(row["view"]), contradictions, reliability, bool(row["drift_removed"]))
    return int(row["row"]), int(row["version"]), learning


def _compute_beginning(t0: Any, rate: Any, models: Any) -> datetime | None:
    """Return the time of the first sample; the first model states its index."""
    if t0 is None or rate is None or not len(models):
        return None
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(
            seconds=float(t0) + int(models["start"][0]) / float(rate)
        )
    except (OverflowError, ValueError):  # the clock was not set
        return None


def is_stream(path: Path) -> bool:
    """Return whether a file is a recording of a stream; False if it cannot be opened.

    Parameters
    ----------
    path : Path
    """
    try:
        with StreamFile(path) as file:
            return file.is_stream
    except RecordingError:
        return False
