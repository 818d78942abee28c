"""Starting points of descents: unmixing matrices of whitened channels."""

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import learning

Array = NDArray[np.float64]

_MIN_VARIANCE = 0.05  # of a whitened channel
_MAX_NUMBERS = 1 << 18  # size of the data for fixed-point ICA
_MAX_SWEEPS, _LEAST_ANGLE = 20, 1e-3  # of rotations; descents continue from where they end
_MAX_ITER = 30  # of fixed-point ICA; descents continue from where it ends
_TOLERANCE = 1e-4  # of fixed-point ICA: 1 minus the cosine of the angle between successive directions


def find_starts(z: Array, covariances: Array, axes: Array) -> list[Array]:
    """Return unmixing matrices to start from.

    The first one separates by second-order statistics. The second one changes the channels as little as
    possible: many sources are strongest in one channel. The third one is that of fixed-point ICA.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
        Whitened channels.
    covariances : ndarray of shape (lags + 1, sources, sources)
        Lagged covariances of the whitened channels, lag 0 first.
    axes : ndarray of shape (channels, sources)
        Orthonormal principal axes of the channels.
    """
    from scipy.linalg import polar, qr  # a quarter of a second to import

    n_sources = axes.shape[1]
    channels = np.sort(qr(axes.T, mode="r", pivoting=True)[1][:n_sources])
    return [
        separate_second_order(covariances),
        np.ascontiguousarray(polar(axes[channels])[0]),
        _run_fixed_point_ica(z[:, : _MAX_NUMBERS // n_sources]),
    ]


def separate_second_order(covariances: Array) -> Array:
    """Return the unmixing matrix that whitens the first and jointly diagonalises all lagged covariances."""
    values, vectors = np.linalg.eigh(covariances[0])
    whitening = (vectors / np.sqrt(np.maximum(values, _MIN_VARIANCE))) @ vectors.T
    rotation = diagonalise_jointly(whitening @ covariances[1:] @ whitening.T)
    return np.asarray(rotation @ whitening)


def diagonalise_jointly(covariances: Array) -> Array:
    """Return the rotation that approximately diagonalises all matrices."""
    matrices = np.ascontiguousarray(0.5 * (covariances + covariances.transpose(0, 2, 1)))
    rotation = np.eye(covariances.shape[1])
    for _ in range(_MAX_SWEEPS):
        if learning.rotate_to_diagonal(matrices, rotation) < _LEAST_ANGLE:
            break
    return rotation


def _run_fixed_point_ica(z: Array) -> Array:
    """Return the rotation of symmetric fixed-point ICA with tanh, starting from the principal axes."""
    rotation, n_samples = np.eye(len(z)), z.shape[1]
    for _ in range(_MAX_ITER):
        score = np.tanh(rotation @ z)
        power = np.einsum("it,it->i", score, score) / n_samples
        update = score @ z.T / n_samples - (1.0 - power)[:, None] * rotation
        left, _, right = np.linalg.svd(update)
        cosine = np.abs(np.sum((left @ right) * rotation, axis=1)).min()
        rotation = left @ right
        if cosine > 1.0 - _TOLERANCE:
            break
    return rotation
