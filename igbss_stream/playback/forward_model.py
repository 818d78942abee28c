"""Where electrodes and sources lie, and how much of each source an electrode sees.

The head is the unit sphere: x to the right ear, y to the nose, z to the vertex. A source has a focus on it,
a width and a tilt: of a source of size 1, an electrode at p sees
``exp((p . focus - 1) / width**2) (1 + tilt . (p - focus))``. Neighbouring electrodes thus see nearly the
same, and a tilt makes one side of the focus negative, as a dipole that lies along the surface does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LOWEST = -0.2  # z of the lowest electrodes: a little below the ears
_GOLDEN = np.pi * (3 - np.sqrt(5))  # angle between successive electrodes of a spiral that fills evenly
_PERIODS = (61.0, 97.0, 173.0)  # seconds in which a focus wanders to and fro, give or take a fifth


def electrodes(n_channels: int) -> Array:
    """Return positions that cover the scalp evenly, from the vertex down, (channels, 3)."""
    i = np.arange(n_channels)
    z = 1 - (1 - _LOWEST) * (i + 0.5) / n_channels
    radius = np.sqrt(1 - z**2)
    return np.column_stack([radius * np.cos(_GOLDEN * i), radius * np.sin(_GOLDEN * i), z])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a source is seen.

    Parameters
    ----------
    focus, tilt : tuple of float
        See the module; of the focus only the direction counts.
    width : float
        About the radius of what is seen, in radians for small ones; infinity is the whole head.
    """

    focus: tuple[float, float, float]
    width: float
    tilt: tuple[float, float, float] = (0.0, 0.0, 0.0)


def anywhere(rng: np.random.Generator) -> Place:
    """Return a place in the upper half of the head, of a source that is a tilted dipole."""
    x, y, z = rng.standard_normal(3)
    right, front, up = rng.normal(0.0, 1.5, 3)
    return Place((x, y, abs(z)), rng.uniform(0.5, 0.8), (right, front, up))


class Scalp:
    """Mixes sources whose foci wander.

    Parameters
    ----------
    positions : ndarray of shape (channels, 3)
        Of the electrodes.
    places : sequence of Place
        One for each source.
    drift : float
        How far a focus wanders, as root mean square, in radians; 0 is not at all.
    rng : Generator
        Decides on the ways.
    """

    def __init__(
        self, positions: Array, places: tuple[Place, ...], drift: float, rng: np.random.Generator
    ) -> None:
        self._positions = positions
        self._focus = _unit(np.array([place.focus for place in places]))
        self._tilt = np.array([place.tilt for place in places])
        self._sharpness = np.array([place.width for place in places]) ** -2.0
        shape = (len(_PERIODS), len(places), 3)
        self._pace = 2 * np.pi / (np.array(_PERIODS)[:, None, None] * rng.uniform(0.8, 1.2, shape))
        self._phase = rng.uniform(0, 2 * np.pi, shape)
        # along the surface there are two directions, each of as many sines of mean square 1/2
        self._reach = drift / np.sqrt(len(_PERIODS))

    def mixing(self, t: float) -> Array:
        """Return what each electrode sees of each source at a time in seconds, (channels, sources)."""
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
