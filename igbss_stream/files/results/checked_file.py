"""Open an HDF5 file of this package, and check sizes before memory is taken."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.closeable import Closeable
from igbss_stream.errors import RecordingError
from igbss_stream.files.readers.hdf5.file import NotHdf5Error, name_dataset, open_file, report_damage
from igbss_stream.files.readers.hdf5.layouts.values import get_dataset, is_numeric

Array = NDArray[np.float64]

_LARGEST_RATIO = 1100  # gzip compresses to a 1,032nd at best
_JSON = ("job", "settings", "preparation", "cleaning", "transform", "model")


class CheckedFile(Closeable):
    """An HDF5 file of this package, open for reading. A context manager that closes it.

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
        except NotHdf5Error as error:
            raise NotHdf5Error(
                f"{str(path)!r} is not an HDF5 file; pass an output of `igbss-stream batch`"
            ) from error
        try:
            with report_damage(self.path):
                self._check_attributes(self._file)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read_json(self, name: str) -> dict[str, Any]:
        """Read an attribute of the file that contains JSON.

        Parameters
        ----------
        name : str

        Raises
        ------
        RecordingError
            If it is missing or damaged.
        """
        with report_damage(self.path):
            text = self._file.attrs.get(name)
        if text is None:
            raise RecordingError(
                f"{str(self.path)!r} has no attribute {name!r}; it was written by another version: "
                "separate again without --resume"
            )
        content: dict[str, Any] = json.loads(text)
        return content

    def read_attributes(self) -> dict[str, Any]:
        """Read the attributes of the file; parse those that contain JSON.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            found = {name: str(value) for name, value in self._file.attrs.items()}
            return {name: json.loads(text) if name in _JSON else text for name, text in found.items()}

    def read_table(self, name: str) -> NDArray[np.void] | None:
        """Read a table, such as ``"fits"``; None if there is none of that name.

        Raises
        ------
        RecordingError
            If the file is damaged.
        """
        with report_damage(self.path):
            handle = get_dataset(self._file, name)
            if handle is None or handle.ndim != 1 or handle.dtype.names is None:
                return None
            self._check_size(handle, name)
            return np.asarray(handle[()])

    def read_numbers(self, name: str, start: int, stop: int) -> Array:
        """Read a range of a one-dimensional dataset.

        Parameters
        ----------
        name : str
        start, stop : int
            First index, and the index after the last.

        Raises
        ------
        RecordingError
            If the file is damaged, or the dataset does not have this range.
        """
        with report_damage(self.path):
            handle = get_dataset(self._file, name)
            if (
                handle is None
                or handle.ndim != 1
                or not is_numeric(handle)
                or not start < stop <= len(handle)
            ):
                raise RecordingError(
                    f"{name_dataset(f'/{name}', self.path)} has no entries {start} to {stop}, which "
                    "/fits refers to: separate again"
                )
            return np.asarray(handle[start:stop], np.float64)

    def has_dataset(self, name: str) -> bool:
        """Return whether there is a dataset of that name."""
        return get_dataset(self._file, name) is not None

    def _check_size(self, handle: Any, name: str) -> None:
        """Refuse a dataset or attribute that its file cannot contain, before memory is taken."""
        self._check_bytes(math.prod(handle.shape) * handle.dtype.itemsize, f"dataset '/{name}'")
        self._check_attributes(handle, f" of '/{name}'")

    def _check_attributes(self, handle: Any, of: str = "") -> None:
        for name in handle.attrs:
            attribute = handle.attrs.get_id(name)
            n_values = attribute.get_space().get_simple_extent_npoints()
            self._check_bytes(n_values * attribute.get_type().get_size(), f"attribute {name!r}{of}")

    def _check_bytes(self, n_bytes: int, what: str) -> None:
        n_stored = self.path.stat().st_size
        if n_bytes > _LARGEST_RATIO * n_stored:
            raise RecordingError(
                f"{what} of {str(self.path)!r} states {n_bytes} bytes, in a file of {n_stored}: copy the "
                "file again, or separate again"
            )
