"""Design filters as second-order sections, and determine how long they ring."""

import numpy as np
import scipy  # scipy.signal is imported lazily: it takes half a second and 50 MB
from numpy.typing import NDArray

from igbss_stream.errors import ParameterError
from igbss_stream.preparation.settings import Preparation

SETTLED = 1e-12  # effect of the initial state after the settling time, relative to the largest sample

Sections = NDArray[np.float64]

_SHORTEST_RESPONSE, _LONGEST_RESPONSE = 1 << 12, 1 << 22  # samples that are searched for its peak


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
        Without sections if there is nothing to filter.
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


def compute_pulse_delay(sos: Sections) -> int:
    """Return the number of samples after which a pulse is largest when the filters have run forward.

    The delay of a filter depends on the frequency; this is one number for a signal of many frequencies.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    """
    n_samples = _SHORTEST_RESPONSE
    while len(sos):
        impulse = np.zeros(n_samples)
        impulse[0] = 1.0
        peak = int(np.argmax(np.abs(scipy.signal.sosfilt(sos, impulse))))
        if peak < n_samples // 4 or n_samples >= _LONGEST_RESPONSE:
            return peak
        n_samples *= 4
    return 0


def compute_padding(sos: Sections) -> int:
    """Return the number of samples by which `scipy.signal.sosfiltfilt` extends both ends.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    """
    taps = 2 * len(sos) + 1 - min(int(np.sum(sos[:, 2] == 0)), int(np.sum(sos[:, 5] == 0)))
    return 3 * taps


def compute_settling_time(sos: Sections, most: int) -> int:
    """Return the number of samples after which the initial state of a filter has no effect.

    Parameters
    ----------
    sos : array of shape (sections, 6)
    most : int
        Largest settling time.

    Returns
    -------
    int
        After it, the output differs by at most `SETTLED` times the largest sample for any initial state.

    Raises
    ------
    ParameterError
        If the settling time is longer than `most`.

    Notes
    -----
    Earlier samples affect the output through the rest of the impulse response. The sum of its magnitudes
    bounds the effect, and twice the sum does for a filter that starts in its steady state.
    """
    poles = np.abs(np.concatenate([np.roots(row[3:]) for row in sos]))
    slowest = float(poles.max())
    shortest = np.log(SETTLED) / np.log(slowest) if slowest > 0 else 1.0
    if shortest > most:
        raise _make_slow_filter_error(shortest, most)
    impulse = np.zeros(2 * int(shortest) + 64)  # multiple poles ring longer than a single one
    while True:
        impulse[0] = 1.0
        response = np.abs(scipy.signal.sosfilt(sos, impulse))
        rest = 2 * np.cumsum(response[::-1])[::-1]
        n_samples = int(np.argmax(rest <= SETTLED))
        if 0 < n_samples < len(rest) // 2 + 64:  # the response beyond the end is then negligible
            break
        if len(impulse) > 4 * most:
            break
        impulse = np.zeros(2 * len(impulse))
    if not 0 < n_samples <= most:
        raise _make_slow_filter_error(max(n_samples, shortest), most)
    return n_samples


def _make_slow_filter_error(n_samples: float, most: int) -> ParameterError:
    return ParameterError(
        f"the filters take {n_samples:.3g} samples to settle, and {most} fit into memory: "
        f"raise highpass by a factor of {np.ceil(2 * n_samples / most) / 2:g}, widen the notches, "
        "or select fewer channels."
    )
