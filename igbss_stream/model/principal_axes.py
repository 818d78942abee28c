"""Principal axes of channels of unit variance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrincipalAxes:
    """Scales of channels, and the principal axes of the channels scaled to unit variance.

    Parameters
    ----------
    scale : ndarray of shape (channels,)
        Standard deviations.
    values : ndarray of shape (axes,)
        Variances along the axes.
    vectors : ndarray of shape (channels, axes)
        Orthonormal columns.
    drift_removed : bool
        Whether the channels were without drift.
    """

    scale: Array
    values: Array
    vectors: Array
    drift_removed: bool

    @property
    def whitening(self) -> Array:
        """From scaled channels to white ones, (axes, channels)."""
        return np.asarray(self.vectors.T / np.sqrt(self.values)[:, None])

    @property
    def colouring(self) -> Array:
        """From white channels to scaled ones, (channels, axes)."""
        return np.asarray(self.vectors * np.sqrt(self.values))
