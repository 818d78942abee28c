"""Artefacts that tools/bench_eeg.py adds to a recording, and how much of them a separation leaves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from igbss_stream.playback import waveforms
from igbss_stream.playback.forward_model import SourcePlace
from igbss_stream.playback.waveforms import Frame, Waveform

Array = NDArray[np.float64]

MOST_REMOVED = 3  # sources
_LOWEST_RATE = 100.0  # Hz; the muscle has power from 20 Hz on


@dataclass(frozen=True)
class Artefact:
    """An artefact of known shape and place.

    Parameters
    ----------
    name : str
    waveform : Waveform
    place : SourcePlace
        On the unit sphere; see `igbss_stream.playback.forward_model`.
    size : float
        Standard deviation at the strongest channel, in medians of those of the channels.
    lowest_rate : float
        Lowest sampling rate that can hold it, in Hz.
    """

    name: str
    waveform: Waveform
    place: SourcePlace
    size: float
    lowest_rate: float = 0.0


ARTEFACTS = (
    Artefact("blink", waveforms.blink, SourcePlace((0.0, 1.0, -0.2), 0.6), 3.0),
    Artefact("heart", waveforms.heart, SourcePlace((-0.7, -0.3, -0.6), 1.5), 1.0),
    Artefact("muscle", waveforms.muscle, SourcePlace((-0.9, 0.3, -0.1), 0.5), 1.0, _LOWEST_RATE),
)


@dataclass(frozen=True)
class Spoilt:
    """A recording with an artefact added.

    Parameters
    ----------
    artefact : Artefact
    before : ndarray of shape (samples, channels)
        Without it, centred.
    x : ndarray of shape (samples, channels)
        With it, centred.
    wave : ndarray of shape (samples,)
        What was added, before it was weighted.
    """

    artefact: Artefact
    before: Array
    x: Array
    wave: Array

    @property
    def left_in(self) -> float:
        """Error of removing nothing."""
        return self._measure(self.x)

    def measure_removal(self, unmixing: Array) -> float:
        """Return what removing sources leaves of the artefact and takes from the rest; 0 is perfect.

        The k sources most correlated with the artefact are removed, and the best k from 0 to 3 counts: a
        choice that only an oracle can make, the same for every method.
        """
        y = self.x @ unmixing.T
        maps = np.linalg.pinv(unmixing)
        similar = np.abs((y - y.mean(axis=0)).T @ self.wave) / y.std(axis=0)
        first = np.argsort(-similar)[:MOST_REMOVED]
        errors = [
            self._measure(self.x - y[:, first[:k]] @ maps[:, first[:k]].T) for k in range(len(first) + 1)
        ]
        return min(errors)

    def _measure(self, cleaned: Array) -> float:
        """Return RMS of the error over RMS of the channel before, the mean over channels."""
        return float(np.mean((cleaned - self.before).std(axis=0) / self.before.std(axis=0)))


def spoil(x: Array, rate: float, positions: dict[int, Array], artefact: Artefact, seed: int) -> Spoilt:
    """Add an artefact to a centred recording, (samples, channels).

    Its weights fall with the distance from its place on the head. Channels without a known position have
    the mean weight of the others; if none is known, the weights of all channels are drawn at random.
    """
    wave = artefact.waveform(seed, 0, Frame(0, len(x), rate))
    wave = (wave - wave.mean()) / wave.std()
    weights = _weigh(positions, x.shape[1], artefact.place, seed)
    scale = artefact.size * float(np.median(x.std(axis=0)))
    return Spoilt(artefact, x, x + np.outer(wave, scale * weights), wave)


def _weigh(positions: dict[int, Array], n_channels: int, place: SourcePlace, seed: int) -> Array:
    """Return the weight of each channel; the largest is 1."""
    if not positions:
        weights = np.random.default_rng(seed).uniform(size=n_channels)
    else:
        at = _unit(np.array(list(positions.values())))
        near = np.exp((at @ _unit(np.array(place.focus)) - 1.0) / place.width**2)
        weights = np.full(n_channels, near.mean())
        weights[list(positions)] = near
    return np.asarray(weights / weights.max())


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def list_artefacts(rate: float) -> Sequence[Artefact]:
    """Return the artefacts that a sampling rate can hold."""
    return [each for each in ARTEFACTS if rate >= each.lowest_rate]
