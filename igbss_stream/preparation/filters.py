"""The filters as sections of second order, and how long they ring."""

import numpy as np
import scipy  # its parts are loaded where they are first used: signal takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation

SETTLED = (
    1e-12  # of the largest sample: what is left of the state of a filter after `compute_settling_time`
)

Sections = NDArray[np.float64]


def design_filters(preparation: Preparation, rate: float) -> Sections:
    """Return all filters as one cascade of second-order sections.

    Parameters
    ----------
    preparation : Preparation
    rate : float
        In Hz.

    Returns
    -------
    array of shape (sections, 6)
        No section if there is nothing to filter.
    """
    parts = [np.empty((0, 6))]
    for kind in ("highpass", "lowpass"):
        edge = getattr(preparation, kind)
        if edge is not None:
            parts.append(scipy.signal.butter(preparation.filter_order, edge, kind, output="sos", fs=rate))
    for frequency in preparation.notch:
        b, a = scipy.signal.iirnotch(frequency, frequency / preparation.notch_width, fs=rate)
        parts.append(scipy.signal.tf2sos(b, a))
    return np.concatenate(parts)


def compute_padding(sos: Sections) -> int:
    """Return by how many samples `scipy.signal.sosfiltfilt` extends both ends.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    """
    taps = 2 * len(sos) + 1 - min(int(np.sum(sos[:, 2] == 0)), int(np.sum(sos[:, 5] == 0)))
    return 3 * taps


def compute_settling_time(sos: Sections, most: int) -> int:
    """Return after how many samples a filter has forgotten in which state it began.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    most : int

    Returns
    -------
    int
        The output then differs by at most `SETTLED` times the largest sample, whatever came before.

    Raises
    ------
    ParameterError
        If there are more than `most`.

    Notes
    -----
    What came before shows in the output through the impulse response from there on, so the sum of its
    magnitudes bounds it; begun in the steady state, twice that.
    """
    poles = np.abs(np.concatenate([np.roots(row[3:]) for row in sos]))
    slowest = float(poles.max())
    shortest = np.log(SETTLED) / np.log(slowest) if slowest > 0 else 1.0
    if shortest > most:
        raise _make_slow_filter_error(shortest, most)
    impulse = np.zeros(2 * int(shortest) + 64)  # poles that lie together ring longer than one alone
    while True:
        impulse[0] = 1.0
        response = np.abs(scipy.signal.sosfilt(sos, impulse))
        rest = 2 * np.cumsum(response[::-1])[::-1]
        n_samples = int(np.argmax(rest <= SETTLED))
        if 0 < n_samples < len(rest) // 2 + 64:  # so that what lies beyond the end does not count
            break
        if len(impulse) > 4 * most:
            break
        impulse = np.zeros(2 * len(impulse))
    if not 0 < n_samples <= most:
        raise _make_slow_filter_error(max(n_samples, shortest), most)
    return n_samples


def _make_slow_filter_error(n_samples: float, most: int) -> ParameterError:
    return ParameterError(
        f"the filters take {n_samples:.3g} samples to settle, and {most} fit into memory: raise the edge "
        f"of highpass by a factor of {np.ceil(2 * n_samples / most) / 2:g}, widen the notches, or take "
        "fewer channels."
    )
