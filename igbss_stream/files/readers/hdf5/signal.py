"""Describe the signals that a layout finds in an HDF5 file."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.events import Events
from igbss_stream.files.bad_rows import find_bad_rows, merge_rows
from igbss_stream.files.clock import SampleClock, Timeline
from igbss_stream.files.readers.hdf5.written_rows import WrittenRows
from igbss_stream.files.timing import Times
from igbss_stream.positions import Positions


@dataclass(frozen=True)
class RawFile:
    """Samples in a binary file next to the HDF5 file, stored sample by sample.

    Parameters
    ----------
    path : Path
    shape : tuple of int
        (samples, channels).
    dtype : dtype
    """

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """Location and description of a signal.

    Parameters
    ----------
    dataset : str
        Full name of the dataset.
    shape : tuple of int
        (samples, channels) after reading.
    axis : int or None
        Axis of the samples; None if the layout does not define it.
    is_reversed : bool
        Whether the program that wrote the dataset counts its axes from the last one, as MATLAB does.
    fields : tuple of str
        Fields of a compound type that contain the samples; empty for a plain dataset.
    columns : tuple of str
        Datasets of one axis, each with the samples of a channel; empty for a plain dataset.
    raw : RawFile or None
        File that contains the samples instead of the dataset.
    rate : float or None
    unit : str or None
        Unit of the samples, after `gain` and `offset`.
    channels, types, bad : tuple of str
        Empty if they are not known.
    bad_rows : tuple of (int, int)
        Start and stop of rows that the file marks as bad; see `Facts`.
    gain, offset : array of shape (channels,) or None
    gaps : tuple of Gap
    times : Times or None
        Timestamps that define rate and gaps; `read_timing` reads them for the selected signal only.
    written : WrittenRows or None
        Rows that were written, if that is known already.
    notes : tuple of str
    problem : str
        Why the signal cannot be read, and which option to pass; empty if it can.
    advice : str
        What to do about too few channels.
    needs_rate : bool
        Whether passing a rate solves the problem.
    events : Events
        Those that the layout places at samples.
    t0 : float or None
        Unix time of the first sample, in seconds.
    timeline : callable or None
        Returns the events that the layout places in time, and the start; called for the selected signal.
    clock : SampleClock or None
        Times of the samples, if they have timestamps.
    positions : callable or None
        Returns the positions of the channels, in their order, or None; called for the selected signal.
    """

    dataset: str
    shape: tuple[int, ...]
    axis: int | None = 0
    is_reversed: bool = False
    fields: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    raw: RawFile | None = None
    rate: float | None = None
    unit: str | None = None
    channels: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    bad_rows: tuple[tuple[int, int], ...] = ()
    gain: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None
    gaps: tuple[Gap, ...] = ()
    times: Times | None = None
    written: WrittenRows | None = None
    notes: tuple[str, ...] = ()
    problem: str = ""
    advice: str = ""
    needs_rate: bool = False
    events: Events = field(default_factory=Events)
    t0: float | None = None
    timeline: Callable[[], Timeline] | None = None
    clock: SampleClock | None = None
    positions: Callable[[], Positions | None] | None = None

    @property
    def is_multichannel(self) -> bool:
        """Whether the signal has several channels and samples."""
        return len(self.shape) == 2 and min(self.shape) > 1

    def find_axis(self, stated: int | None) -> int | None:
        """Return the axis of the samples in the dataset; None if neither the layout nor the user states it.

        Parameters
        ----------
        stated : int or None
            Axis that the user states, as the program that wrote the dataset counts.
        """
        if stated is None:
            return self.axis
        return 1 - stated if self.is_reversed else stated

    def read_timing(self, what: str, *, quick: bool = False) -> "Signal":
        """Return the signal with rate and gaps from its timestamps.

        Parameters
        ----------
        what : str
            Name of the signal, for messages.
        quick : bool
            Whether to use the first timestamps only.
        """
        if self.times is None:
            return self
        try:
            found = self.times.measure(what, quick=quick)
        except RecordingError as error:
            return replace(
                self, times=None, problem=self.problem or str(error), needs_rate=not self.problem
            )
        if found is None:
            return replace(self, times=None)
        notes = self.notes
        if found.n_bridged:
            notes += (
                f"{found.n_bridged} of the timestamps are NaN or infinite; each is taken as one sampling "
                "interval after the one before",
            )
        signal = replace(self, times=None, rate=found.rate, gaps=found.gaps, notes=notes)
        if quick or self.timeline is None:
            return signal
        return replace(signal, clock=SampleClock.of_times(self.times, found.gaps))

    def place_events(self, n_samples: int) -> "Signal":
        """Return the signal with the events of its timeline, and the rows that they mark as bad.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        """
        if self.timeline is None:
            return self
        line = self.timeline()
        t0 = None if line.time_0 is None else line.time_0 + line.first
        if self.rate is None:
            return replace(self, t0=t0, timeline=None)
        clock, timed = self.clock or SampleClock.of_start(line.first), line.events
        index = clock.find_indices(timed.time, self.rate)
        events = Events(index, timed.label, timed.duration, timed.source)
        bad_rows = merge_rows(
            (*self.bad_rows, *find_bad_rows(events, self.rate, self.gaps, n_samples)), n_samples
        )
        return replace(self, t0=t0, timeline=None, events=events, bad_rows=bad_rows)


@dataclass(frozen=True)
class LayoutMatch:
    """The signals that a layout finds in a file.

    Parameters
    ----------
    layout : str
        Name of the layout.
    why : str
        How the layout was detected.
    signals : tuple of Signal
    empty_message : str
        Error message if there is no signal.
    """

    layout: str
    why: str
    signals: tuple[Signal, ...]
    empty_message: str = ""
