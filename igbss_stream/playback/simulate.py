"""Simulate an EEG with known sources.

The sources are blinks, alpha, mains, muscle, heart and pink background; the mixing may drift. Every sample
is a pure function of the seed and its index, so it has the same bits whatever the block length.
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
from igbss_stream.playback.forward_model import ForwardModel, SourcePlace, draw_place, place_electrodes
from igbss_stream.playback.pacing import PacedStream, pace, parse_length
from igbss_stream.playback.waveforms import Frame, Waveform, make_generator

Array = NDArray[np.float64]

UNIT = "uV"
_LOWEST_RATE = 100.0  # Hz, exclusive: twice the 50 Hz of mains
_MOST_CHANNELS = 4096
_FRAME = 2.0  # approximate length in seconds
_BACKGROUNDS = 8
_SENSOR_NOISE = 0.5  # uV
_PURPOSES = 8  # independent random streams of each source
_NOISE, _PLACES, _WAYS = 1 << 32, 1 << 33, 1 << 34  # purposes other than those of sources


@dataclass(frozen=True, slots=True)
class _SourceKind:
    """A source: its amplitude in uV at the focus, its waveform and its position."""

    name: str
    size: float
    signal: Waveform
    place: SourcePlace | None = None


_KINDS = (
    _SourceKind("blink", 120.0, waveforms.blink, SourcePlace((0.0, 1.0, 0.0), 0.6)),
    _SourceKind("alpha", 30.0, waveforms.alpha, SourcePlace((0.1, -0.9, 0.4), 0.6)),
    _SourceKind("mains", 8.0, waveforms.mains, SourcePlace((0.0, 0.0, 1.0), math.inf, (0.4, -0.2, 0.1))),
    _SourceKind("muscle", 20.0, waveforms.muscle, SourcePlace((-1.0, 0.2, 0.1), 0.5)),
    _SourceKind(
        "heart", 15.0, waveforms.heart, SourcePlace((-0.5, 0.0, -0.9), math.inf, (-0.6, 0.5, -0.7))
    ),
    *(_SourceKind(f"background-{i}", 6.0, waveforms.background) for i in range(_BACKGROUNDS)),
)


@dataclass(frozen=True, slots=True)
class _SimulatedFrame:
    """A frame of sources and channels."""

    number: int
    sources: Array
    channels: NDArray[np.float32]


class Simulation:
    """An EEG with known sources and random access.

    Parameters
    ----------
    n_channels : int
        At least 2. There are 13 sources, or `n_channels` if that is smaller.
    rate : float
        Sampling rate in Hz, above 100.
    seed : int
    drift : float
        Root mean square of the displacement of the foci, in radians.
    montage : {"even", "10-20"}
        Positions of the electrodes: evenly distributed and named E1, E2, ..., or those of the 10-20 system.

    Attributes
    ----------
    names : tuple of str
        Names of the sources: blink, alpha, mains, muscle, heart, background-0 and so on.
    knot : int
        Samples between the knots at which the mixing is computed; it is interpolated linearly.

    Raises
    ------
    ParameterError
        If a value is out of range.
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
        self._last: _SimulatedFrame | None = None

    def block(self, start: int, n: int) -> NDArray[np.float32]:
        """Return samples of the channels in uV.

        Parameters
        ----------
        start : int
            Index of the first sample, at least 0.
        n : int
            Number of samples.

        Returns
        -------
        ndarray of shape (n, n_channels)
        """
        return self._gather("channels", start, n, np.empty((n, self.n_channels), np.float32))

    def sources(self, start: int, n: int) -> Array:
        """Return the true sources, in uV at the electrode where they are strongest.

        Parameters
        ----------
        start, n : int
            As in `block`.

        Returns
        -------
        ndarray of shape (n, sources)
        """
        return self._gather("sources", start, n, np.empty((n, len(self.names))))

    def mixing(self, index: int) -> Array:
        """Return the true mixing matrix at a sample, of shape (channels, sources).

        Sample i is ``mixing(i) @ sources(i, 1)[0]`` plus sensor noise of 0.5 uV, as float32.
        """
        number, offset = divmod(index, self.knot)
        share = offset / self.knot
        return np.asarray((1 - share) * self._mixing_at(number) + share * self._mixing_at(number + 1))

    def stream(self, name: str) -> Stream:
        """Return the description of the channels as a stream."""
        numbered = tuple(f"E{i + 1}" for i in range(self.n_channels))
        return Stream(
            name, self.rate, system.pick_spread(self.n_channels) if self._named else numbered, UNIT
        )

    @cached_property
    def _scalp(self) -> ForwardModel:
        rng = make_generator(self.seed, _PLACES, 0)
        places = tuple(kind.place or draw_place(rng) for kind in self._kinds)
        names = system.pick_spread(self.n_channels) if self._named else ()
        positions = (
            np.array([*system.find_positions(names).values()])
            if names
            else place_electrodes(self.n_channels)
        )
        return ForwardModel(positions, places, self.drift, make_generator(self.seed, _WAYS, 0))

    def _mixing_at(self, knot: int) -> Array:
        return self._scalp.mixing(knot * self.knot / self.rate)

    def _gather(self, what: str, start: int, n: int, out: NDArray[Any]) -> NDArray[Any]:
        """Fill `out` from the frames that contain the samples."""
        done = 0
        while done < n:
            number, offset = divmod(start + done, self.knot)
            piece = getattr(self._frame(number), what)[offset : offset + n - done]
            out[done : done + len(piece)] = piece
            done += len(piece)
        return out

    def _frame(self, number: int) -> _SimulatedFrame:
        """Return a frame, always computed as a whole so that rounding does not depend on the caller."""
        made = self._last
        if made is None or made.number != number:
            sources = self._make_sources(Frame(number, self.knot, self.rate))
            made = self._last = _SimulatedFrame(number, sources, self._mix(number, sources))
        return made

    def _make_sources(self, frame: Frame) -> Array:
        columns = [
            kind.size * kind.signal(self.seed, i * _PURPOSES, frame) for i, kind in enumerate(self._kinds)
        ]
        return np.stack(columns, axis=1)

    def _mix(self, number: int, sources: Array) -> NDArray[np.float32]:
        before, after = self._mixing_at(number), self._mixing_at(number + 1)
        share = (np.arange(self.knot) / self.knot)[:, None]
        out = _SENSOR_NOISE * make_generator(self.seed, _NOISE, number).standard_normal(
            (self.knot, self.n_channels)
        )
        for j in range(sources.shape[1]):  # in a fixed order of summation
            out += sources[:, j, None] * ((1 - share) * before[:, j] + share * after[:, j])
        return out.astype(np.float32)


