"""Survey the channels of a recording in one pass, window by window, in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.bad_channels.findings import Array, BadChannel, BadChannelLimits, SurveyedChannels
from igbss_stream.bad_channels.findings import judge_channels as judge
from igbss_stream.bad_channels.measures import WindowMeasures, measure_window
from igbss_stream.bad_channels.rails import RailCount

_WINDOW = 2.0  # seconds: a few waves of the slowest rhythm of an EEG
_FEWEST_ROWS = 64  # in a window
_ROWS_WITHOUT_RATE = 500
_LARGEST = 1e100  # samples beyond it are no measurement, and their squares may not be finite
_MOST_WINDOWS = 300  # measured; of a longer recording, evenly spaced ones


class ChannelSurvey:
    """Statistics of the channels of a recording that arrives block by block.

    Windows of two seconds are measured, at most 300 of them, evenly spaced. The result does not depend on
    the size of the blocks.

    Parameters
    ----------
    names : sequence of str
    rate : float or None
        In Hz.
    n_samples : int
        Number of samples to come.
    types : sequence of str
        Types of the channels; only channels of the same type are compared. Empty if unknown.
    unit : str, optional
    """

    def __init__(
        self,
        names: Sequence[str],
        rate: float | None,
        n_samples: int,
        *,
        types: Sequence[str] = (),
        unit: str | None = None,
    ) -> None:
        self._names, self._rate, self._unit = tuple(names), rate, unit
        known = types if len(types) == len(names) else [""] * len(names)
        self._groups = np.unique(np.asarray(known, np.str_), return_inverse=True)[1]
        n_rows = _ROWS_WITHOUT_RATE if rate is None else max(_FEWEST_ROWS, round(_WINDOW * rate))
        self._n_rows = max(3, min(n_rows, n_samples))
        self._every = max(1, -(-(n_samples // self._n_rows) // _MOST_WINDOWS))
        self._pending: list[NDArray[Any]] = []
        self._n_pending, self._n_windows, self._n_seen = 0, 0, 0
        self._rails = RailCount(len(names))
        self._n_missing = np.zeros(len(names), np.int64)
        self._measures: list[WindowMeasures] = []
        self._is_measured: list[NDArray[np.bool_]] = []

    def update(self, x: NDArray[Any]) -> None:
        """Take in the next block, (samples, channels)."""
        if not len(x):
            return
        self._n_seen += len(x)
        missing = ~np.isfinite(x) | ((np.abs(x) > _LARGEST) if x.dtype == np.float64 else False)
        if missing.any():
            self._n_missing += missing.sum(axis=0)
            x = np.where(missing, np.nan, x)
        self._rails.update(x)
        while len(x):
            part, x = x[: self._n_rows - self._n_pending], x[self._n_rows - self._n_pending :]
            self._n_pending += len(part)
            if self._n_windows % self._every == 0:
                self._pending.append(part.copy())
            if self._n_pending == self._n_rows:
                self._finish_window()

    def finish(self, limits: BadChannelLimits | None = None) -> tuple[BadChannel, ...]:
        """Return the faults of channels.

        Parameters
        ----------
        limits : BadChannelLimits, optional
        """
        return judge(self.summarize(), limits) if self._measures else ()

    def summarize(self) -> SurveyedChannels:
        """Return the statistics of the samples so far; at least one window must be complete."""
        valid = np.array(self._is_measured)
        spread, noise, hum = (
            _mask(np.array([getattr(window, name) for window in self._measures]), valid)
            for name in ("spread", "noise", "hum")
        )
        is_flat = _ignore_common(np.array([window.is_flat for window in self._measures]) & valid)
        weight = np.maximum(valid.T.astype(float) @ valid, 1.0)
        correlation = sum(window.correlation for window in self._measures) / weight
        np.fill_diagonal(correlation, 1.0)
        n_seen = max(self._n_seen, 1)
        return SurveyedChannels(
            names=self._names,
            groups=self._groups,
            unit=self._unit,
            missing=self._n_missing / n_seen,
            flat=is_flat.sum(axis=0) / np.maximum(valid.sum(axis=0), 1),
            railed=self._rails.n_repeated / n_seen,
            spread=_take_medians(spread),
            noise=_take_medians(noise),
            hum=_take_medians(hum),
            relative_noise=_take_medians(self._relate(noise)),
            relative_hum=_take_medians(self._relate(hum)),
            correlation=correlation,
            difference=np.median([window.difference for window in self._measures], axis=0),
            n_samples=len(self._measures) * self._n_rows,
        )

    def _finish_window(self) -> None:
        if self._pending:
            x = np.concatenate(self._pending)
            is_finite = np.isfinite(x).all(axis=0)
            if not is_finite.all():
                x = np.where(is_finite, x, 0)
            measures = measure_window(x, self._rate)
            self._measures.append(measures)
            self._is_measured.append(is_finite)
        self._pending, self._n_pending = [], 0
        self._n_windows += 1

    def _relate(self, values: Array) -> Array:
        """Return measures as multiples of the median of the channels of the same group, per window."""
        ratios = np.full_like(values, np.nan)
        for group in np.unique(self._groups):
            members = self._groups == group
            usual = _take_medians(values[:, members].T)[:, None]
            floor = 1e-3 * _take_medians(_take_medians(values[:, members])[:, None])
            with np.errstate(divide="ignore", invalid="ignore"):
                ratios[:, members] = values[:, members] / np.fmax(usual, floor)
        return ratios


def _ignore_common(is_flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which windows are flat, but for those that are the fault of no channel.

    These are windows in which half of the channels are flat that ever move, and single windows between
    others that move: a coarse resolution may hold a slow wave for two seconds.
    """
    moving = ~is_flat.all(axis=0)
    is_common = is_flat[:, moving].mean(axis=1) >= 0.5 if moving.any() else np.zeros(len(is_flat), bool)
    is_flat = np.where(is_common[:, None], ~moving, is_flat)
    near = np.pad(is_flat, ((1, 1), (0, 0)))
    return is_flat & (near[:-2] | near[2:] | (len(is_flat) == 1))


def _mask(values: Array, valid: NDArray[np.bool_]) -> Array:
    return np.asarray(np.where(valid & (values > 0), values, np.nan))


def _take_medians(values: Array) -> Array:
    """Return the median of each column without NaN; NaN for a column without other values."""
    medians = np.full(values.shape[1], np.nan)
    known = np.isfinite(values).any(axis=0)
    medians[known] = np.nanmedian(values[:, known], axis=0)
    return medians
