"""Compute maps of the scalp: weights at the electrodes, and interpolated between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

from igbss_stream._util.electrodes import find_positions, project_from_above

Array = NDArray[np.float64]

RADIUS = 1.1  # of the map; nasion, inion and ears are at 1
_MIN_ELECTRODES = 4


@dataclass(frozen=True)
class Montage:
    """Channels that are electrodes, and their positions on the map.

    Parameters
    ----------
    channels : ndarray of int
        Indices in the list of channels.
    places : ndarray of shape (electrodes, 2)
        Coordinates to the right and to the front.
    """

    channels: NDArray[np.intp]
    positions: Array


def find_montage(names: Sequence[str]) -> Montage | None:
    """Find the positions of channels on the map.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    Montage or None
        None if fewer than four channels, or fewer than half of them, have names of the 10-20 system.
    """
    found = find_positions(names)
    if len(found) < max(_MIN_ELECTRODES, len(names) / 2):
        return None
    positions = project_from_above(np.array([*found.values()]))
    _, first = np.unique(np.round(positions / 1e-6).astype(int), axis=0, return_index=True)
    first.sort()  # T3 and T7 are the same position
    if (
        len(first) < _MIN_ELECTRODES
        or np.linalg.matrix_rank(positions[first] - positions[first].mean(axis=0), tol=1e-6) < 2
    ):
        return None
    return Montage(np.array([*found])[first], positions[first])


def interpolate_weights(placed: Montage, weights: Array, size: int) -> NDArray[np.float32]:
    """Interpolate the weights of a source between the electrodes with thin-plate splines.

    Parameters
    ----------
    placed : Montage
    weights : ndarray of shape (channels,)
    size : int
        Number of pixels per side.

    Returns
    -------
    ndarray of shape (size, size)
        Rows from back to front, columns from left to right; NaN outside the disc.
    """
    axis = np.linspace(-RADIUS, RADIUS, size)
    right, front = np.meshgrid(axis, axis)
    pixel = axis[1] - axis[0]
    inside = np.hypot(right, front) <= RADIUS + pixel / 2  # the outline covers the steps
    between = RBFInterpolator(placed.positions, weights[placed.channels], kernel="thin_plate_spline")
    out: NDArray[np.float32] = np.full((size, size), np.nan, np.float32)
    out[inside] = between(np.column_stack([right[inside], front[inside]]))
    return out
