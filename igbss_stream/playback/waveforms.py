"""The waveforms of simulated sources, with random access: pure functions of a seed and a frame number.

Samples are generated in frames. Longer structures consist of numbered pieces: events are placed in slots
of time, noise is a sum of overlapping grains. Each piece draws its random numbers from a counter-based
generator (Philox) at a position given by its number, independent of the pieces before it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Shape = Callable[[np.random.Generator, Array, float], Array]

_MAINS = 50.0  # Hz


def make_generator(seed: int, purpose: int, number: int) -> np.random.Generator:
    """Return the random number generator of one piece of one waveform.

    Parameters
    ----------
    seed, purpose, number : int
        Each from 0 to 2**64 - 1.

    Returns
    -------
    Generator
        Generators of different triples do not overlap: the number is the highest word of the counter.
    """
    key = np.array([seed, purpose], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, 0, number], np.uint64)))


@dataclass(frozen=True, slots=True)
class Frame:
    """An interval of the time axis at a fixed position, of fixed length.

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
        """Times of the samples in seconds."""
        return np.asarray((np.arange(self.length) + self.number * self.length) / self.rate)


class Waveform(Protocol):
    """Return the samples of a frame, given a seed and a purpose that distinguishes waveforms."""

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples, of shape (length,)."""
        ...


@dataclass(frozen=True, slots=True)
class EventTrain:
    """One event in each slot of time; an event ends within its slot.

    Parameters
    ----------
    slot : float
        Length of a slot in seconds.
    shape : callable
        Function of random numbers, the seconds since the start of the slot, and the length of the slot.
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
            rng = make_generator(seed, purpose, number)
            out[of_slot] = self.shape(rng, times[of_slot] - number * self.slot, self.slot)
        return out


@dataclass(frozen=True, slots=True)
class Noise:
    """Gaussian noise of unit variance.

    A grain is white noise shaped in the frequency domain and spans two frames. It is cross-faded with its
    neighbours by windows whose squares sum to 1, which preserves the variance.

    Parameters
    ----------
    amplitude : callable
        Function of the frequencies in Hz and the sampling rate; returns relative amplitudes.
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
        amplitude[[0, -1]] = 0.0  # no constant, and not the highest frequency, which has no phase
        real, imaginary = make_generator(seed, purpose, number).standard_normal((2, len(amplitude)))
        # each line and its mirror image contribute 4 amplitude**2 / n_samples**2 to the variance
        amplitude *= n_samples / (2 * np.sqrt(np.sum(amplitude**2)))
        return np.asarray(np.fft.irfft(amplitude * (real + 1j * imaginary), n_samples))


@dataclass(frozen=True, slots=True)
class Product:
    """A product of waveforms, such as noise in bursts."""

    factors: tuple[Waveform, ...]

    def __call__(self, seed: int, purpose: int, frame: Frame) -> Array:
        """Return the samples of a frame; factor n has the purpose `purpose` + n."""
        return _product(factor(seed, purpose + i, frame) for i, factor in enumerate(self.factors))


def _product(factors: Iterable[Array]) -> Array:
    return np.asarray(np.prod(np.stack(list(factors)), axis=0))


def _blink(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return a blink: the lid closes within 0.1 s and opens more slowly; the amplitude is about 1."""
    begins, width, height = rng.uniform(0.1, slot - 1.2), rng.uniform(0.08, 0.12), rng.uniform(0.7, 1.4)
    u = np.clip((t - begins) / width, 0.0, None)
    return np.asarray(height * (u * np.exp(1 - u)) ** 2)


def _alpha(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return an alpha spindle of 9 to 11 Hz."""
    length, size = rng.uniform(0.3, 1.0) * slot, rng.uniform(0.4, 1.4)
    begins, rate, phase = rng.uniform(0, slot - length), rng.uniform(9, 11), rng.uniform(0, 2 * np.pi)
    return np.asarray(size * _hump(t, begins, length) * np.sin(2 * np.pi * rate * t + phase))


def _tension(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return the envelope of muscle activity."""
    length, size = rng.uniform(0.3, 0.9), rng.uniform(0.5, 1.5)
    return np.asarray(size * _hump(t, rng.uniform(0, slot - length), length))


def _heartbeat(rng: np.random.Generator, t: Array, slot: float) -> Array:
    """Return the Q, R, S and T waves of a heartbeat; the R wave has amplitude 1."""
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
    """Return the amplitudes of pink noise: power falls as 1 / f above 1 Hz."""
    return np.asarray(1 / np.sqrt(np.maximum(frequencies, 1.0)))


def _muscular(frequencies: Array, rate: float) -> Array:
    """Return the amplitudes of a band of 20 to 150 Hz, limited by the sampling rate."""
    return np.where((frequencies >= 20) & (frequencies <= min(150.0, 0.45 * rate)), 1.0, 0.0)


def mains(seed: int, purpose: int, frame: Frame) -> Array:
    """Return mains hum of amplitude 1, modulated by 10 %.

    Parameters
    ----------
    seed, purpose : int
    frame : Frame

    Returns
    -------
    ndarray of shape (length,)
    """
    phase, sway = make_generator(seed, purpose, 0).uniform(0, 2 * np.pi, 2)
    t = frame.times
    size = 1 + 0.1 * np.sin(2 * np.pi * t / 37 + sway)
    return np.asarray(size * np.sin(2 * np.pi * _MAINS * t + phase))


blink = EventTrain(4.0, _blink)
alpha = EventTrain(3.0, _alpha)
heart = EventTrain(0.85, _heartbeat)
muscle = Product((EventTrain(4.0, _tension), Noise(_muscular)))
background = Noise(_pink)
