"""Sources of known kind on a head of nineteen electrodes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util.electrodes import find_positions

Array = NDArray[np.float64]

NAMES = (
    *("Fp1", "Fp2", "F7", "F3", "Fz", "F4", "F8", "T7", "C3", "Cz"),
    *("C4", "T8", "P7", "P3", "Pz", "P4", "P8", "O1", "O2"),
)
RATE = 200.0
N_SAMPLES = 12_000
POSITIONS = np.array(list(find_positions(NAMES).values()))


def see(*source: float, fall: float = 3.0) -> Array:
    """Return the weights of a source in a direction from the centre of the head."""
    return np.asarray(np.exp(-fall * (1 - POSITIONS @ (np.array(source) / np.linalg.norm(source)))))


def make_noise(rng: np.random.Generator, exponent: float, low: float = 1.0) -> Array:
    """Return noise whose amplitude falls as 1 / f**exponent, from a frequency in Hz on."""
    frequency = np.fft.rfftfreq(N_SAMPLES, 1 / RATE)
    spectrum = rng.normal(size=len(frequency)) + 1j * rng.normal(size=len(frequency))
    spectrum *= (frequency >= low) / np.maximum(frequency, 0.5) ** exponent
    course = np.fft.irfft(spectrum, N_SAMPLES)
    return np.asarray(course / course.std())


def place(rng: np.random.Generator, every: float, spread: float, shape: Callable[[Array], Array]) -> Array:
    """Return a shape of seconds, placed at an interval in seconds, with sizes of 0.7 to 1.3."""
    t, course, at = np.arange(N_SAMPLES) / RATE, np.zeros(N_SAMPLES), 1.0
    while at < t[-1] - 1:
        course += rng.uniform(0.7, 1.3) * shape(t - at)
        at += every * rng.uniform(1 - spread, 1 + spread)
    return course


def make_blinks(rng: np.random.Generator) -> Array:
    """Return fifteen blinks a minute, with a little brain activity."""
    course = place(rng, 4.0, 0.6, lambda t: np.exp(-((t / 0.1) ** 2)))
    return np.asarray(course / course.std() + 0.2 * make_noise(rng, 1.0))


def make_saccades(rng: np.random.Generator) -> Array:
    """Return jumps of the gaze to either side, from which the high-pass of an amplifier recovers."""
    sign = [1.0, -1.0]

    def jump(t: Array) -> Array:
        sign.reverse()
        return np.asarray(sign[0] * np.where(t > 0, np.exp(-np.clip(t, 0, None) / 0.25), 0.0))

    course = place(rng, 3.0, 0.6, jump)
    return np.asarray(course / course.std() + 0.2 * make_noise(rng, 1.0))


def make_heart(rng: np.random.Generator) -> Array:
    """Return 72 sharp beats a minute, with brain activity of the same power."""
    course = place(rng, 60 / 72, 0.04, lambda t: np.exp(-((t / 0.015) ** 2)))
    return np.asarray((course - course.mean()) / course.std() + 0.5 * make_noise(rng, 1.0))


def make_muscle(rng: np.random.Generator) -> Array:
    """Return noise from 20 Hz on, in bursts."""
    bursts = place(rng, 4.0, 0.5, lambda t: np.exp(-((t / 0.4) ** 2)))
    return make_noise(rng, 0.0, 20.0) * (0.2 + bursts) + 0.1 * make_noise(rng, 1.0)


def make_mains(rng: np.random.Generator) -> Array:
    """Return a hum of 50 Hz, with a little brain activity."""
    return np.asarray(np.sin(2 * np.pi * 50 * np.arange(N_SAMPLES) / RATE) + 0.2 * make_noise(rng, 1.0))


def make_alpha(rng: np.random.Generator) -> Array:
    """Return brain activity that falls with frequency, with an alpha rhythm that waxes and wanes."""
    carrier = np.sin(2 * np.pi * 10 * np.arange(N_SAMPLES) / RATE)
    return np.asarray(make_noise(rng, 1.0) + carrier * np.abs(make_noise(rng, 2.0)))


SOURCES: dict[str, tuple[Callable[[np.random.Generator], Array], Array]] = {
    "eye blink": (make_blinks, see(0, 1, -0.2)),
    "eye movement": (make_saccades, see(-0.6, 0.75, -0.2) - see(0.6, 0.75, -0.2)),
    "heart": (make_heart, 0.2 + POSITIONS @ [-0.7, -0.3, -0.6]),
    "muscle": (make_muscle, see(-0.9, 0.3, -0.1, fall=6.0)),
    "line noise": (make_mains, np.ones(len(NAMES)) + 0.1 * POSITIONS[:, 0]),
    "channel noise": (lambda rng: rng.normal(size=N_SAMPLES), np.eye(len(NAMES))[9]),
    "brain": (make_alpha, see(0.3, -0.8, 0.5)),
}


def make_sources(seed: int) -> tuple[Array, Array]:
    """Return courses (samples, sources) and maps (channels, sources), one source of each label."""
    rng = np.random.default_rng(seed)
    courses = [make(rng) for make, _ in SOURCES.values()]
    return np.column_stack(courses), np.column_stack([weights for _, weights in SOURCES.values()])
