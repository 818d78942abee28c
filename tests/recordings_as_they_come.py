"""Finite samples of the kinds that recordings hold, drawn from a seed: ordinary, degenerate and extreme."""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import signal

Samples = NDArray[np.generic]
Array = NDArray[np.float64]


def mix(rng: Generator, n_samples: int, n_channels: int, rank: int) -> Array:
    return np.asarray(rng.laplace(size=(n_samples, rank)) @ rng.normal(size=(rank, n_channels)))


def add_spike(x: Array, rng: Generator, size: float, channel: int | slice = 0) -> Array:
    x[rng.integers(len(x)), channel] = size
    return x


def filter_zero_phase(x: Array, edges: float | list[float], kind: str) -> Array:
    """Filter with edges relative to half the sampling rate."""
    return np.ascontiguousarray(signal.sosfiltfilt(signal.butter(4, edges, kind, output="sos"), x, axis=0))


def put_sine_among_deficient(rng: Generator, n: int, c: int) -> Array:
    x = mix(rng, n, c, max(1, c - 2))
    x[:, 0] = np.sin(0.3 * np.arange(n))
    return x


def sweep_powers(_: Generator, n: int, c: int) -> Array:
    return np.asarray(np.arange(float(n))[:, None] ** np.arange(1, c + 1))


def place_triggers(rng: Generator, n: int, c: int) -> Array:
    x = np.zeros((n, c))
    x[rng.integers(0, n, n // 10), rng.integers(0, c, n // 10)] = 1.0
    x[:c] = np.eye(c)
    return x


Draw = Callable[[Generator, int, int], Samples]
"""Function of a generator, the number of samples (at least 40) and that of channels (at least 2)."""

ORDINARY: dict[str, Draw] = {
    "mixture": lambda rng, n, c: mix(rng, n, c, c),
    "low-passed": lambda rng, n, c: filter_zero_phase(mix(rng, n, c, c), 0.1, "low"),
    "high-passed": lambda rng, n, c: filter_zero_phase(mix(rng, n, c, c), 0.5, "high"),
    "band-passed": lambda rng, n, c: filter_zero_phase(mix(rng, n, c, c), [0.05, 0.2], "band"),
    "upsampled": lambda rng, n, c: np.ascontiguousarray(signal.resample(mix(rng, n // 4, c, c), n)),
    "held": lambda rng, n, c: np.repeat(mix(rng, n // 4, c, c), 4, axis=0),
    "random walks": lambda rng, n, c: np.cumsum(rng.normal(size=(n, c)), axis=0),
    "Gaussian": lambda rng, n, c: rng.normal(size=(n, c)),
    "bytes": lambda rng, n, c: np.clip(20 * mix(rng, n, c, c), -128, 127).astype(np.int8),
}

DEGENERATE: dict[str, Draw] = {
    "of lower rank": lambda rng, n, c: mix(rng, n, c, max(1, c - 2)),
    "of rank 1": lambda rng, n, c: mix(rng, n, c, 1),
    "average reference": lambda rng, n, c: (x := mix(rng, n, c, c)) - x.mean(axis=1, keepdims=True),
    "twins": lambda rng, n, c: mix(rng, n, c, c)[:, np.arange(c) // 2],
    "sine among deficient": put_sine_among_deficient,
    "sines": lambda _, n, c: np.sin(np.outer(np.arange(n), 0.1 + 0.2 * np.arange(c))),
    "one sine in phases": lambda _, n, c: np.sin(0.3 * np.arange(n)[:, None] + np.arange(c)),
    "powers of time": sweep_powers,
    "triggers": place_triggers,
    "signs": lambda rng, n, c: np.sign(mix(rng, n, c, c)),
    "silent half": lambda rng, n, c: np.where(np.arange(n)[:, None] < n // 2, 0.0, mix(rng, n, c, c)),
    "four levels": lambda rng, n, c: np.repeat(rng.normal(size=(4, c)), n // 4, axis=0),
    "fewer samples than channels": lambda rng, n, c: mix(rng, max(2, c - 1), c, c),
}

EXTREME: dict[str, Draw] = {
    "spike": lambda rng, n, c: add_spike(mix(rng, n, c, c), rng, 7e5),
    "spike everywhere": lambda rng, n, c: add_spike(mix(rng, n, c, c), rng, 7e5, slice(None)),
    "spike of 7e12": lambda rng, n, c: add_spike(mix(rng, n, c, c), rng, 7e12),
    "offset in float32": lambda rng, n, c: (mix(rng, n, c, c) + 1e7).astype(np.float32),
    "large offset in float32": lambda rng, n, c: (100 * mix(rng, n, c, c) + 1e7).astype(np.float32),
    "offset of one channel": lambda rng, n, c: (mix(rng, n, c, c) + 1e7 * np.eye(c)[0]).astype(np.float32),
    "jitter of a constant": lambda rng, n, c: 5.0 + 1e-12 * mix(rng, n, c, c),
    "any scale": lambda rng, n, c: mix(rng, n, c, c) * 10.0 ** rng.uniform(-300, 300),
    "any scale of each channel": lambda rng, n, c: mix(rng, n, c, c) * 10.0 ** rng.uniform(-200, 200, c),
    "various scales": lambda rng, n, c: mix(rng, n, c, c) * 10.0 ** rng.uniform(-40, 40, c),
    "any scale in float32": lambda rng, n, c: (mix(rng, n, c, c) * 10.0 ** rng.uniform(-36, 36)).astype(
        np.float32
    ),
    "denormal": lambda rng, n, c: 1e-310 * mix(rng, n, c, c),
    "integers beyond 2**53": lambda rng, n, c: (100 * mix(rng, n, c, c)).astype(np.int64) + 2**60,
    "integers of all digits": lambda rng, n, c: rng.integers(-(2**63), 2**63 - 1, (n, c)),
    "exponentials": lambda rng, n, c: np.exp(3 * mix(rng, n, c, c)),
    "Cauchy": lambda rng, n, c: rng.standard_cauchy((n, c)),
    "fifth powers of Cauchy": lambda rng, n, c: rng.standard_cauchy((n, c)) ** 5,
}

KINDS = ORDINARY | DEGENERATE | EXTREME
