"""Unmixings of whitened channels that textbook methods find, for a descent to start from."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from igbss_stream.model.kernels import learning

Array = NDArray[np.float64]

N_STARTS = 3  # at most
_NUMBERS = 1 << 19  # that fixed-point ICA sees
_ROUNDS = 60  # of it: where it has not come to rest by then, it circles
_TURNED = 1e-6  # one less the cosine of the angle by which a source turns: at rest
_LEAST = 0.05  # variance that noise leaves of a whitened channel


def find_starts(z: Array, covariances: Array) -> Iterator[Array]:
    """Yield unmixings, at most `N_STARTS`.

    Parameters
    ----------
    z : ndarray of shape (sources, samples)
    covariances : ndarray of shape (lags + 1, sources, sources)
        Of z less its noise, lag 0 first.
    """
    some = z[:, : _NUMBERS // len(z)]
    yield _run_fixed_point_ica(some)
    change = np.diff(some, axis=1)
    values, vectors = np.linalg.eigh(change @ change.T / change.shape[1])
    if values[0] > 1e-10 * values[-1]:
        whitening = (vectors / np.sqrt(values)) @ vectors.T
        yield _run_fixed_point_ica(whitening @ change) @ whitening
    yield separate_second_order(covariances)


def separate_second_order(covariances: Array) -> Array:
    """Return the unmixing that makes lagged covariances as diagonal as can be, and the first one 1."""
    values, vectors = np.linalg.eigh(covariances[0])
    whitening = (vectors / np.sqrt(np.maximum(values, _LEAST))) @ vectors.T
    rotation = diagonalise_jointly(whitening @ covariances[1:] @ whitening.T)
    return np.asarray(rotation @ whitening)


def diagonalise_jointly(covariances: Array) -> Array:
    """Return the rotation that makes matrices as diagonal as can be."""
    matrices = 0.5 * (covariances + covariances.transpose(0, 2, 1))
    rotation = np.eye(covariances.shape[1])
    for _ in range(60):
        if learning.rotate_to_diagonal(matrices, rotation) < 1e-8:
            break
    return rotation


def _run_fixed_point_ica(z: Array) -> Array:
    """Return the rotation of symmetric fixed-point ICA with tanh, from the principal axes."""
    rotation, n_samples = np.eye(len(z)), z.shape[1]
    for _ in range(_ROUNDS):
        score = np.tanh(rotation @ z)
        power = np.einsum("it,it->i", score, score) / n_samples
        update = score @ z.T / n_samples - (1.0 - power)[:, None] * rotation
        left, _, right = np.linalg.svd(update)
        turned = np.abs(np.sum((left @ right) * rotation, axis=1)).min()
        rotation = left @ right
        if turned > 1.0 - _TURNED:
            break
    return rotation
