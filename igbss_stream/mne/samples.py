"""Select the samples of a Raw or Epochs to learn from, by the parameters of `mne.preprocessing.ICA.fit`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import InputError, ParameterError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SampleChoice:
    """Which samples are used for learning; the parameters are those of `mne.preprocessing.ICA.fit`.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    start: Any = None
    stop: Any = None
    decim: Any = None
    reject: Any = None
    flat: Any = None
    tstep: Any = 2.0
    reject_by_annotation: Any = True

    def __post_init__(self) -> None:
        if self.decim is not None and not (_is_int(self.decim) and self.decim >= 1):
            raise ParameterError(
                f"decim must be an integer of at least 1, or None. Got {self.decim!r} instead."
            )
        if not (_is_real(self.tstep) and self.tstep > 0):
            raise ParameterError(f"tstep must be a positive number of seconds. Got {self.tstep!r} instead.")
        for name in ("start", "stop"):
            value = getattr(self, name)
            if value is not None and not (_is_real(value) and value >= 0):
                raise ParameterError(
                    f"{name} must be a sample (int) or a time in seconds (float), from 0, or None. "
                    f"Got {value!r} instead."
                )
        for name in ("reject", "flat"):
            _check_thresholds(name, getattr(self, name))

    @property
    def for_raw_only(self) -> list[str]:
        """Names of the parameters given that have no effect on Epochs."""
        return [name for name in ("start", "stop", "reject", "flat") if getattr(self, name) is not None]

    def read_raw(self, raw: Any, names: list[str]) -> tuple[Array, list[tuple[int, int]]]:
        """Return the samples of a Raw, (channels, samples), and the runs of samples that were rejected."""
        first = 0 if self.start is None else _find_sample(raw, self.start)
        last = raw.n_times if self.stop is None else min(_find_sample(raw, self.stop), raw.n_times)
        if first >= last:
            raise ParameterError(
                f"start = {self.start!r} and stop = {self.stop!r} select no samples of {raw.n_times}."
            )
        omit = "omit" if self.reject_by_annotation else None
        data = raw.get_data(names, first, last, reject_by_annotation=omit, verbose="ERROR")
        if not data.shape[1]:
            raise InputError("annotations mark all samples as bad. Pass reject_by_annotation=False.")
        data = data[:, :: self.decim or 1]
        if self.reject is None and self.flat is None:
            return data, []
        return self._drop_segments(data, raw, names)

    def read_epochs(self, epochs: Any, names: list[str]) -> Array:
        """Return the samples of Epochs, joined, (channels, samples)."""
        data = epochs.get_data(picks=names, copy=False, verbose="ERROR")
        if not data.size:
            raise InputError("there are no epochs, or all of them were dropped. See epochs.drop_log.")
        return np.hstack(data[:, :, :: self.decim or 1])

    def _drop_segments(
        self, data: Array, raw: Any, names: list[str]
    ) -> tuple[Array, list[tuple[int, int]]]:
        """Drop segments of `tstep` seconds with a peak-to-peak amplitude beyond the thresholds."""
        kinds = dict(zip(raw.ch_names, raw.get_channel_types(), strict=True))
        for name in ("reject", "flat"):
            unknown = sorted(set(getattr(self, name) or {}) - set(kinds.values()))
            if unknown:
                raise ParameterError(
                    f"{name} has a threshold for {unknown[0]!r}, but the recording has channels of type "
                    f"{', '.join(sorted(set(kinds.values())))} only."
                )
        types = [kinds[name] for name in names]
        most = np.array([(self.reject or {}).get(kind, np.inf) for kind in types])
        least = np.array([(self.flat or {}).get(kind, -np.inf) for kind in types])
        step = max(1, math.ceil(self.tstep * raw.info["sfreq"] / (self.decim or 1)))
        keep, dropped = np.ones(data.shape[1], bool), []
        for first in range(0, data.shape[1], step):
            last = min(first + step, data.shape[1])
            height = np.ptp(data[:, first:last], axis=1)
            if (height > most).any() or (height < least).any():
                keep[first:last] = False
                dropped.append((first, last))
        if not keep.any():
            raise InputError(
                f"reject = {self.reject!r} and flat = {self.flat!r} leave no segment of {self.tstep} s. "
                "Thresholds are in SI units, such as 150e-6 V."
            )
        return data[:, keep], dropped


def check_n_components(value: Any, n_channels: int) -> None:
    """Refuse a number of components that is not None, an integer or a share of the variance."""
    whole = _is_int(value) and 1 <= value <= n_channels
    share = _is_real(value) and not _is_int(value) and 0 < value < 1
    if value is not None and not whole and not share:
        raise ParameterError(
            f"n_components must be an integer from 1 to {n_channels} (the number of channels), a share of "
            f"the variance between 0 and 1 such as 0.99, or None. Got {value!r} instead."
        )


def count_components(data: Array, types: list[str], n_components: Any) -> int:
    """Return how many principal components explain a share of the variance, of types scaled alike.

    Parameters
    ----------
    data : ndarray of shape (channels, samples)
    types : list of str
    n_components : int or float
        A number, which is returned, or a share of the variance, to be exceeded as in MNE.
    """
    if _is_int(n_components):
        return int(n_components)
    centred, kinds = data - data.mean(axis=1, keepdims=True), np.array(types)
    for kind in np.unique(kinds):
        spread = centred[kinds == kind].std()
        centred[kinds == kind] /= spread if spread > 0 else 1.0
    variance = np.linalg.svd(centred @ centred.T, compute_uv=False)
    explained = np.cumsum(variance / variance.sum())
    count = min(int(np.sum(explained <= n_components)) + 1, len(data))
    if count == 1:
        raise ParameterError(
            f"n_components = {n_components!r} is reached by a single component, which explains "
            f"{explained[0]:.3f} of the variance. Pass a larger share, or a number of components."
        )
    return count


def _check_thresholds(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping) or not value:
        raise ParameterError(
            f"{name} must be a dict of channel types and peak-to-peak amplitudes in SI units, such as "
            f"{{'eeg': 150e-6}}, or None. Got {value!r} instead."
        )
    for kind, limit in value.items():
        if not (_is_real(limit) and limit >= 0):
            raise ParameterError(
                f"{name}[{kind!r}] must be an amplitude of at least 0 in SI units. Got {limit!r} instead."
            )


def _find_sample(raw: Any, value: Any) -> int:
    """Return a sample, from a sample (int) or seconds (float)."""
    return int(value) if _is_int(value) else int(raw.time_as_index(float(value))[0])


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
