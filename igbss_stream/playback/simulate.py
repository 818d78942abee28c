"""An EEG whose sources are known: for trying things out, and for telling how well they work.

Blinks, alpha, mains, muscle and heart with a pink background lie behind a mixing that drifts. All is a pure
function of the seed and the index of a sample: whoever asks for a sample, in blocks of whatever length,
gets the same bits.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream._util import electrodes as system
from igbss_stream._util.progress import Progress
from igbss_stream.chunk import Chunk, Stream
from igbss_stream.errors import ParameterError
from igbss_stream.playback import waveforms
from igbss_stream.playback.forward_model import Place, Scalp, anywhere, electrodes
from igbss_stream.playback.pacing import Feed, length_in_samples, on_schedule
from igbss_stream.playback.waveforms import Frame, Signal, generator

Array = NDArray[np.float64]

UNIT = "uV"
_LOWEST_RATE = 100.0  # Hz: mains of 50 Hz need more than twice their own
_MOST_CHANNELS = 4096
_FRAME = 2.0  # seconds, about
_BACKGROUNDS = 8
_SENSOR_NOISE = 0.5  # uV
_PURPOSES = 8  # of random numbers that each source may have
_NOISE, _PLACES, _WAYS = 1 << 32, 1 << 33, 1 << 34  # purposes that are not those of a source


@dataclass(frozen=True, slots=True)
class _Kind:
    """A source: its size in uV at its focus, what it looks like and where."""

    name: str
    size: float
    signal: Signal
    place: Place | None = None


_KINDS = (
    _Kind("blink", 120.0, waveforms.blink, Place((0.0, 1.0, 0.0), 0.6)),
    _Kind("alpha", 30.0, waveforms.alpha, Place((0.1, -0.9, 0.4), 0.6)),
    _Kind("mains", 8.0, waveforms.mains, Place((0.0, 0.0, 1.0), math.inf, (0.4, -0.2, 0.1))),
    _Kind("muscle", 20.0, waveforms.muscle, Place((-1.0, 0.2, 0.1), 0.5)),
    _Kind("heart", 15.0, waveforms.heart, Place((-0.5, 0.0, -0.9), math.inf, (-0.6, 0.5, -0.7))),
    *(_Kind(f"background-{i}", 6.0, waveforms.background) for i in range(_BACKGROUNDS)),
)


@dataclass(frozen=True, slots=True)
class _Made:
    """A frame: its sources, and what the channels hold."""

    number: int
    sources: Array
    channels: NDArray[np.float32]


class Simulation:
    """An EEG with known sources, any part of which can be asked for.

    Parameters
    ----------
    n_channels : int
        At least 2. There are 13 sources, or as many as channels if these are fewer.
    rate : float
        In Hz, above 100.
    seed : int
    drift : float
        How far the foci of the sources wander on the head, as root mean square in radians.
    montage : {"even", "10-20"}
        Where the electrodes lie: evenly, called E1, E2 and so on, or as the 10-20 system has them.

    Attributes
    ----------
    names : tuple of str
        Of the sources: blink, alpha, mains, muscle, heart, background-0 and so on.
    knot : int
        Samples between the moments at which the mixing is worked out; it is linear between.

    Raises
    ------
    ParameterError
        If a value cannot be used.
    """

    def __init__(
        self,
        n_channels: int = 32,
        rate: float = 250.0,
        seed: int = 0,
        drift: float = 0.0,
        montage: str = "even",
    ) -> None:
        _check(
            "the number of channels",
            n_channels,
            f"2 to {_MOST_CHANNELS}",
            2 <= n_channels <= _MOST_CHANNELS,
        )
        _check("the rate", rate, "above 100 Hz, for mains of 50 Hz", _LOWEST_RATE < rate < math.inf)
        _check("the seed", seed, "0 to 2**64 - 1", 0 <= seed < 1 << 64)
        _check("the drift", drift, "0 to 1", 0 <= drift <= 1)
        most = len(system.list_names())
        if montage != "even":
            _check("the number of channels", n_channels, f"2 to {most} by names", n_channels <= most)
        self.n_channels = n_channels
        self._named = montage != "even"
        self.rate = rate
        self.seed = seed
        self.drift = drift
        self._kinds = _KINDS[:n_channels]
        self.names = tuple(kind.name for kind in self._kinds)
        self.knot = 1 << round(math.log2(_FRAME * rate))
        self._last: _Made | None = None

    def block(self, start: int, n: int) -> NDArray[np.float32]:
        """Return what the electrodes see, in uV.

        Parameters
        ----------
        start : int
            Index of the first sample, at least 0.
        n : int
            How many.

        Returns
        -------
        ndarray of shape (n, n_channels)
        """
        return self._gathered("channels", start, n, np.empty((n, self.n_channels), np.float32))

    def sources(self, start: int, n: int) -> Array:
        """Return the true sources, in uV where they are seen best.

        Parameters
        ----------
        start, n : int
            As in `block`.

        Returns
        -------
        ndarray of shape (n, sources)
        """
        return self._gathered("sources", start, n, np.empty((n, len(self.names))))

    def mixing(self, index: int) -> Array:
        """Return the true mixing matrix at a sample, (channels, sources).

        Sample i is ``mixing(i) @ sources(i, 1)[0]`` plus the noise of the sensors, 0.5 uV, as float32.
        """
        number, offset = divmod(index, self.knot)
        share = offset / self.knot
        return np.asarray((1 - share) * self._mixing_at(number) + share * self._mixing_at(number + 1))

    def stream(self, name: str) -> Stream:
        """Describe the stream of `block`."""
        numbered = tuple(f"E{i + 1}" for i in range(self.n_channels))
        return Stream(
            name, self.rate, system.pick_spread(self.n_channels) if self._named else numbered, UNIT
        )

    @cached_property
    def _scalp(self) -> Scalp:
        rng = generator(self.seed, _PLACES, 0)
        places = tuple(kind.place or anywhere(rng) for kind in self._kinds)
        names = system.pick_spread(self.n_channels) if self._named else ()
        positions = (
            np.array([*system.find_positions(names).values()]) if names else electrodes(self.n_channels)
        )
        return Scalp(positions, places, self.drift, generator(self.seed, _WAYS, 0))

    def _mixing_at(self, knot: int) -> Array:
        return self._scalp.mixing(knot * self.knot / self.rate)

    def _gathered(self, what: str, start: int, n: int, out: NDArray[Any]) -> NDArray[Any]:
        """Fill `out` from the frames that samples lie in."""
        done = 0
        while done < n:
            number, offset = divmod(start + done, self.knot)
            piece = getattr(self._frame(number), what)[offset : offset + n - done]
            out[done : done + len(piece)] = piece
            done += len(piece)
        return out

    def _frame(self, number: int) -> _Made:
        """Return a frame; always made whole, so that no rounding depends on who asks for what."""
        made = self._last
        if made is None or made.number != number:
            sources = self._sources_of(Frame(number, self.knot, self.rate))
            made = self._last = _Made(number, sources, self._mixed(number, sources))
        return made

    def _sources_of(self, frame: Frame) -> Array:
        columns = [
            kind.size * kind.signal(self.seed, i * _PURPOSES, frame) for i, kind in enumerate(self._kinds)
        ]
        return np.stack(columns, axis=1)

    def _mixed(self, number: int, sources: Array) -> NDArray[np.float32]:
        before, after = self._mixing_at(number), self._mixing_at(number + 1)
        share = (np.arange(self.knot) / self.knot)[:, None]
        out = _SENSOR_NOISE * generator(self.seed, _NOISE, number).standard_normal(
            (self.knot, self.n_channels)
        )
        for j in range(sources.shape[1]):  # one after the other: no library chooses the order of the sums
            out += sources[:, j, None] * ((1 - share) * before[:, j] + share * after[:, j])
        return out.astype(np.float32)


def _check(what: str, value: float, allowed: str, good: bool) -> None:
    if not good:
        raise ParameterError(f"{what} of a simulation must be {allowed}. Got {value!r} instead.")


def chunks(simulation: Simulation, block: int, n_samples: int | None) -> Iterator[Chunk]:
    """Return the chunks of a simulation, of all samples or of the first ones.

    Parameters
    ----------
    simulation : Simulation
    block : int
        Samples in a chunk.
    n_samples : int or None
        How many in all; None is no end.

    Returns
    -------
    iterator of Chunk
    """
    start = 0
    while n_samples is None or start < n_samples:
        n = block if n_samples is None else min(block, n_samples - start)
        yield Chunk(simulation.block(start, n), start)
        start += n


def simulated(
    simulation: Simulation, name: str, block: str, *, speed: float, n_samples: int | None
) -> Feed:
    """Return the feed of a simulation.

    Parameters
    ----------
    simulation : Simulation
    name : str
        Of the stream.
    block : str
        See `length_in_samples`.
    speed : float
        At another one than 1 samples have no time of day.
    n_samples : int or None
        Where it ends.

    Returns
    -------
    Feed

    Raises
    ------
    ParameterError
        If an option cannot be used.
    """
    length, rate = length_in_samples(block, simulation.rate), simulation.rate
    return Feed(
        simulation.stream(name),
        lambda clock: on_schedule(chunks(simulation, length, n_samples), rate, speed, clock),
        n_samples,
        speed,
    )


def write_truth(
    simulation: Simulation,
    path: str | os.PathLike[str],
    n_samples: int,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write the true sources and mixing of the first samples to an HDF5 file.

    ``/sources`` is (samples, sources), ``/mixing`` (knots, channels, sources): the mixing of sample i is
    that of knot ``i / knot`` (an attribute), linear between two.

    Parameters
    ----------
    simulation : Simulation
    path : str or path
    n_samples : int
    overwrite : bool
    progress : callable, optional
        Told how far it is.

    Raises
    ------
    RecordingError
        If the file exists and may not be replaced, or cannot be written.
    """
    from igbss_stream.files.writers.hdf5 import Hdf5Sink

    knot, names = simulation.knot, simulation.names
    with Hdf5Sink(Path(path), overwrite=overwrite) as sink:
        sink.create(
            "sources", (n_samples, len(names)), np.float64, rate=simulation.rate, unit=UNIT, channels=names
        )
        for start in range(0, n_samples, knot):
            n = min(knot, n_samples - start)
            sink.append("sources", simulation.sources(start, n))
            if progress is not None:
                progress("writing the truth", start + n, n_samples)
        knots = range(0, n_samples + knot, knot)
        mixing = np.stack([simulation.mixing(index) for index in knots])
        sink.write("mixing", mixing, knot=knot, channels=simulation.stream("truth").channels)
        sink.set_attrs(seed=np.uint64(simulation.seed), drift=simulation.drift)
