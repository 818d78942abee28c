"""Signals that any sample can be asked for: pure functions of a seed and the number of a frame.

Samples are made a frame at a time. What lasts longer is made of pieces that have numbers of their own:
events lie in slots of time, noise is a sum of overlapping grains. Each piece takes its random numbers from
a counter-based generator (Philox) at a place that its number names, so the way there does not matter.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = Callable[[np.random.Generator, Array, float], Array]

_MAINS = 50.0  # Hz


def generator(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Return random numbers that belong to one piece of one signal.

    Parameters
    ----------
    seed, purpose, number : int
        Each from 0 to 2**64 - 1.

    Returns
    -------
    Generator
        Streams of different triples do not overlap: the number is the highest word of the counter.
    """
    key = np.array([seed, purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, number], np.uint64)))


@dataclass(frozen=True, slots=True)
class Frame:
    """A piece of a signal, at the same place and of the same length whoever asks for it.

    Parameters
    ----------
    number : int
    length : int
        In samples.
    rate : float
        In Hz.
    """

    number: int
    length: int
    rate: float

    @property
    def times(self) -> Array:
        """Of the samples, in seconds."""
        return np.asarray((np.arange(self.length) + self.number * self.length) / self.rate)


class Signal(Protocol):
    """Returns the samples of a frame, given a seed and a purpose that tells it from other signals."""

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples, (length,)."""
        ...


@dataclass(frozen=True, slots=True)
class Events:
    """One event in each slot of time; an event ends before its slot does.

    Parameters
    ----------
    slot : float
        In seconds.
    shape : callable
        Returns the event from its random numbers, the seconds since its slot began, and the slot.
    """

    slot: float
    shape: Shape

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples of a frame."""
        times = frame.times
        slots = np.floor(times / self.slot).astype(np.int64)
        out = np.empty(frame.length)
        for number in range(slots[0], slots[-1] + 1):
            of_slot = slots == number
            rng = generator(seed, purpose, number)
            out[of_slot] = self.shape(rng, times[of_slot] - number * self.slot, self.slot)
        return out


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise of unit variance.

    A grain is white noise shaped in the frequency domain and spans two frames; windows whose squares add
    up to 1 cross-fade it with its neighbours, which keeps the variance.

    Parameters
    ----------
    amplitude : callable
        Returns the relative amplitude of each frequency, from the frequencies in Hz and the rate.
    """

    amplitude: Callable[[Array, float], Array]

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples of a frame."""
        angle = np.pi * (np.arange(frame.length) + 0.5) / (2 * frame.length)
        fading = self._grain(seed, purpose, frame.number, frame)[frame.length :]
        rising = self._grain(seed, purpose, frame.number + 1, frame)[: frame.length]
        out: Array = np.cos(angle) * fading + np.sin(angle) * rising
        return out

    def _grain(self, seed: int, purpose: int, number: int, frame: Frame) -> Array:
        n_samples = 2 * frame.length
        frequencies = np.asarray(np.fft.rfftfreq(n_samples, 1 / frame.rate), np.float64)
        amplitude = self.amplitude(frequencies, frame.rate)
        amplitude[[0, -1]] = 0.0  # neither a constant nor the highest frequency, which has no phase
        real, imaginary = generator(seed, purpose, number).standard_normal((2, len(amplitude)))
        # each line and its mirror image bring 4 amplitude**2 / n_samples**2 of variance
        amplitude *= n_samples / (2 * np.sqrt(np.sum(amplitude**2)))
        return np.asarray(np.fft.irfft(amplitude * (real + 1j * imaginary), n_samples))


@dataclass(frozen=True, slots=True)
class Product:
    """One signal times others, such as noise that comes in bursts."""

    factors: tuple[Signal, ...]

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples of a frame; the n-th factor has the n-th purpose from `purpose` on."""
        return _product(factor(seed, purpose + i, frame) for i, factor in enumerate(self.factors))


def _product(factors: Iterable[Array]) -> Array:
    return np.asarray(np.prod(np.stack(list(factors)), axis=0))


def _blink(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return a lid that closes within 0.1 s and opens more slowly; 1 is a usual blink."""
    begins, width, height = rng.uniform(0.1, slot - 1.2), rng.uniform(0.08, 0.12), rng.uniform(0.7, 1.4)
    u = np.clip((t - begins) / width, 0.0, None)
    return np.asarray(height * (u * np.exp(1 - u)) ** 2)


def _alpha(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return a spindle of 9 to 11 Hz."""
    length, size = rng.uniform(0.3, 1.0) * slot, rng.uniform(0.4, 1.4)
    begins, rate, phase = rng.uniform(0, slot - length), rng.uniform(9, 11), rng.uniform(0, 2 * np.pi)
    return np.asarray(size * _hump(t, begins, length) * np.sin(2 * np.pi * rate * t + phase))


def _tension(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return how tense a muscle is."""
    length, size = rng.uniform(0.3, 0.9), rng.uniform(0.5, 1.5)
    return np.asarray(size * _hump(t, rng.uniform(0, slot - length), length))


def _heartbeat(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return the Q, R, S and T waves of a beat, the R wave being 1 high."""
    beat = rng.uniform(0.15, 0.25)
    waves = ((-0.025, 0.010, -0.15), (0.0, 0.011, 1.0), (0.028, 0.010, -0.25), (0.27, 0.05, 0.25))
    out = np.zeros_like(t)
    for delay, width, height in waves:
        out += height * np.exp(-(((t - beat - delay) / width) ** 2) / 2)
    return out


def _hump(t: Array, begins: float, length: float) -> Array:
    """Return a squared sine that rises from 0 to 1 and falls to 0."""
    return np.asarray(np.sin(np.pi * np.clip((t - begins) / length, 0.0, 1.0)) ** 2)


def _pink(frequencies: Array, rate: float) -> Array:
    """Return the amplitude of a power that falls as 1 / f, from 1 Hz on."""
    return np.asarray(1 / np.sqrt(np.maximum(frequencies, 1.0)))


def _muscular(frequencies: Array, rate: float) -> Array:
    """Return the band of 20 to 150 Hz, or what the rate leaves of it."""
    return np.where((frequencies >= 20) & (frequencies <= min(150.0, 0.45 * rate)), 1.0, 0.0)


def mains(seed: int, purpose: int, frame: Frame) -> Array:
    """Return the hum of mains, whose size sways by a tenth; the sine has amplitude 1.

    Parameters
    ----------
    seed, purpose : int
    frame : Frame

    Returns
    -------
    ndarray of shape (length,)
    """
    phase, sway = generator(seed, purpose, 0).uniform(0, 2 * np.pi, 2)
    t = frame.times
    size = 1 + 0.1 * np.sin(2 * np.pi * t / 37 + sway)
    return np.asarray(size * np.sin(2 * np.pi * _MAINS * t + phase))


blink = Events(4.0, _blink)
alpha = Events(3.0, _alpha)
heart = Events(0.85, _heartbeat)
muscle = Product((Events(4.0, _tension), Noise(_muscular)))
background = Noise(_pink)
