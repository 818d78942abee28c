"""Learn the densities of sources, or of their innovations, from samples.

A histogram on the axis of `igbss_stream.model.kernels.densities` is smoothed by a Gaussian of Silverman's
width. Successive samples of a slow source are alike, and carry less information than independent ones. The
width therefore follows from the effective number of samples. Without that, the density of a slow source
would have a peak wherever the source pauses.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import densities

Array = NDArray[np.float64]

_N_NODES = 449
_SPACING = 2.0 * densities.LIMIT / (_N_NODES - 1)
_U = np.linspace(-densities.LIMIT, densities.LIMIT, _N_NODES)
_T_SQUARED = 0.5 * (_U**4 + np.sqrt(_U**8 + 4.0 * _U**4))  # of the innovation at a node
_T = np.sign(_U) * np.sqrt(_T_SQUARED)
_DU_DT = (1.0 + 0.5 * _T_SQUARED) * (1.0 + _T_SQUARED) ** -1.25
_LOSS_OF_AXIS = -np.log(_DU_DT)
_SLOPE_OF_AXIS = -_T / (1.0 + 0.5 * _T_SQUARED) + 2.5 * _T / (1.0 + _T_SQUARED)
_SILVERMAN = 1.06
_N_PADDED = 900  # nodes and as many zeros, in small prime factors
_FREQUENCIES = 2.0 * np.pi * np.fft.rfftfreq(_N_PADDED) / _SPACING


@dataclass(frozen=True)
class Densities:
    """Negative logarithms of densities, one a row, with their first and second derivatives, as tables.

    Parameters
    ----------
    scale : ndarray of shape (sources,)
        Standard deviation of the samples.
    losses, slopes, bends : ndarray of shape (sources, nodes)
        -log p, its derivative (the score) and its second derivative, at the nodes.
    """

    scale: Array
    losses: Array
    slopes: Array
    bends: Array

    @classmethod
    def learn(cls, e: Array, n_effective: Array) -> "Densities":
        """Learn the densities of rows.

        Parameters
        ----------
        e : ndarray of shape (sources, samples)
        n_effective : ndarray of shape (sources,)
            Number of independent samples that the samples are equivalent to.
        """
        n_samples = e.shape[1]
        scale = np.sqrt(np.einsum("it,it->i", e, e) / n_samples)
        scale[scale == 0.0] = 1.0
        counts = np.empty((len(e), _N_NODES))
        densities.count_innovations(e, scale, counts)
        # a small uniform share: no innovation is impossible
        share = 1.0 / n_samples
        p = (1.0 - share) * _smooth(counts / n_samples, n_effective) + share / (2.0 * densities.LIMIT)
        loss = -np.log(p)
        score = np.gradient(loss, _SPACING, axis=1) * _DU_DT + _SLOPE_OF_AXIS
        bend = np.gradient(score, _SPACING, axis=1) * _DU_DT
        per_scale = scale[:, None]
        tables = (loss + _LOSS_OF_AXIS + np.log(per_scale), score / per_scale, bend / per_scale**2)
        return cls(scale, *(np.ascontiguousarray(table) for table in tables))

    def compute_scores(self, e: Array, scores: Array) -> tuple[Array, Array]:
        """Fill scores with the derivative of -log p at samples.

        Parameters
        ----------
        e, scores : ndarray of shape (sources, samples)

        Returns
        -------
        loss : ndarray of shape (sources,)
            Mean of -log p.
        power : ndarray of shape (sources,)
            Mean square of the scores.
        """
        loss, power = np.empty((2, len(e)))
        densities.look_up_scores(e, self.scale, self.losses, self.slopes, scores, loss, power)
        return loss, power

    def compute_bends(self, e: Array) -> Array:
        """Return the second derivative of -log p at samples, (sources, samples)."""
        bends = np.empty(e.shape)
        densities.look_up(e, self.scale, self.bends, bends)
        return bends


def _smooth(shares: Array, n_effective: Array) -> Array:
    """Return the density at the nodes for the share of samples at each, (sources, nodes)."""
    mean = shares @ _U
    deviation = np.sqrt(np.maximum(shares @ _U**2 - mean**2, _SPACING**2))
    width = _SILVERMAN * deviation * n_effective**-0.2
    gain = np.exp(-0.5 * (_FREQUENCIES * width[:, None]) ** 2)
    smooth = np.fft.irfft(np.fft.rfft(shares, _N_PADDED, axis=1) * gain, _N_PADDED, axis=1)
    return np.asarray(np.maximum(smooth[:, :_N_NODES], 0.0) / _SPACING)
