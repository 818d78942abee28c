"""Interpolate channels on the head by spherical splines (Perrin et al. 1989).

Their potential is the smoothest one on a sphere that passes through the other channels. It needs the places
of the channels alone, and no samples of the channel to be interpolated.
"""

from collections.abc import Sequence

import numpy as np
from numpy.polynomial.legendre import legval
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.positions import MIN_LOCATED, Positions, locate_channels

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_STIFFNESS = 4
_N_TERMS = 50  # of the series of Legendre polynomials
_RIDGE = 1e-5


class SphericalSplines:
    """Interpolates channels whose places are known.

    Parameters
    ----------
    names : sequence of str
        Of all channels.
    positions : Positions, optional
        Otherwise names of the 10-20 system give the places.

    Attributes
    ----------
    is_located : ndarray of shape (channels,)
        Whether the place of a channel is known.
    source : str
        Where the places are from; empty if too few are known.
    reason : str
        Why they are not known; empty otherwise.
    """

    def __init__(self, names: Sequence[str], positions: Positions | None = None) -> None:
        located = locate_channels(names, positions)
        self._directions = np.full((len(names), 3), np.nan)
        self._directions[located.channels] = located.sphere
        self.is_located = np.isfinite(self._directions).all(axis=1)
        self.source, self.reason = located.source, "" if len(located.channels) else located.reason

    def can_interpolate(self, wanted: Indices, known: Indices) -> bool:
        """Return whether the places of all wanted channels, and of enough known ones, are known."""
        return bool(self.is_located[wanted].all() and self.is_located[known].sum() >= MIN_LOCATED)

    def compute_weights(self, wanted: Indices, known: Indices) -> Array:
        """Return the weights of known channels in wanted ones, (known, wanted); 0 for those not located.

        Parameters
        ----------
        wanted, known : ndarray of int
            Channels for which `can_interpolate` is true.
        """
        weights = np.zeros((len(known), len(wanted)))
        used = self.is_located[known]
        weights[used] = compute_spline_weights(self._directions[known[used]], self._directions[wanted])
        return weights


def compute_spline_weights(known: Array, wanted: Array) -> Array:
    """Return the weights of potentials at known places in those at wanted places, (known, wanted).

    Parameters
    ----------
    known, wanted : ndarray of shape (places, 3)
        Directions from the centre of the sphere, of length 1. The weights of each wanted place sum to 1.
    """
    n = len(known)
    system = np.ones((n + 1, n + 1))
    system[:n, :n] = _compute_potential(known @ known.T) + _RIDGE * np.eye(n)
    system[n, n] = 0.0
    right = np.vstack([_compute_potential(known @ wanted.T), np.ones(len(wanted))])
    with limit_blas_threads():
        return np.asarray(np.linalg.solve(system, right)[:n])


def _compute_potential(cosine: Array) -> Array:
    """Return the function g of Perrin et al. of the cosine of the angle between two places."""
    n = np.arange(1, _N_TERMS + 1, dtype=np.float64)
    terms = (2 * n + 1) / (n * (n + 1)) ** _STIFFNESS / (4 * np.pi)
    return np.asarray(legval(np.clip(cosine, -1.0, 1.0), [0.0, *terms]))
