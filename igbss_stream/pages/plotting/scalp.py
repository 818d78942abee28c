"""Compute maps of the scalp: weights at the electrodes, and interpolated between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RBFInterpolator

from igbss_stream._util.electrodes import project_from_above
from igbss_stream.positions import MIN_LOCATED, Positions, locate_channels

Array = NDArray[np.float64]

RADIUS = 1.1  # of the map; nasion, inion and ears are at 1


@dataclass(frozen=True)
class Montage:
    """The channels whose place on the head is known, and their positions on the map.

    Parameters
    ----------
    channels : ndarray of int
        Indices in the list of channels.
    positions : ndarray of shape (electrodes, 2)
        Coordinates to the right and to the front.
    source : str
        Where the places are from; see `igbss_stream.positions`.
    reason : str
        Why there is no map, or why places are from names although positions are known; empty otherwise.
    """

    channels: NDArray[np.intp]
    positions: Array
    source: str
    reason: str

    @property
    def has_map(self) -> bool:
        """Whether enough places are known for a map; otherwise `reason` states why not."""
        return len(self.channels) > 0


def find_montage(names: Sequence[str], positions: Positions | None = None) -> Montage:
    """Find the places of channels on the map, from positions or else from names.

    Parameters
    ----------
    names : sequence of str
    positions : Positions, optional
        Of the channels; matched by name.

    Returns
    -------
    Montage
        Of channels at one place, the first. Without channels if fewer than four channels, or fewer than
        half of them, have a place, or if all places are on a line.
    """
    found = locate_channels(names, positions)
    places = project_from_above(found.directions)
    _, first = np.unique(np.round(places / 1e-6).astype(int), axis=0, return_index=True)
    first.sort()  # T3 and T7 are the same place, and so are both wavelengths of an optode pair
    reason = found.reason
    if len(found.channels) and len(first) < MIN_LOCATED:
        reason = f"{found.source}: {len(first)} different places are known, and a map needs {MIN_LOCATED}"
        first = first[:0]
    elif len(first) and np.linalg.matrix_rank(places[first] - places[first].mean(axis=0), tol=1e-6) < 2:
        first, reason = first[:0], f"{found.source}: all places are on a line"
    return Montage(found.channels[first], places[first], found.source, reason)


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
