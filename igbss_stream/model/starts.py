"""Starting points of descents: unmixing matrices of whitened channels from textbook ICA methods."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import learning

Array = NDArray[np.float64]

MAX_STARTS = 3
_MAX_NUMBERS = 1 << 19  # size of the data for fixed-point ICA
_MAX_ITER = 60  # of fixed-point ICA; if it has not converged by then, it oscillates
_TOLERANCE = 1e-6  # of fixed-point ICA: 1 minus the cosine of the angle between successive directions
_MIN_VARIANCE = 0.05  # of a whitened channel after subtraction of the noise


def find_starts(z: Array, covariances: Array) -> Iterator[Array]:
    """Yield up to `MAX_STARTS` unmixing matrices.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
    covariances : ndarray of shape (lags + 1, sources, sources)
        Lagged covariances of z without its noise, lag 0 first.
    """
    subset = z[:, : _MAX_NUMBERS // len(z)]
    yield _run_fixed_point_ica(subset)
    change = np.diff(subset, axis=1)
    values, vectors = np.linalg.eigh(change @ change.T / change.shape[1])
    if values[0] > 1e-10 * values[-1]:
        whitening = (vectors / np.sqrt(values)) @ vectors.T
        yield _run_fixed_point_ica(whitening @ change) @ whitening
    yield separate_second_order(covariances)


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
    for _ in range(60):
        if learning.rotate_to_diagonal(matrices, rotation) < 1e-8:
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
