"""The forward model of the simulator: positions of electrodes and sources, and the mixing between them.

The head is the unit sphere: x to the right ear, y to the nose, z to the vertex. A source has a focus on it,
a width and a tilt. An electrode at p sees a source of amplitude 1 with the weight
``exp((p . focus - 1) / width**2) (1 + tilt . (p - focus))``. Neighbouring electrodes thus have similar
weights, and a tilt makes one side of the focus negative, like a dipole tangential to the surface.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LOWEST = -0.2  # z of the lowest electrodes: a little below the ears
_GOLDEN = np.pi * (3 - np.sqrt(5))  # angle between successive electrodes of an even spiral
_PERIODS = (61.0, 97.0, 173.0)  # periods of the drift of a focus in seconds, varied by up to 20 %


def place_electrodes(n_channels: int) -> Array:
    """Return positions that cover the scalp evenly, from the vertex down, of shape (channels, 3)."""
    i = np.arange(n_channels)
    z = 1 - (1 - _LOWEST) * (i + 0.5) / n_channels
    radius = np.sqrt(1 - z**2)
    return np.column_stack([radius * np.cos(_GOLDEN * i), radius * np.sin(_GOLDEN * i), z])


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Position and extent of a source.

    Parameters
    ----------
    focus, tilt : tuple of float
        See the module; only the direction of the focus matters.
    width : float
        Approximate radius of the visible area in radians; infinity is the whole head.
    """

    focus: tuple[float, float, float]
    width: float
    tilt: tuple[float, float, float] = (0.0, 0.0, 0.0)


def draw_place(rng: np.random.Generator) -> SourcePlace:
    """Draw the position of a tilted dipole in the upper half of the head."""
    x, y, z = rng.standard_normal(3)
    right, front, up = rng.normal(0.0, 1.5, 3)
    return SourcePlace((x, y, abs(z)), rng.uniform(0.5, 0.8), (right, front, up))


class ForwardModel:
    """Mix sources whose foci drift.

    Parameters
    ----------
    positions : ndarray of shape (channels, 3)
        Positions of the electrodes.
    places : sequence of SourcePlace
        One place per source.
    drift : float
        Root mean square of the displacement of a focus in radians; 0 is no drift.
    rng : Generator
        Random numbers of the drift.
    """

    def __init__(
        self, positions: Array, places: tuple[SourcePlace, ...], drift: float, rng: np.random.Generator
    ) -> None:
        self._positions = positions
        self._focus = _unit(np.array([place.focus for place in places]))
        self._tilt = np.array([place.tilt for place in places])
        self._sharpness = np.array([place.width for place in places]) ** -2.0
        shape = (len(_PERIODS), len(places), 3)
        self._pace = 2 * np.pi / (np.array(_PERIODS)[:, None, None] * rng.uniform(0.8, 1.2, shape))
        self._phase = rng.uniform(0, 2 * np.pi, shape)
        # two directions along the surface, each a sum of len(_PERIODS) sines of mean square 1/2
        self._reach = drift / np.sqrt(len(_PERIODS))

    def mixing(self, t: float) -> Array:
        """Return the mixing matrix at a time in seconds, of shape (channels, sources)."""
        focus = self._focus
        if self._reach:
            wander = self._reach * np.sin(self._pace * t + self._phase).sum(axis=0)
            focus = _unit(focus + wander - focus * np.sum(wander * focus, axis=1, keepdims=True))
        near = np.einsum("cd,sd->cs", self._positions, focus) - 1
        tilted = np.einsum("csd,sd->cs", self._positions[:, None, :] - focus, self._tilt)
        return np.asarray(np.exp(near * self._sharpness) * (1 + tilted))


def _unit(vectors: Array) -> Array:
    """Return vectors of length 1 in the same directions."""
    return np.asarray(vectors / np.sqrt(np.sum(vectors**2, axis=1, keepdims=True)))
