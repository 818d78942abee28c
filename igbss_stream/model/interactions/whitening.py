"""The uncorrelated directions of channels in which products of sources are learned."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RANK_TOLERANCE = 1e-9  # eigenvalue, as a share of the largest, that is but rounding


@dataclass(frozen=True)
class Whitening:
    """The linear map to uncorrelated directions of unit variance, and back."""

    mean: Array
    forward: Array  # (directions, channels)
    back: Array  # (channels, directions)

    @classmethod
    def fit(cls, x: Array, most: int) -> "Whitening":
        """Return that of the leading directions, at most as many as there are weights a channel."""
        mean, scale = x.mean(axis=0), x.std(axis=0)
        standard = (x - mean) / scale
        values, vectors = np.linalg.eigh(standard.T @ standard / len(x))
        kept = np.flatnonzero(values > RANK_TOLERANCE * values[-1])[-most:]
        root, axes = np.sqrt(values[kept]), vectors[:, kept]
        return cls(mean, axes.T / root[:, None] / scale, scale[:, None] * axes * root)

    def apply(self, x: Array) -> Array:
        """Return samples (samples, channels) as (samples, directions)."""
        return np.ascontiguousarray((x - self.mean) @ self.forward.T)

    def transform_weights(self, weights: Array) -> Array:
        """Return weights (directions, sets) for those of channels; the first column is the offset."""
        moved = weights.copy()
        moved[:, 0] -= self.mean
        return np.ascontiguousarray(self.forward @ moved)

    def restore_weights(self, weights: Array) -> Array:
        """Return weights of channels for those (directions, sets)."""
        moved = self.back @ weights
        moved[:, 0] += self.mean
        return np.asarray(moved)
