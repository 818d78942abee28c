"""Whiten channels for the learning of products of sources."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-9  # smallest eigenvalue relative to the largest one


@dataclass(frozen=True)
class Whitening:
    """Linear map to uncorrelated directions of unit variance, and its inverse.

    Parameters
    ----------
    mean : ndarray of shape (channels,)
    forward : ndarray of shape (directions, channels)
    back : ndarray of shape (channels, directions)
    """

    mean: Array
    forward: Array
    back: Array

    @classmethod
    def fit(cls, x: Array, max_directions: int) -> "Whitening":
        """Fit to samples (samples, channels), with up to `max_directions` leading directions."""
        mean, scale = x.mean(axis=0), x.std(axis=0)
        standard = (x - mean) / scale
        values, vectors = np.linalg.eigh(standard.T @ standard / len(x))
        kept = np.flatnonzero(values > RANK_TOLERANCE * values[-1])[-max_directions:]
        root, axes = np.sqrt(values[kept]), vectors[:, kept]
        return cls(mean, axes.T / root[:, None] / scale, scale[:, None] * axes * root)

    def apply(self, x: Array) -> Array:
        """Transform samples (samples, channels) to (samples, directions)."""
        return np.ascontiguousarray((x - self.mean) @ self.forward.T)

    def transform_weights(self, weights: Array) -> Array:
        """Transform weights (channels, sets) to (directions, sets); the first column is the offset."""
        moved = weights.copy()
        moved[:, 0] -= self.mean
        return np.ascontiguousarray(self.forward @ moved)

    def restore_weights(self, weights: Array) -> Array:
        """Transform weights (directions, sets) back to (channels, sets)."""
        moved = self.back @ weights
        moved[:, 0] += self.mean
        return np.asarray(moved)
