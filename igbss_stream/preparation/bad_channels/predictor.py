"""Predict channels from the other channels, by the covariance of the stream.

The prediction is the linear one with the least mean square error. Since sources are a linear map of the
channels, separating predicted channels gives the best linear estimate of the sources from the channels that
are left: the same as an unmixing matrix made for these channels, with order, sign and scale of the sources.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.bad_channels.memory import ChannelMemory
from igbss_stream.bad_channels.splines import SphericalSplines
from igbss_stream.model.kernels import samples

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_UNEXPLAINED = 0.5
"""Share of the variance of a channel; if the others explain less, a deviation from them means little."""

_MEMORY = 60.0  # cells over which the covariance is learned
_MEMORY_OF_LEVEL = 4.0  # cells over which the level of a channel is learned
_RIDGE = 0.01  # of the number of channels per sample
_LEAST_RIDGE = 1e-6


@dataclass(frozen=True)
class DeviationTest:
    """A linear map from samples to their deviations from the prediction by the others.

    Parameters
    ----------
    channels : ndarray of int, of shape (used,)
        Channels that take part.
    weights : ndarray of shape (1, used, used)
    offset : ndarray of shape (used,)
    unexplained : ndarray of shape (used,)
        Share of the variance of each channel that the others do not explain.
    """

    channels: NDArray[np.int_]
    weights: Array
    offset: Array
    unexplained: Array


class ChannelPredictor:
    """Covariance of the channels, and the prediction of some of them from the others.

    It does not change: `learn` returns another one.

    Parameters
    ----------
    n_channels : int
    splines : SphericalSplines, optional
        Interpolate channels of which nothing is known.
    prefers_splines : bool
        Whether splines interpolate all channels that they can.

    Attributes
    ----------
    n_cells, n_rows : int
        Number of cells that were learned from, and of their samples.
    level : ndarray of shape (channels,)
        Recent mean of each channel.
    covariance : ndarray of shape (channels, channels)
    n_learned : ndarray of shape (channels,)
        Number of cells in which a channel was good, and moved.
    """

    def __init__(
        self, n_channels: int, splines: SphericalSplines | None = None, *, prefers_splines: bool = False
    ) -> None:
        self.n_cells = self.n_rows = 0
        self.level = np.zeros(n_channels)
        self.covariance = np.zeros((n_channels, n_channels))
        self.n_learned = np.zeros(n_channels, np.int64)
        self._splines, self._prefers_splines = splines, prefers_splines
        self._weights: dict[bytes, tuple[Array, Array]] = {}
        self._precisions: dict[bytes, tuple[Array, Array]] = {}
        self._tests: dict[bytes, DeviationTest] = {}

    def restore(self, memory: ChannelMemory) -> "ChannelPredictor":
        """Return what an earlier run has learned."""
        after = self._begin_anew()
        after.n_cells, after.n_rows = memory.n_cells, memory.n_rows
        after.level, after.covariance = memory.table["level"].copy(), memory.covariance
        after.n_learned = memory.table["n_good"].copy()
        return after

    def _begin_anew(self) -> "ChannelPredictor":
        return ChannelPredictor(len(self.level), self._splines, prefers_splines=self._prefers_splines)

    @property
    def is_known(self) -> Mask:
        """Which channels have been good for a cell, and moved."""
        return np.asarray((self.n_learned > 0) & (np.diag(self.covariance) > 0))

    def learn(self, rows: Array, mean: Array, missing: Mask) -> "ChannelPredictor":
        """Return what is known after another cell.

        Parameters
        ----------
        rows : ndarray of shape (samples, channels)
            Without their mean and slope. Missing channels are predicted ones.
        mean : ndarray of shape (channels,)
            Mean of the cell.
        missing : ndarray of shape (channels,)
            Which channels were predicted. What is known of their relation to the others is kept.
        """
        with limit_blas_threads():
            found = rows.T @ rows / len(rows)
        if missing.any():  # as in the EM algorithm: add the variance that the prediction leaves
            at = np.flatnonzero(missing & self.is_known)
            found[np.ix_(at, at)] += self._compute_rest(at, np.flatnonzero(~missing))
        after = self._begin_anew()
        after.n_cells, after.n_rows = self.n_cells + 1, self.n_rows + len(rows)
        share = max(1.0 / after.n_cells, 1.0 / _MEMORY)
        after.covariance = self.covariance + share * (found - self.covariance)
        has_shown = ~missing & (np.diag(found) > 0)
        after.n_learned = self.n_learned + has_shown
        share = max(1.0 / after.n_cells, 1.0 / _MEMORY_OF_LEVEL)
        first = (after.n_learned == 1) & has_shown
        after.level = np.where(first, mean, self.level + share * (mean - self.level))
        return after

    def prepare(self, missing: Mask) -> None:
        """Compute what is needed while some channels are missing, before samples wait for it."""
        self.get_test(missing)
        if missing.any():
            self._get_weights(missing)

    def predict(self, x: NDArray[Any], missing: Mask) -> NDArray[Any]:
        """Return the missing channels, (samples, missing channels), of the type of x.

        The result is the same to the bit however the samples are cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Values of missing channels do not matter.
        missing : ndarray of shape (channels,)
        """
        weights, offset = self._get_weights(missing)
        given = np.ascontiguousarray(x[:, ~missing])
        out = np.empty((len(x), weights.shape[2]), x.dtype)
        samples.unmix(given, weights, offset, 0, out)
        return out

    def get_test(self, left_out: Mask) -> DeviationTest:
        """Return how to compare samples with what the other channels predict.

        Parameters
        ----------
        left_out : ndarray of shape (channels,)
            Channels that do not take part, besides those that are not known.
        """
        key = left_out.tobytes()
        if key not in self._tests:
            channels = np.flatnonzero(~left_out & self.is_known)
            scale, precision = self._get_precision(channels)
            weights = precision / np.sqrt(np.diag(precision)) / scale[:, None]
            offset = -self.level[channels] @ weights
            weights = np.ascontiguousarray(weights[None])
            self._tests[key] = DeviationTest(channels, weights, offset, 1.0 / np.diag(precision))
        return self._tests[key]

    def compute_deviations(self, x: NDArray[Any], test: DeviationTest) -> NDArray[Any]:
        """Return how far samples are from what the other channels predict, (samples, used channels).

        The unit is the usual standard deviation. The result is the same to the bit however the samples are
        cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Values of channels that do not take part do not matter.
        test : DeviationTest
        """
        is_whole = len(test.channels) == x.shape[1]
        given = np.ascontiguousarray(x if is_whole else x[:, test.channels])
        out = np.empty_like(given)
        samples.unmix(given, test.weights, test.offset, 0, out)
        return out

    def compute_errors(self, rows: Array, channels: NDArray[np.int_]) -> tuple[Array, Array, Array]:
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
        unexplained : ndarray of shape (these channels,)
            Share of the variance of each channel that the others do not explain.
        """
        scale, precision = self._get_precision(channels)
        power = np.diag(precision)
        with limit_blas_threads():
            errors = (rows[:, channels] / scale) @ precision / power
        return errors * scale, scale / np.sqrt(power), 1.0 / power

    def compute_usual_error(self, channel: int, others: NDArray[np.int_]) -> float:
        """Return the standard deviation of a channel less its prediction; 0 if it is not known."""
        if not self.is_known[channel]:
            return 0.0
        variance = self.covariance[channel, channel]
        rest = float(self._compute_rest(np.array([channel]), others)[0, 0])
        return float(np.sqrt(max(rest, _LEAST_RIDGE * variance)))

    def compute_unexplained(self, channel: int, others: NDArray[np.int_]) -> float:
        """Return the share of a channel's variance that others do not explain; 0 if it is not known."""
        variance = float(self.covariance[channel, channel])
        return self.compute_usual_error(channel, others) ** 2 / variance if variance > 0 else 0.0

    def _get_weights(self, missing: Mask) -> tuple[Array, Array]:
        """Return weights (1, others, missing channels) and offset of the prediction."""
        key = missing.tobytes()
        if key not in self._weights:
            self._weights[key] = self._compute_weights(missing)
        return self._weights[key]

    def _compute_weights(self, missing: Mask) -> tuple[Array, Array]:
        others, at = np.flatnonzero(~missing), np.flatnonzero(missing)
        weights, is_known = self._regress(at, others), self.is_known[at]
        # of a channel that was never good nothing is known: the mean of the others is at least not constant
        weights[:, ~is_known] = 1.0 / len(others)
        level = self.level[at].copy()
        if self._splines is not None:
            for j in np.flatnonzero(self._prefers_splines | ~is_known):
                if self._splines.can_interpolate(at[[j]], others):
                    weights[:, j] = self._splines.compute_weights(at[[j]], others)[:, 0]
                    level[j] = level[j] if is_known[j] else self.level[others] @ weights[:, j]
        return np.ascontiguousarray(weights[None]), level - self.level[others] @ weights

    def _regress(self, at: NDArray[np.int_], others: NDArray[np.int_]) -> Array:
        scale, relation = self._scale(others)
        cross = self.covariance[np.ix_(others, at)] / scale[:, None]
        with limit_blas_threads():
            return np.asarray(np.linalg.solve(relation, cross) / scale[:, None])

    def _get_precision(self, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return deviations of channels, and the inverse of their correlation."""
        key = channels.tobytes()
        if key not in self._precisions:
            scale, relation = self._scale(channels)
            with limit_blas_threads():
                self._precisions[key] = scale, np.asarray(np.linalg.inv(relation), np.float64)
        return self._precisions[key]

    def _compute_rest(self, at: NDArray[np.int_], others: NDArray[np.int_]) -> Array:
        """Return the covariance of channels that others do not explain."""
        covariance = self.covariance
        explained = covariance[np.ix_(at, others)] @ self._regress(at, others)
        return np.asarray(covariance[np.ix_(at, at)] - explained)

    def _scale(self, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return deviations of channels, and their correlation with a ridge."""
        covariance = self.covariance[np.ix_(channels, channels)]
        deviation = np.sqrt(np.diag(covariance))
        scale = np.where(deviation > 0, deviation, 1.0)
        ridge = max(_LEAST_RIDGE, _RIDGE * len(self.level) / max(self.n_rows, 1))
        return scale, covariance / np.outer(scale, scale) + ridge * np.eye(len(channels))