def _check(what: str, value: float, allowed: str, good: bool) -> None:
    if not good:
        raise ParameterError(f"{what} of a simulation must be {allowed}. Got {value!r} instead.")


def make_chunks(simulation: Simulation, block: int, n_samples: int | None) -> Iterator[Chunk]:
    """Generate the chunks of a simulation.

    Parameters
    ----------
    simulation : Simulation
    block : int
        Samples in a chunk.
    n_samples : int or None
        Total number; None is endless.

    Returns
    -------
    iterator of Chunk
    """
    start = 0
    while n_samples is None or start < n_samples:
        n = block if n_samples is None else min(block, n_samples - start)
        yield Chunk(simulation.block(start, n), start)
        start += n


def simulate_stream(
    simulation: Simulation, name: str, block: str, *, speed: float, n_samples: int | None
) -> PacedStream:
    """Return a simulation as a paced stream.

    Parameters
    ----------
    simulation : Simulation
    name : str
        Name of the stream.
    block : str
        Length of a chunk, see `parse_length`.
    speed : float
        At speeds other than 1, samples have no time of day.
    n_samples : int or None
        Length; None is endless.

    Returns
    -------
    PacedStream

    Raises
    ------
    ParameterError
        If an option is invalid.
    """
    length, rate = parse_length(block, simulation.rate), simulation.rate
    return PacedStream(
        simulation.stream(name),
        lambda clock: pace(make_chunks(simulation, length, n_samples), rate, speed, clock),
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
    that of knot ``i / knot`` (an attribute), interpolated linearly.

    Parameters
    ----------
    simulation : Simulation
    path : str or path
    n_samples : int
    overwrite : bool
    progress : callable, optional
        Called with the number of samples written.

    Raises
    ------
    RecordingError
        If the file exists and `overwrite` is false, or it cannot be written.
    """
    from igbss_stream.files.writers.hdf5_output import Hdf5Sink

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
