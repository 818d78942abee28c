"""Remove slow drift from the copy of the channels that a structure is learned from.

Drift of electrodes and sensors has few independent cycles in a recording, but may have most of the
variance. It then dominates what is learned, although nothing can be learned from it. A high-pass filter
changes all channels alike, and leaves their mixing as it is: the unmixing matrix learned from the filtered
copy applies to the channels as they are.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_DRIFT_CYCLES = 16.0  # drift has fewer cycles in all samples ...
_MAX_DRIFT = 1.0 / 256.0  # ... and a period of at least 256 samples
_MIN_SHARE = 0.8  # of the variance of the median channel, for drift to be removed
_CYCLES = 64.0  # of the cutoff frequency in all samples
_ORDER = 2


def has_drift(channels: Array) -> bool:
    """Return whether drift dominates the variance of most channels, (channels, samples)."""
    n_samples = channels.shape[1]
    power = np.abs(np.fft.rfft(channels, axis=1)[:, 1:]) ** 2
    n_slow = int(min(_DRIFT_CYCLES, _MAX_DRIFT * n_samples))
    total = power.sum(axis=1)
    share = power[:, :n_slow].sum(axis=1) / np.where(total > 0.0, total, 1.0)
    return bool(np.median(share) > _MIN_SHARE)


def choose_cutoff(n_samples: int) -> float:
    """Return the frequency below which oscillations are removed, in cycles per sample."""
    return min(_CYCLES / n_samples, _MAX_DRIFT)


def remove_drift(channels: Array, breaks: Sequence[int]) -> None:
    """High-pass filter channels, (channels, samples), in place, without a shift in phase.

    Parameters
    ----------
    channels : ndarray of shape (channels, samples)
        The mean of each run is zero.
    breaks : sequence of int
        Indices of the first samples of runs after gaps, ascending; each run is filtered separately. Runs
        shorter than a period of the cutoff frequency are left as they are.
    """
    from scipy.signal import butter, sosfiltfilt  # half a second to import

    n_samples = channels.shape[1]
    cutoff = choose_cutoff(n_samples)
    sections = butter(_ORDER, 2.0 * cutoff, "highpass", output="sos")
    period = math.ceil(1.0 / cutoff)
    for start, stop in itertools.pairwise((0, *breaks, n_samples)):
        if stop - start > period:
            run = channels[:, start:stop]
            run[:] = sosfiltfilt(sections, run, axis=1, padlen=period)
