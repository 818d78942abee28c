"""What tools/bench_eeg.py measures of a decomposition; channels and sources are (samples, columns).

None of these measures knows the truth: a recording has none. A separation is held to be better if less
information is shared between its sources, if more of its maps are those of single dipoles, and if the
same maps come out of both halves of the recording.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from igbss_stream._util.electrodes import find_positions

Array = NDArray[np.float64]

BINS = 24  # of the ranks of a source, for mutual information
LEAST_ELECTRODES = 10  # for dipoles: a dipole has six parameters
_HEAD = 0.095  # m, radius of the head that standard positions are put on


def estimate_entropy(values: Array) -> float:
    """Return the differential entropy of a sample in nats, from the distances between its order statistics.

    The density at a place is 2 m / n over the distance from the m-th smaller to the m-th larger value
    (Vasicek), here with m = sqrt(n) / 2; near the ends, where there are fewer neighbours, by their number
    (Ebrahimi). Equal values count as the smallest distance that occurs.
    """
    ordered, n = np.sort(values), len(values)
    m = max(1, round(0.5 * math.sqrt(n)))
    places = np.arange(n)
    lower, upper = np.maximum(places - m, 0), np.minimum(places + m, n - 1)
    distance = ordered[upper] - ordered[lower]
    if not distance.any():
        return -math.inf
    distance = np.maximum(distance, distance[distance > 0].min())
    return float(np.mean(np.log(distance * n / (upper - lower))))


def compute_mir(x: Array, y: Array, unmixing: Array, rate: float) -> float | None:
    """Return the mutual information that a separation removes, in kbit/s; more is better.

    The sum of entropies of the channels, less that of the sources, plus log |det W| (Delorme and others,
    2012). None where there are fewer sources than channels: W has no determinant then.
    """
    if unmixing.shape[0] != unmixing.shape[1]:
        return None
    before, after = (sum(estimate_entropy(column) for column in each.T) for each in (x, y))
    nats = before - after + float(np.linalg.slogdet(unmixing).logabsdet)
    return nats * rate / math.log(2.0) / 1000.0


def compute_pairwise_information(y: Array) -> float:
    """Return the mean mutual information of two columns, in nats, from a histogram of their ranks.

    The bias of a histogram with independent samples, (bins - 1)^2 / (2 samples), is subtracted. Within a
    bin all is held to be independent: of strong dependence, a few per cent are missed.
    """
    n_samples, n = y.shape
    ranks = y.argsort(axis=0).argsort(axis=0)
    codes = ranks * BINS // n_samples
    share = np.bincount(np.arange(n_samples) * BINS // n_samples, minlength=BINS) / n_samples
    expected = np.outer(share, share).ravel()
    total = 0.0
    for i in range(n - 1):
        for j in range(i + 1, n):
            found = np.bincount(codes[:, i] * BINS + codes[:, j], minlength=BINS * BINS) / n_samples
            some = found > 0
            total += float(np.sum(found[some] * np.log(found[some] / expected[some])))
    return float(total / (n * (n - 1) / 2) - (BINS - 1) ** 2 / (2 * n_samples))


def find_largest_correlation(y: Array) -> float:
    """Return the largest absolute correlation of two columns."""
    return float(np.abs(np.corrcoef(y.T) - np.eye(y.shape[1])).max())


def find_maps(unmixing: Array) -> Array:
    """Return the maps of sources, (channels, sources)."""
    return np.asarray(np.linalg.pinv(unmixing))


def match_maps(one: Array, other: Array) -> float:
    """Return the mean |cosine| of maps, (channels, sources), that are assigned to each other."""
    one, other = (each / np.linalg.norm(each, axis=0) for each in (one, other))
    similar = np.abs(one.T @ other)
    best: Array = similar[linear_sum_assignment(similar, maximize=True)]
    return float(best.mean())


def place_channels(path: Path, names: Sequence[str]) -> tuple[dict[int, Array], str]:
    """Return positions of electrodes in metres, by channel, and where they are from.

    Those in a file that MNE reads come first; otherwise names of the 10-20 system have standard ones.
    """
    measured = dict(_read_positions(path, names))
    if len(measured) >= LEAST_ELECTRODES:
        return measured, "of the file"
    standard = {i: _HEAD * position for i, position in find_positions(names).items()}
    return standard, "standard ones, by name" if standard else "none"


def _read_positions(path: Path, names: Sequence[str]) -> Iterator[tuple[int, Array]]:
    """Yield the positions that MNE finds in a file, if it is installed and reads the format."""
    try:
        import mne

        raw = mne.io.read_raw(path, preload=False, verbose="error")
    except Exception:  # not installed, or no file for MNE: there are other positions
        return
    for channel in raw.info["chs"]:
        position = np.asarray(channel["loc"][:3], dtype=np.float64)
        if channel["ch_name"] in names and np.isfinite(position).all() and position.any():
            yield list(names).index(channel["ch_name"]), position


def measure_dipoles(maps: Array, positions: dict[int, Array]) -> Array:
    """Return the share of each map's variance that one dipole in a sphere leaves unexplained.

    Parameters
    ----------
    maps : ndarray of shape (channels, sources)
    positions : dict of int to ndarray of shape (3,)
        In metres; channels without one are left out.

    Returns
    -------
    ndarray of shape (sources,)
        Of the maps to the average reference, with the dipole that MNE fits best.
    """
    import mne

    known = sorted(positions)
    names = [str(i) for i in known]
    info = mne.create_info(names, 100.0, "eeg", verbose="error")
    where = {name: positions[i] for name, i in zip(names, known, strict=True)}
    info.set_montage(mne.channels.make_dig_montage(where, coord_frame="head"), verbose="error")
    shown = maps[known]
    evoked = mne.EvokedArray(1e-6 * shown / np.abs(shown).max(axis=0), info, verbose="error")
    evoked.set_eeg_reference(projection=True, verbose="error")
    noise = mne.make_ad_hoc_cov(evoked.info, {"eeg": 1e-7}, verbose="error")
    sphere = mne.make_sphere_model("auto", "auto", evoked.info, verbose="error")
    found: Any = mne.fit_dipole(evoked, noise, sphere, n_jobs=1, verbose="error")[0]
    return np.asarray(1.0 - found.gof / 100.0)
