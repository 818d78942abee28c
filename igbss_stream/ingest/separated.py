"""A file that `batch` wrote, read back: whether it is one, from what and how it was made, and its model."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError
from igbss_stream.ingest.hdf5_file import damage_reported, open_file

_MARKS = ("settings", "transform", "solver", "igbss_stream_version")


@dataclass(frozen=True, eq=False)
class Separated:
    """What a file that `batch` wrote says of itself.

    Parameters
    ----------
    path : Path
    job : dict or None
        What the file was made from, see `igbss_stream.batch.fingerprint`; None in files of older versions.
    solver : str
    rate : float or None
        In Hz.
    n_samples, n_channels, n_sources : int
        There are no samples, nor a rate, in a file that holds a model alone.
    n_windows, n_failed : int
        Windows that were fitted, and those of them that did not converge.
    """

    path: Path
    job: dict[str, Any] | None
    solver: str
    rate: float | None
    n_samples: int
    n_channels: int
    n_sources: int
    n_windows: int
    n_failed: int


@dataclass(frozen=True, eq=False)
class StoredModel:
    """The model in a file that `batch` wrote.

    Parameters
    ----------
    path : Path
    channels : tuple of str
    unit : str or None
        Of the channels, if known.
    mixing, unmixing : ndarray
    mean : ndarray or None
    settings, transform, preparation : dict
        As they were described in JSON; files of older versions know no preparation.
    """

    path: Path
    channels: tuple[str, ...]
    unit: str | None
    mixing: NDArray[np.float64]
    unmixing: NDArray[np.float64]
    mean: NDArray[np.float64] | None
    settings: dict[str, Any]
    transform: dict[str, Any]
    preparation: dict[str, Any]


def is_separated(path: Path) -> bool:
    """Return whether a file was written by `batch`; False where it cannot be opened.

    Parameters
    ----------
    path : Path
    """
    try:
        with open_file(path) as file, damage_reported(path):
            return all(mark in file.attrs for mark in _MARKS)
    except RecordingError:
        return False


def read_separated(path: Path) -> Separated:
    """Read what a file that `batch` wrote says of itself.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Separated

    Raises
    ------
    RecordingError
        If it cannot be read, or another program wrote it.
    """
    with open_file(path) as file, damage_reported(path):
        _check(file, path)
        sources, fits = file.get("sources"), file.get("fits")
        mixing, unmixing = file["mixing"].shape, file["unmixing"].shape
        return Separated(
            path,
            json.loads(file.attrs["job"]) if "job" in file.attrs else None,
            str(file.attrs["solver"]),
            None if sources is None or "rate" not in sources.attrs else float(sources.attrs["rate"]),
            0 if sources is None else int(sources.shape[0]),
            int(mixing[-2]),
            int(unmixing[-2]),
            0 if fits is None else len(fits),
            0 if fits is None else int(np.sum(~fits["converged"])),
        )


def read_model(path: Path) -> StoredModel:
    """Read the model in a file that `batch` wrote.

    Parameters
    ----------
    path : Path

    Returns
    -------
    StoredModel

    Raises
    ------
    RecordingError
        If it cannot be read, or holds no model.
    """
    with open_file(path) as file, damage_reported(path):
        _check(file, path)
        unit = file.attrs.get("input_unit")
        return StoredModel(
            path,
            tuple(map(str, file["mixing"].attrs["channels"])),
            None if unit is None else str(unit),
            file["mixing"][()],
            file["unmixing"][()],
            file["mean"][()] if "mean" in file else None,
            json.loads(file.attrs["settings"]),
            json.loads(file.attrs["transform"]),
            json.loads(file.attrs.get("preparation", "{}")),
        )


def _check(file: Any, path: Path) -> None:
    if any(mark not in file.attrs for mark in _MARKS) or "mixing" not in file or "unmixing" not in file:
        raise RecordingError(f"{str(path)!r} was not written by `igbss-stream batch`")
