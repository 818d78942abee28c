"""Measure the maps of sources: where on the head they are strong, and how smoothly they change.

Maps are compared after their mean over the channels is subtracted, because a reference adds a constant to
them. The templates follow from geometry: an eye is seen from an electrode at the angle between both, and
its weight falls as ``exp(-k (1 - cos(angle)))``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MIN_POSITIONS = 5
"""Fewest channels of known position that a map is judged by."""

_BETWEEN_EYES = (0.0, 0.97, -0.25)
_EYES = ((-0.60, 0.76, -0.25), (0.60, 0.76, -0.25))  # at the outer corners
_FALLS = (2.0, 4.0)  # k of a wide and a narrow template
_NEAR = 8.0  # k of the weights of neighbours
_FACE = (0.4, 0.1)  # electrodes further to the front and lower than this are beside or below the eyes


@dataclass(frozen=True, eq=False)
class MapFacts:
    """Facts of maps, an entry for each source.

    Parameters
    ----------
    frontal : ndarray
        |Correlation| with the weights of a source between the eyes.
    lateral : ndarray
        |Correlation| with the difference of the weights of both eyes.
    focus : ndarray
        Share of the sum of squares that the strongest channel has, less what its neighbours predict of it.
    strongest : ndarray of int
        Index of the channel with the largest weight.
    """

    frontal: Array
    lateral: Array
    focus: Array
    strongest: NDArray[np.int_]


def select_scalp(positions: Mapping[int, Array]) -> dict[int, Array]:
    """Return the positions without those on the face, where the sign of a blink turns.

    Parameters
    ----------
    positions : mapping of int to ndarray of shape (3,)
        See `measure_maps`.
    """
    front, low = _FACE
    return {
        i: where
        for i, where in positions.items()
        if where[1] < front * np.linalg.norm(where) or where[2] > low * np.linalg.norm(where)
    }


def measure_maps(maps: Array, positions: Mapping[int, Array]) -> MapFacts | None:
    """Return facts of the maps of sources.

    Parameters
    ----------
    maps : ndarray of shape (channels, sources)
    positions : mapping of int to ndarray of shape (3,)
        Position of channels, by index; x to the right ear, y to the nose, z to the vertex.

    Returns
    -------
    MapFacts or None
        None if fewer than `MIN_POSITIONS` positions are known.
    """
    if len(positions) < MIN_POSITIONS:
        return None
    at = np.array(list(positions))
    directions = np.array([positions[i] for i in at])
    directions = directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
    weights = maps[at]
    left, right = (_see(directions, eye, _FALLS[1]) for eye in _EYES)
    fronts = [_see(directions, _BETWEEN_EYES, fall) for fall in _FALLS]
    strongest = np.abs(weights).argmax(axis=0)
    return MapFacts(
        frontal=np.max([np.abs(_correlate(front, weights)) for front in fronts], axis=0),
        lateral=np.abs(_correlate(left - right, weights)),
        focus=_measure_focus(weights, directions),
        strongest=at[strongest],
    )


def _see(directions: Array, source: tuple[float, float, float], fall: float) -> Array:
    """Return the weights of a source in a direction from the centre of the head."""
    towards = np.array(source) / np.linalg.norm(source)
    return np.asarray(np.exp(-fall * (1.0 - directions @ towards)))


def _centre(maps: Array) -> Array:
    return np.asarray(maps - maps.mean(axis=0))


def _correlate(template: Array, maps: Array) -> Array:
    """Return the correlation of a template with each map."""
    a, b = _centre(template), _centre(maps)
    size = np.linalg.norm(a) * np.linalg.norm(b, axis=0)
    return np.asarray(np.divide(a @ b, size, out=np.zeros(b.shape[1]), where=size > 0))


def _measure_focus(maps: Array, directions: Array) -> Array:
    """Return the largest share of a centred map that stands out from the neighbours of its channel."""
    near = np.exp(-_NEAR * (1.0 - directions @ directions.T))
    np.fill_diagonal(near, 0.0)
    near /= np.maximum(near.sum(axis=1, keepdims=True), 1e-12)
    centred = maps - np.median(maps, axis=0)
    stands_out = centred - near @ centred
    same = np.sign(stands_out) == np.sign(centred)
    whole = np.sum(centred**2, axis=0)
    most = np.max(np.where(same, np.minimum(np.abs(stands_out), np.abs(centred)), 0.0) ** 2, axis=0)
    return np.asarray(np.divide(most, whole, out=np.zeros_like(whole), where=whole > 0))
