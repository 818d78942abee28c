"""Predict channels from the other channels, by the covariance of the stream.

The prediction is the linear one with the least mean square error. Since sources are a linear map of the
channels, separating predicted channels gives the best linear estimate of the sources from the channels that
are left: the same as an unmixing matrix made for these channels, with order, sign and scale of the sources.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.model.kernels import samples

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_MEMORY = 60.0  # cells over which the covariance is learned
_MEMORY_OF_LEVEL = 4.0  # cells over which the level of a channel is learned
_RIDGE = 0.01  # of the number of channels per sample
_LEAST_RIDGE = 1e-6


class ChannelPredictor:
    """Learn the covariance of the channels, and predict some of them from the others.

    Parameters
    ----------
    n_channels : int

    Attributes
    ----------
    n_cells : int
        Number of cells that were learned from.
    level : ndarray of shape (channels,)
        Recent mean of each channel.
    """

    def __init__(self, n_channels: int) -> None:
        self.n_cells = 0
        self.level = np.zeros(n_channels)
        self._covariance = np.zeros((n_channels, n_channels))
        self._n_learned = np.zeros(n_channels, np.int64)  # cells in which a channel was good
        self._n_rows = 0
        self._weights: dict[bytes, tuple[Array, Array]] = {}
        self._tests: dict[bytes, tuple[Array, Array]] = {}

    @property
    def is_known(self) -> Mask:
        """Which channels have been good for a cell, and moved."""
        return np.asarray((self._n_learned > 0) & (np.diag(self._covariance) > 0))

    def learn(self, rows: Array, mean: Array, missing: Mask) -> None:
        """Learn from a cell.

        Parameters
        ----------
        rows : ndarray of shape (samples, channels)
            Without their mean and slope. Missing channels are predicted ones.
        mean : ndarray of shape (channels,)
            Mean of the cell.
        missing : ndarray of shape (channels,)
            Which channels were predicted. What is known of their relation to the others is kept.
        """
        found = rows.T @ rows / len(rows)
        if missing.any():  # as in the EM algorithm: add the variance that the prediction leaves
            at = np.flatnonzero(missing & self.is_known)
            found[np.ix_(at, at)] += self._compute_rest(at, np.flatnonzero(~missing))
        self.n_cells += 1
        self._n_rows += len(rows)
        share = max(1.0 / self.n_cells, 1.0 / _MEMORY)
        self._covariance += share * (found - self._covariance)
        self._n_learned += ~missing
        share = max(1.0 / self.n_cells, 1.0 / _MEMORY_OF_LEVEL)
        first = (self._n_learned == 1) & ~missing
        self.level = np.where(first, mean, self.level + share * (mean - self.level))
        self._weights.clear()
        self._tests.clear()

    def predict(self, x: NDArray[Any], missing: Mask) -> NDArray[Any]:
        """Return the missing channels, (samples, missing channels), of the type of x.

        The result is the same to the bit however the samples are cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Values of missing channels do not matter.
        missing : ndarray of shape (channels,)
        """
        key = missing.tobytes()
        if key not in self._weights:
            self._weights[key] = self._compute_weights(missing)
        weights, offset = self._weights[key]
        given = np.ascontiguousarray(x[:, ~missing])
        out = np.empty((len(x), int(missing.sum())), x.dtype)
        samples.unmix(given, weights[None], offset, 0, out)
        return out

    def compute_deviations(self, x: NDArray[Any], left_out: Mask) -> Array:
        """Return how far samples are from what the other channels predict, (samples, channels).

        The unit is the usual standard deviation; 0 for channels that are left out or not known. The result
        is the same to the bit however the samples are cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
        left_out : ndarray of shape (channels,)
            Channels that do not take part; their values do not matter.
        """
        key = left_out.tobytes()
        channels = np.flatnonzero(~left_out & self.is_known)
        if key not in self._tests:
            scale, relation = self._scale(channels)
            with limit_blas_threads():
                precision = np.linalg.inv(relation)
            weights = precision / np.sqrt(np.diag(precision)) / scale[:, None]
            self._tests[key] = np.ascontiguousarray(weights), -self.level[channels] @ weights
        weights, offset = self._tests[key]
        given = np.ascontiguousarray(x[:, channels], dtype=np.float64)
        found, out = np.empty_like(given), np.zeros(x.shape)
        samples.unmix(given, weights[None], offset, 0, found)
        out[:, channels] = found
        return out

    def compute_errors(self, rows: Array, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return how far each of some channels is from what the others of them predict.

        Parameters
        ----------
        rows : ndarray of shape (samples, channels)
            Without their mean and slope.
        channels : ndarray of int

        Returns
        -------
        errors : ndarray of shape (samples, these channels)
        usual : ndarray of shape (these channels,)
            Standard deviation of the errors, by the covariance.
        """
        scale, relation = self._scale(channels)
        with limit_blas_threads():
            precision = np.linalg.inv(relation)
        power = np.diag(precision)
        errors = (rows[:, channels] / scale) @ precision / power
        return errors * scale, scale / np.sqrt(power)

    def compute_usual_error(self, channel: int, others: NDArray[np.int_]) -> float:
        """Return the standard deviation of a channel less its prediction; 0 if it is not known."""
        if not self.is_known[channel]:
            return 0.0
        variance = self._covariance[channel, channel]
        rest = float(self._compute_rest(np.array([channel]), others)[0, 0])
        return float(np.sqrt(max(rest, _LEAST_RIDGE * variance)))

    def compute_unexplained(self, channel: int, others: NDArray[np.int_]) -> float:
        """Return the share of a channel's variance that others do not explain; 0 if it is not known."""
        variance = float(self._covariance[channel, channel])
        return self.compute_usual_error(channel, others) ** 2 / variance if variance > 0 else 0.0

    def _compute_weights(self, missing: Mask) -> tuple[Array, Array]:
        """Return weights (others, missing channels) and offset of the prediction."""
        others, at = np.flatnonzero(~missing), np.flatnonzero(missing)
        weights = self._regress(at, others)
        # of a channel that was never good nothing is known: the mean of the others is at least not constant
        weights[:, ~self.is_known[at]] = 1.0 / len(others)
        return np.ascontiguousarray(weights), self.level[at] - self.level[others] @ weights

    def _regress(self, at: NDArray[np.int_], others: NDArray[np.int_]) -> Array:
        scale, relation = self._scale(others)
        cross = self._covariance[np.ix_(others, at)] / scale[:, None]
        with limit_blas_threads():
            return np.asarray(np.linalg.solve(relation, cross) / scale[:, None])

    def _compute_rest(self, at: NDArray[np.int_], others: NDArray[np.int_]) -> Array:
        """Return the covariance of channels that others do not explain."""
        covariance = self._covariance
        explained = covariance[np.ix_(at, others)] @ self._regress(at, others)
        return np.asarray(covariance[np.ix_(at, at)] - explained)

    def _scale(self, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return deviations of channels, and their correlation with a ridge."""
        covariance = self._covariance[np.ix_(channels, channels)]
        deviation = np.sqrt(np.diag(covariance))
        scale = np.where(deviation > 0, deviation, 1.0)
        ridge = max(_LEAST_RIDGE, _RIDGE * len(self.level) / max(self._n_rows, 1))
        return scale, covariance / np.outer(scale, scale) + ridge * np.eye(len(channels))
