"""What a source looks like on the scalp: its weights at the electrodes, and between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

from igbss_stream._util.electrodes import find_positions, project_from_above

Array = NDArray[np.float64]

RADIUS = 1.1  # of the map; at 1 are nasion, inion and ears
_LEAST = 4  # electrodes that a map needs


@dataclass(frozen=True)
class Montage:
    """Which channels are electrodes, and where they are on the map.

    Parameters
    ----------
    channels : ndarray of int
        Places in the list of channels.
    places : ndarray of shape (electrodes, 2)
        Right and front.
    """

    channels: NDArray[np.intp]
    places: Array


def montage(names: Sequence[str]) -> Montage | None:
    """Return where channels lie on the map.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    Montage or None
        None if fewer than four have names of the 10-20 system, or less than half of them.
    """
    found = find_positions(names)
    if len(found) < max(_LEAST, len(names) / 2):
        return None
    places = project_from_above(np.array([*found.values()]))
    _, first = np.unique(np.round(places / 1e-6).astype(int), axis=0, return_index=True)
    first.sort()  # T3 and T7 are one place
    if (
        len(first) < _LEAST
        or np.linalg.matrix_rank(places[first] - places[first].mean(axis=0), tol=1e-6) < 2
    ):
        return None
    return Montage(np.array([*found])[first], places[first])


def scalp_map(placed: Montage, weights: Array, size: int) -> NDArray[np.float32]:
    """Return the weights of a source between the electrodes, by thin-plate splines.

    Parameters
    ----------
    placed : Montage
    weights : ndarray of shape (channels,)
    size : int
        Pixels of a side.

    Returns
    -------
    ndarray of shape (size, size)
        Rows from back to front, columns from left to right; NaN outside the disc.
    """
    axis = np.linspace(-RADIUS, RADIUS, size)
    right, front = np.meshgrid(axis, axis)
    pixel = axis[1] - axis[0]
    inside = np.hypot(right, front) <= RADIUS + pixel / 2  # so that the outline covers the steps
    between = RBFInterpolator(placed.places, weights[placed.channels], kernel="thin_plate_spline")
    out: NDArray[np.float32] = np.full((size, size), np.nan, np.float32)
    out[inside] = between(np.column_stack([right[inside], front[inside]]))
    return out
