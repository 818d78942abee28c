"""Predict channels from the other channels, by the covariance of the stream.

The prediction is the linear one with the least mean square error, from the present samples of the other
channels and a few earlier ones: sources are smoother than noise. Since sources are a linear map of the
channels, separating predicted channels gives the best linear estimate of the sources from the channels that
are left: the same as an unmixing matrix made for these channels, with order, sign and scale of the sources.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.blas_threads import limit_blas_threads
from igbss_stream.bad_channels.memory import ChannelMemory, count_lags
from igbss_stream.bad_channels.splines import SphericalSplines
from igbss_stream.model.kernels import channels, samples

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_UNEXPLAINED = 0.5
"""Share of the variance of a channel; if the others explain less, a deviation from them means little."""

FEWEST_CELLS = 2
"""Number of cells before which nothing is known of deviations from what the others predict."""

_MEMORY = 12.0  # cells over which the covariance is learned ...
_EVERY = 8  # ... of which, once there are as many, each eighth is used
_MEMORY_OF_LEVEL = 4.0  # cells over which the level of a channel is learned
_MOST_ROWS = 256  # of a cell that are used: enough, and the cost is bounded at any rate
_N_RUNS = 4  # of these, to learn how samples are related to those before them
_GOLDEN_RATIO = (5**0.5 - 1) / 2
_RIDGE = 0.01  # of the number of channels per sample
_LEAST_RIDGE = 1e-6
_ROUNDING = 1e-13  # of the mean of a channel: one that moves less is constant


@cache
def pick_rows(n: int) -> NDArray[np.int_]:
    """Return which samples of a cell are judged: at most 256, spread over it.

    Their distances differ, so that they are no period of a signal.
    """
    if n <= _MOST_ROWS:
        return np.arange(n)
    return np.unique((np.arange(_MOST_ROWS) * _GOLDEN_RATIO % 1.0 * n).astype(np.int64))


def _pick_runs(n: int, cell: int) -> NDArray[np.int_]:
    """Return the samples of a cell that are learned from, (runs, samples of a run): at most 256 in all.

    They are others in each cell.
    """
    if n <= _MOST_ROWS:
        return np.arange(n)[None]
    length = _MOST_ROWS // _N_RUNS
    free = n // _N_RUNS - length
    starts = np.arange(_N_RUNS) * (n // _N_RUNS) + int(cell * _GOLDEN_RATIO % 1.0 * (free + 1))
    return starts[:, None] + np.arange(length)


@dataclass(frozen=True)
class DeviationTest:
    """A linear map from samples to their deviations from the prediction by the others.

    Parameters
    ----------
    channels : ndarray of int, of shape (used,)
        Channels that take part.
    weights : ndarray of shape (1, used, used)
    explained : ndarray of int, of shape (explained,)
        Those of them that the others explain.
    screen_weights : ndarray of float32, of shape (all channels, explained)
        The weights of these, with rows of zeros for what does not take part, as
        `igbss_stream.model.kernels.channels.find_far` expects them.
    level : ndarray of shape (all channels,)
    """

    channels: NDArray[np.int_]
    weights: Array
    explained: NDArray[np.int_]
    screen_weights: NDArray[np.float32]
    level: Array

    @cached_property
    def offset(self) -> Array:
        """Deviation of a sample of zeros, (used,)."""
        return np.asarray(-(self.level[self.channels] @ self.weights[0]))


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
    n_lags : int
        Number of samples that a prediction uses, the present one included.
    lagged : ndarray of shape (n_lags, channels, channels)
        Covariance of the channels with the channels k samples earlier.
    n_learned : ndarray of shape (channels,)
        Number of cells in which a channel was good, and moved.
    """

    def __init__(
        self, n_channels: int, splines: SphericalSplines | None = None, *, prefers_splines: bool = False
    ) -> None:
        self.n_cells = self.n_rows = 0
        self.level = np.zeros(n_channels)
        self.n_lags = count_lags(n_channels)
        self.lagged = np.zeros((self.n_lags, n_channels, n_channels))
        self.n_learned = np.zeros(n_channels, np.int64)
        self._splines, self._prefers_splines = splines, prefers_splines
        self._weights: dict[tuple[bytes, bool], tuple[Array, Array]] = {}
        self._regressions: dict[tuple[bytes, bool], Array] = {}
        self._precisions: dict[bytes, tuple[Array, Array]] = {}
        self._maps: dict[bytes, DeviationTest] = {}  # for any level
        self._tests: dict[bytes, DeviationTest] = {}

    def restore(self, memory: ChannelMemory) -> "ChannelPredictor":
        """Return what an earlier run has learned."""
        after = self._begin_anew()
        after.n_cells, after.n_rows = memory.n_cells, memory.n_rows
        after.level, after.lagged = memory.table["level"].copy(), memory.covariance
        after.n_learned = memory.table["n_good"].copy()
        return after

    def _begin_anew(self) -> "ChannelPredictor":
        return ChannelPredictor(len(self.level), self._splines, prefers_splines=self._prefers_splines)

    @property
    def is_known(self) -> Mask:
        """Which channels have been good for a cell, and moved."""
        return np.asarray((self.n_learned > 0) & (np.diag(self.covariance) > 0))

    def learn(self, x: NDArray[Any], mean: Array, missing: Mask) -> "ChannelPredictor":
        """Return what is known after another cell.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Finite. Missing channels are predicted ones. At most 256 samples are used.
        mean : ndarray of shape (channels,)
            Mean of the cell.
        missing : ndarray of shape (channels,)
            Which channels were predicted. What is known of their relation to the others is kept.
        """
        found, n_used = self._relate(x, mean)
        if missing.any():  # as in the EM algorithm: add the variance that the prediction leaves
            at = np.flatnonzero(missing & self.is_known)
            found[0][np.ix_(at, at)] += self._compute_rest(at, np.flatnonzero(~missing), self.n_lags)
        after = self._begin_anew()
        after.n_cells, after.n_rows = self.n_cells + 1, self.n_rows + n_used
        share = max(1.0 / after.n_cells, 1.0 / _MEMORY)
        after.lagged = self.lagged + share * (found - self.lagged)
        has_shown = ~missing & (np.diag(found[0]) > 0)
        after.n_learned = self.n_learned + has_shown
        first = (after.n_learned == 1) & has_shown
        after.level = np.where(first, mean, self._follow_level(mean))
        return after

    def _relate(self, x: NDArray[Any], mean: Array) -> tuple[Array, int]:
        """Return the covariance of samples with those k earlier, (lags, channels, channels).

        Straight lines are removed. Zeros between the runs make it that of some signal: the system of a
        prediction is then never indefinite. The number of samples is returned as well.
        """
        runs = _pick_runs(len(x), self.n_cells)
        n = runs.size
        lines = np.column_stack((np.ones(n), runs.ravel() - runs.mean()))
        lines /= np.sqrt((lines**2).sum(axis=0))
        rows = x[runs.ravel()] - mean
        rows[:, np.abs(rows).max(axis=0) <= _ROUNDING * np.abs(mean)] = 0.0
        padded = np.zeros((len(runs), runs.shape[1] + self.n_lags - 1, len(mean)))
        with limit_blas_threads():
            padded[:, : runs.shape[1]] = (rows - lines @ (lines.T @ rows)).reshape(*runs.shape, -1)
            rows = padded.reshape(-1, len(mean))
            found = [rows[k:].T @ rows[: len(rows) - k] for k in range(self.n_lags)]
        return np.stack(found) / n, n

    @property
    def needs_cell(self) -> bool:
        """Whether to learn from the next cell; otherwise its level is enough."""
        return self.n_cells < _MEMORY or self.n_cells % _EVERY == 0

    def follow(self, mean: Array) -> "ChannelPredictor":
        """Return what is known after a cell of which only the level is taken.

        Parameters
        ----------
        mean : ndarray of shape (channels,)
            Mean of the cell.
        """
        after = copy(self)
        after.n_cells, after.level = self.n_cells + 1, self._follow_level(mean)
        after._weights, after._tests = {}, {}
        return after

    def _follow_level(self, mean: Array) -> Array:
        share = max(1.0 / (self.n_cells + 1), 1.0 / _MEMORY_OF_LEVEL)
        return self.level + share * (mean - self.level)

    def prepare(self, missing: Mask) -> None:
        """Compute what is needed while some channels are missing, before samples wait for it."""
        self.get_test(missing)
        if missing.any():
            self._get_weights(missing, with_past=True)

    def predict(self, x: NDArray[Any], missing: Mask, past: Sequence[NDArray[Any]] = ()) -> NDArray[Any]:
        """Return the missing channels, (samples, missing channels), of the type of x.

        The result is the same to the bit however the samples are cut into calls.

        Parameters
        ----------
        x : ndarray of shape (samples, channels)
            Values of missing channels do not matter.
        missing : ndarray of shape (channels,)
        past : sequence of ndarray of shape (samples, channels)
            The samples one earlier, two earlier and so on, `n_lags` - 1 arrays, which make the prediction
            better. Values of missing channels do not matter.
        """
        weights, offset = self._get_weights(missing, with_past=len(past) > 0)
        given = np.ascontiguousarray(np.hstack([rows[:, ~missing] for rows in (x, *past)]))
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
            if key not in self._maps:
                self._maps[key] = self._make_test(np.flatnonzero(~left_out & self.is_known))
            self._tests[key] = replace(self._maps[key], level=self.level)
        return self._tests[key]

    def _make_test(self, used: NDArray[np.int_]) -> DeviationTest:
        scale, precision = self._get_precision(used)
        power, n_channels = np.diag(precision), len(self.level)
        weights = precision / np.sqrt(power) / scale[:, None]
        is_explained = (1.0 / power <= MOST_UNEXPLAINED) & (self.n_cells >= FEWEST_CELLS)
        screen = np.zeros(
            (-(-n_channels // channels.ROWS) * channels.ROWS, int(is_explained.sum())), np.float32
        )
        with np.errstate(
            over="ignore"
        ):  # of what is as good as constant: infinite weights let nothing pass
            screen[used] = weights[:, is_explained]
        weights = np.ascontiguousarray(weights[None])
        return DeviationTest(used, weights, used[is_explained], screen, self.level)

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

    @property
    def covariance(self) -> Array:
        """Covariance of the channels, (channels, channels)."""
        return np.asarray(self.lagged[0])

    def _get_weights(self, missing: Mask, *, with_past: bool) -> tuple[Array, Array]:
        """Return weights (1, others at all lags, missing channels) and offset of the prediction."""
        key = missing.tobytes(), with_past
        if key in self._weights:
            return self._weights[key]
        n_lags = self.n_lags if with_past else 1
        if key not in self._regressions:
            self._regressions[key] = self._compute_weights(missing, n_lags)
        weights, at = self._regressions[key], np.flatnonzero(missing)
        explained = np.tile(self.level[~missing], n_lags) @ weights[0]
        level = np.where(self.is_known[at], self.level[at], explained)
        self._weights[key] = weights, level - explained
        return self._weights[key]

    def _compute_weights(self, missing: Mask, n_lags: int) -> Array:
        others, at = np.flatnonzero(~missing), np.flatnonzero(missing)
        n, is_known = len(others), self.is_known[at]
        weights = self._regress(at, others, n_lags)
        # of a channel that was never good nothing is known: the mean of the others is at least not constant
        weights[:, ~is_known] = 0.0
        weights[:n, ~is_known] = 1.0 / n
        for j in np.flatnonzero(self._prefers_splines | ~is_known):
            if self._splines is not None and self._splines.can_interpolate(at[[j]], others):
                weights[:, j] = 0.0
                weights[:n, j] = self._splines.compute_weights(at[[j]], others)[:, 0]
        return np.ascontiguousarray(weights[None])

    def _regress(self, at: NDArray[np.int_], others: NDArray[np.int_], n_lags: int = 1) -> Array:
        """Return the weights of channels, and of these at earlier samples, in some channels."""
        n = len(others)
        scale, relation = self._scale(others)
        system = np.tile(relation, (n_lags, n_lags))
        cross = np.empty((n_lags * n, len(at)))
        cross[:n] = self.covariance[np.ix_(others, at)] / scale[:, None]
        for k in range(1, n_lags):
            earlier = self.lagged[k][np.ix_(others, others)] / np.outer(scale, scale)
            for i in range(n_lags - k):
                rows, columns = slice(i * n, (i + 1) * n), slice((i + k) * n, (i + k + 1) * n)
                system[rows, columns], system[columns, rows] = earlier, earlier.T
            cross[k * n : (k + 1) * n] = self.lagged[k][np.ix_(at, others)].T / scale[:, None]
        with limit_blas_threads():
            return np.asarray(np.linalg.solve(system, cross) / np.tile(scale, n_lags)[:, None])

    def _get_precision(self, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return deviations of channels, and the inverse of their correlation."""
        key = channels.tobytes()
        if key not in self._precisions:
            scale, relation = self._scale(channels)
            with limit_blas_threads():
                self._precisions[key] = scale, np.asarray(np.linalg.inv(relation), np.float64)
        return self._precisions[key]

    def _compute_rest(self, at: NDArray[np.int_], others: NDArray[np.int_], n_lags: int = 1) -> Array:
        """Return the covariance of channels that others do not explain."""
        cross = np.hstack([self.lagged[k][np.ix_(at, others)] for k in range(n_lags)])
        return np.asarray(self.covariance[np.ix_(at, at)] - cross @ self._regress(at, others, n_lags))

    def _scale(self, channels: NDArray[np.int_]) -> tuple[Array, Array]:
        """Return deviations of channels, and their correlation with a ridge."""
        covariance = self.covariance[np.ix_(channels, channels)]
        deviation = np.sqrt(np.diag(covariance))
        scale = np.where(deviation > 0, deviation, 1.0)
        ridge = max(_LEAST_RIDGE, _RIDGE * len(self.level) / max(self.n_rows, 1))
        return scale, covariance / np.outer(scale, scale) + ridge * np.eye(len(channels))
