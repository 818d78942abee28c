"""Read a matrix of numbers from a file."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError

MATRIX_FILES = (".npy", ".csv", ".txt")


def read_matrix(path: Path, option: str) -> NDArray[Any]:
    """Read a matrix from a file.

    Parameters
    ----------
    path : Path
        A NumPy file (.npy), or text with one row per line, separated by commas (.csv) or spaces (.txt).
    option : str
        Option that set the path, for messages.

    Returns
    -------
    ndarray

    Raises
    ------
    ParameterError
        If the file has another format or cannot be read.
    """
    if path.suffix not in MATRIX_FILES:
        raise ParameterError(
            f"{option} '{path}' must end in .npy, .csv or .txt to be read.", parameter=option
        )
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path, allow_pickle=False))
        with warnings.catch_warnings(
            action="error", category=UserWarning
        ):  # raised for a file without numbers
            return np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except (OSError, ValueError, EOFError, UserWarning) as error:
        raise ParameterError(
            f"{option} '{path}' cannot be read as a matrix: {error}", parameter=option
        ) from error
