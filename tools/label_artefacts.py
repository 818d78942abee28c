"""Artefacts of known course that tools/bench_labels.py adds to EEG, with maps of dipoles.

The maps are potentials of current dipoles in a homogeneous medium, ``V = p'(r - q) / |r - q|^3``, at
electrodes on the unit sphere: they share no formula with the templates of the labeller.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from igbss_stream._util.electrodes import find_position

Array = NDArray[np.float64]
Rng = np.random.Generator

_EYES = ((-0.36, 0.84, -0.42), (0.36, 0.84, -0.42))
_MUSCLES = (
    (-0.85, 0.3, -0.15),
    (0.85, 0.3, -0.15),
    (-0.8, -0.4, -0.2),
    (0.8, -0.4, -0.2),
    (0.4, 0.85, 0.1),
    (0.3, -0.85, -0.3),
)
_ECGS = (("100", 0), ("a103l", 0), ("s0010_re", 7))


@dataclass(frozen=True)
class Spoilt:
    """EEG with artefacts.

    Parameters
    ----------
    x : ndarray of shape (samples, channels)
    waves : dict
        By kind, the courses that were added.
    """

    x: Array
    waves: dict[str, list[Array]]


def add_artefacts(
    x: Array, names: list[str], rate: float, kinds: tuple[str, ...], seconds: float, seed: int, folder: Path
) -> Spoilt:
    """Return a piece of a recording with an artefact of each kind, drawn from a seed."""
    rng = np.random.default_rng(seed)
    n = min(len(x), round(seconds * rate))
    start = int(rng.integers(0, len(x) - n + 1))
    piece = x[start : start + n] - x[start : start + n].mean(axis=0)
    places = np.array([find_position(name) for name in names])
    size, out = float(np.median(piece.std(axis=0))), piece.copy()
    waves: dict[str, list[Array]] = {kind: [] for kind in kinds}
    for kind in kinds:
        for wave, weights, scale in KINDS[kind](rng, n, rate, places, folder):
            course = _high_pass(wave, rate)
            weights = weights / np.abs(weights).max()
            out += size * scale * rng.uniform(0.7, 1.4) * np.outer(course, weights)
            waves[kind].append(course)
    return Spoilt(out, waves)


Made = list[tuple[Array, Array, float]]
"""Courses, maps, and standard deviations at the strongest channel in those of the median channel."""


def _add_eyes(rng: Rng, n: int, rate: float, places: Array, folder: Path) -> Made:
    up = np.array([0.0, 0.5, 0.85]) + 0.1 * rng.standard_normal(3)
    across = np.array([1.0, 0.0, 0.0]) + 0.1 * rng.standard_normal(3)
    blink, movement = (sum(_see(places, np.array(eye), p) for eye in _EYES) for p in (up, across))
    return [
        (_blink(rng, n, rate), np.asarray(blink), 2.0),
        (_look(rng, n, rate), np.asarray(movement), 1.0),
    ]


def _add_heart(rng: Rng, n: int, rate: float, places: Array, folder: Path) -> Made:
    import wfdb

    name, channel = _ECGS[rng.integers(len(_ECGS))]
    record = wfdb.rdrecord(str(folder / "ecg" / name), channels=[channel])
    ecg = np.nan_to_num(record.p_signal[:, 0])
    course = signal.resample_poly(ecg - ecg.mean(), round(rate), round(record.fs))
    course = np.resize(np.roll(course, int(rng.integers(len(course)))), n)
    moment = np.array([0.6, 0.2, 0.5]) + 0.3 * rng.standard_normal(3)
    return [(course, _see(places, np.array([-0.5, 0.2, -4.0]), moment), 0.8)]


def _add_muscle(rng: Rng, n: int, rate: float, places: Array, folder: Path) -> Made:
    place = np.array(_MUSCLES[rng.integers(len(_MUSCLES))])
    edge = rng.uniform(18.0, 28.0)
    course = signal.sosfiltfilt(
        signal.butter(3, edge, "high", fs=rate, output="sos"), rng.standard_normal(n)
    )
    strength = np.full(n, rng.choice([0.1, 0.4, 1.0]))
    for at in rng.integers(0, n, n // round(4 * rate)):
        strength[at : at + round(rng.uniform(0.3, 1.5) * rate)] += rng.uniform(0.5, 2.0)
    course = course * signal.filtfilt(*signal.butter(2, 4.0, fs=rate), strength)
    return [(course, _see(places, 0.92 * place, place + 0.4 * rng.standard_normal(3)), 1.0)]


KINDS: dict[str, Callable[[Rng, int, float, Array, Path], Made]] = {
    "eye": _add_eyes,
    "heart": _add_heart,
    "muscle": _add_muscle,
}


def _see(places: Array, source: Array, moment: Array) -> Array:
    """Return the potentials of a dipole at electrodes."""
    away = places - source
    return np.asarray(away @ moment / np.linalg.norm(away, axis=1) ** 3)


def _blink(rng: Rng, n: int, rate: float) -> Array:
    """Return 6 to 30 blinks a minute, whose lid closes faster than it opens."""
    t, course, every = np.arange(n) / rate, np.zeros(n), rng.uniform(2.0, 10.0)
    at = rng.uniform(0.5, every)
    while at < t[-1]:
        closes, opens = rng.uniform(0.05, 0.08), rng.uniform(0.09, 0.16)
        width = np.where(t < at, closes, opens)
        course += rng.uniform(0.6, 1.4) * np.exp(-(((t - at) / width) ** 2))
        at += rng.uniform(0.4, 1.6) * every
    return course


def _look(rng: Rng, n: int, rate: float) -> Array:
    """Return a gaze that jumps every second or so, within 40 ms, and rests half of the time."""
    course, at = np.zeros(n), 0.5
    while at < n / rate:
        course[round(at * rate) :] = rng.uniform(-1.0, 1.0) if rng.random() < 0.7 else 0.0
        at += rng.uniform(0.3, 2.5) + (rng.uniform(3.0, 8.0) if rng.random() < 0.3 else 0.0)
    return np.asarray(signal.filtfilt(*signal.butter(2, 15.0, fs=rate), course))


def _high_pass(wave: Array, rate: float) -> Array:
    """Return a course that was filtered like the recording, with unit variance."""
    course = signal.sosfiltfilt(signal.butter(2, 1.0, "high", fs=rate, output="sos"), wave)
    return np.asarray((course - course.mean()) / course.std())
