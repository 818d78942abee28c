"""The output of `batch`, read back: what it says of itself, its model, and its samples block by block."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import NO_HDF5, damage_reported, naming, open_file, stated_rate
from igbss_stream.files.readers.hdf5.layouts.plain import gaps_beside
from igbss_stream.files.readers.hdf5.layouts.values import dataset, numeric
from igbss_stream.files.results.series import Series
from igbss_stream.files.results.stored_model import Origin, StoredModel

Array = NDArray[np.float64]

_MARKS = ("settings", "transform", "solver", "igbss_stream_version")
_JSON = ("job", "settings", "preparation", "cleaning", "transform", "model")


@dataclass(frozen=True, eq=False)
class OutputFacts:
    """What an output says of itself.

    Parameters
    ----------
    job : dict or None
        What the file was made from, see `igbss_stream.batch.resume`; None in files of older versions.
    solver : str
        How sources were found.
    rate : float or None
        In Hz.
    n_samples, n_channels, n_sources : int
        There are no samples, nor a rate, in a file that holds a model alone.
    n_windows, n_failed : int
        Windows that were fitted, and those of them that did not converge.
    """

    job: dict[str, Any] | None
    solver: str
    rate: float | None
    n_samples: int
    n_channels: int
    n_sources: int
    n_windows: int
    n_failed: int


class OutputFile(Closeable):
    """An output of `batch`, open for reading. A context manager, which closes it.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    RecordingError
        If it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file = open_file(self.path)
        except RecordingError as error:
            if NO_HDF5 not in str(error):
                raise
            raise RecordingError(
                f"{str(path)!r} {NO_HDF5}; give an output of `igbss-stream batch`, which writes such"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def is_output(self) -> bool:
        """Whether `batch` wrote it."""
        with damage_reported(self.path):
            return all(mark in self._file.attrs for mark in _MARKS)

    def facts(self) -> OutputFacts:
        """Return what it says of itself.

        Raises
        ------
        RecordingError
            If another program wrote it, or it is damaged.
        """
        with damage_reported(self.path):
            file = self._file
            mixing, unmixing = self._part("mixing", 2, 3), self._part("unmixing", 2, 3)
            sources, fits = file.get("sources"), file.get("fits")
            self._check_parts(sources)
            return OutputFacts(
                job=json.loads(file.attrs["job"]) if "job" in file.attrs else None,
                solver=str(file.attrs["solver"]),
                rate=None if sources is None else stated_rate(sources, naming("/sources", self.path)),
                n_samples=0 if sources is None else int(sources.shape[0]),
                n_channels=int(mixing.shape[-2]),
                n_sources=int(unmixing.shape[-2]),
                n_windows=0 if fits is None else len(fits),
                n_failed=0 if fits is None else int(np.sum(~fits["converged"])),
            )

    def model(self) -> StoredModel:
        """Return the model.

        Raises
        ------
        RecordingError
            If another program wrote it, or it is damaged.
        """
        with damage_reported(self.path):
            attrs = self._file.attrs
            mixing, unmixing = self._part("mixing", 2, 3), self._part("unmixing", 2, 3)
            unit = attrs.get("input_unit")
            return StoredModel(
                channels=tuple(map(str, mixing.attrs["channels"])),
                unit=None if unit is None else str(unit),
                mixing=np.asarray(mixing[()], np.float64),
                unmixing=np.asarray(unmixing[()], np.float64),
                mean=np.asarray(self._part("mean", 1)[()], np.float64) if "mean" in self._file else None,
                settings=json.loads(attrs["settings"]),
                transform=json.loads(attrs["transform"]),
                preparation=json.loads(attrs.get("preparation", "{}")),
                losses=self._losses(),
                origin=Origin.read(attrs),
            )

    def told(self, name: str) -> dict[str, Any]:
        """Return an attribute of the file that holds JSON.

        Parameters
        ----------
        name : str

        Raises
        ------
        RecordingError
            If it is not there, or damaged.
        """
        with damage_reported(self.path):
            text = self._file.attrs.get(name)
        if text is None:
            raise RecordingError(
                f"{str(self.path)!r} has no attribute {name!r}, as another version wrote it: separate "
                "again without --resume"
            )
        told: dict[str, Any] = json.loads(text)
        return told

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of the file; those that are JSON as what it tells.

        Raises
        ------
        RecordingError
            If it is damaged.
        """
        with damage_reported(self.path):
            found = {name: str(value) for name, value in self._file.attrs.items()}
            return {name: json.loads(text) if name in _JSON else text for name, text in found.items()}

    def table(self, name: str) -> NDArray[np.void] | None:
        """Return a table, such as ``"fits"``; None if there is none of that name.

        Raises
        ------
        RecordingError
            If it is damaged.
        """
        with damage_reported(self.path):
            handle = dataset(self._file, name)
            if handle is None or handle.ndim != 1 or handle.dtype.names is None:
                return None
            return np.asarray(handle[()])

    def numbers(self, name: str, start: int, stop: int) -> Array:
        """Return some numbers of a dataset of one axis.

        Parameters
        ----------
        name : str
        start, stop : int
            The first one, and the one after the last.

        Raises
        ------
        RecordingError
            If it is damaged, or does not have them.
        """
        with damage_reported(self.path):
            handle = dataset(self._file, name)
            if handle is None or handle.ndim != 1 or not numeric(handle) or not start < stop <= len(handle):
                raise RecordingError(
                    f"{naming(f'/{name}', self.path)} does not have the entries {start} to {stop} that "
                    "/fits tells of: separate again"
                )
            return np.asarray(handle[start:stop], np.float64)

    def has(self, name: str) -> bool:
        """Return whether there is a dataset of that name."""
        return dataset(self._file, name) is not None

    def series(self, name: str) -> Series:
        """Return a dataset of samples, to be read in blocks.

        Parameters
        ----------
        name : str
            E.g. ``"sources"``.

        Raises
        ------
        RecordingError
            If there is none of that name.
        InputError
            If it holds something other than real numbers.
        """
        handle = dataset(self._file, name)
        if handle is None or handle.ndim != 2 or 0 in handle.shape:
            found = [n for n, h in self._file.items() if isinstance(h, h5py.Dataset) and h.ndim == 2]
            raise RecordingError(
                f"{str(self.path)!r} has no samples in a dataset {name!r}; those of two axes are: "
                f"{', '.join(found) or 'none'}; `igbss-stream batch` makes a file with sources"
            )
        return Series(self.path, name, handle, gaps_beside(self._file, handle.shape[0]))

    def _check_parts(self, sources: Any) -> None:
        """Refuse sources that are those of other files, if one of these is missing."""
        if sources is None or not sources.is_virtual:
            return
        for part in sources.virtual_sources():
            if not (self.path.parent / part.file_name).is_file():
                raise RecordingError(
                    f"{str(self.path)!r} has its sources in parts, and '{part.file_name}' is missing "
                    "beside it: bring it back, or separate again with --resume"
                )

    def _losses(self) -> tuple[float, ...]:
        """Return what is kept of how the model was learned."""
        if "learning" not in self._file:
            return ()
        return tuple(np.asarray(self._part("learning", 1)[()], np.float64).tolist())

    def _part(self, name: str, *ndim: int) -> Any:
        """Return a dataset of the model, of a file that `batch` wrote."""
        handle = dataset(self._file, name)
        if not self.is_output or handle is None or not numeric(handle):
            raise RecordingError(f"{str(self.path)!r} was not written by `igbss-stream batch`")
        if handle.ndim not in ndim:
            raise RecordingError(
                f"{naming(f'/{name}', self.path)} has {handle.ndim} axes, where a model has "
                f"{' or '.join(map(str, ndim))}: copy it again, or separate again"
            )
        return handle


def is_output(path: Path) -> bool:
    """Return whether `batch` wrote a file; False where it cannot be opened.

    Parameters
    ----------
    path : Path
    """
    try:
        with OutputFile(path) as output:
            return output.is_output
    except RecordingError:
        return False


def facts_of(path: Path) -> OutputFacts:
    """Return what an output says of itself.

    Parameters
    ----------
    path : Path

    Returns
    -------
    OutputFacts

    Raises
    ------
    RecordingError
        If it cannot be read, or another program wrote it.
    """
    with OutputFile(path) as output:
        return output.facts()
