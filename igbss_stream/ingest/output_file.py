"""The output of `batch` in an open file: its model, and its samples block by block."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from igbss_stream.closing import Closing
from igbss_stream.errors import RecordingError
from igbss_stream.ingest.hdf5_file import (
    LIBRARY_ERRORS,
    attribute,
    checked_type,
    damage_reported,
    naming,
    numbered,
    one_line,
    open_file,
    stated_channels,
    stated_rate,
    stated_unit,
    text,
)
from igbss_stream.ingest.layouts.plain import gaps_beside
from igbss_stream.ingest.layouts.values import dataset, numeric
from igbss_stream.ingest.recording import Break

Array = NDArray[np.float64]

_DETAILS = ("filter_order", "notch_width")  # of a preparation, that do nothing on their own


@dataclass(frozen=True)
class OutputModel:
    """The model in an output.

    Parameters
    ----------
    mixing : ndarray of shape (channels, sources)
    unmixing : ndarray of shape (sources, channels)
    mean : ndarray of shape (channels,)
        Zero where the structure is not learned.
    channels : tuple of str
    unit : str or None
        Of the channels, if known.
    settings : dict
        Of the model.
    transform : str
        Its name.
    solver : str
        How sources were found.
    is_prepared : bool
        Whether samples were referenced, filtered or resampled before.
    n_samples : int
        Number of samples that were separated.
    """

    mixing: Array
    unmixing: Array
    mean: Array
    channels: tuple[str, ...]
    unit: str | None
    settings: dict[str, Any]
    transform: str
    solver: str
    is_prepared: bool
    n_samples: int


class OutputFile(Closing):
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
        self._file = open_file(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def model(self) -> OutputModel:
        """Return the model.

        Raises
        ------
        RecordingError
            If it is no output of `batch`, or damaged.
        """
        mixing, unmixing = self._matrix("mixing", 2), self._matrix("unmixing", 2)
        with damage_reported(self.path):
            channels = numbered(stated_channels(self._file["mixing"]), len(mixing))
            has_mean = "mean" in self._file
            held = self._file["mean" if has_mean else "sources"]
            return OutputModel(
                mixing,
                unmixing,
                self._matrix("mean", 1) if has_mean else np.zeros(len(mixing)),
                channels,
                stated_unit(held),
                json.loads(text(attribute(self._file, "settings")) or "{}"),
                json.loads(text(attribute(self._file, "transform")) or "{}").get("name", ""),
                text(attribute(self._file, "solver")) or "",
                self._is_prepared(),
                len(self._file["sources"]),
            )

    def series(self, name: str) -> "Series":
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
                f"{', '.join(found) or 'none'}"
            )
        return Series(self.path, name, handle, gaps_beside(self._file, handle.shape[0]))

    def _is_prepared(self) -> bool:
        told = json.loads(text(attribute(self._file, "preparation")) or "{}")
        return any(value for name, value in told.items() if name not in _DETAILS)

    def _matrix(self, name: str, ndim: int) -> Array:
        handle = dataset(self._file, name)
        if handle is None or not numeric(handle):
            raise RecordingError(
                f"{str(self.path)!r} has no dataset '/{name}': it is no output of igbss-stream batch"
            )
        if handle.ndim != ndim:
            raise RecordingError(
                f"dataset '/{name}' of {str(self.path)!r} has {handle.ndim} axes, where one matrix has "
                f"{ndim}: its model changes from sample to sample, or is damaged"
            )
        return np.asarray(handle[()], np.float64)


class Series:
    """Samples in an output, in blocks.

    Parameters
    ----------
    path : Path
    name : str
    handle : h5py.Dataset
    gaps : tuple of Break

    Attributes
    ----------
    n_samples, n_channels : int
    dtype : dtype
        float32 or float64, of the blocks.
    rate : float or None
        In Hz.
    unit : str or None
    channels : tuple of str
    gaps : tuple of Break
        Where samples are missing.
    """

    def __init__(self, path: Path, name: str, handle: Any, gaps: tuple[Break, ...]) -> None:
        what = naming(f"/{name.strip('/')}", path)
        self.what = what
        self._handle = handle
        self.n_samples, self.n_channels = handle.shape
        self.dtype = checked_type(handle, what)
        self.rate, self.unit = stated_rate(handle, what), stated_unit(handle)
        self.channels = numbered(stated_channels(handle), self.n_channels)
        self.gaps = gaps

    def blocks(self, n: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, samples), at most `n` samples at a time, of shape (samples, channels).

        Raises
        ------
        RecordingError
            If they cannot be read.
        """
        for start in range(0, self.n_samples, n):
            try:
                block = self._handle[start : start + n]
            except LIBRARY_ERRORS as error:
                raise RecordingError(
                    f"samples from {start} on of {self.what} cannot be read: {one_line(error)}"
                ) from error
            yield start, np.asarray(block, self.dtype)
