"""What a layout says of the samples in an HDF5 file, before any is read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.errors import RecordingError
from igbss_stream.files.timing import Times


@dataclass(frozen=True)
class RawFile:
    """Samples in a file of plain numbers beside the HDF5 file, sample after sample.

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
    """Where samples are, and what is known of them.

    Parameters
    ----------
    dataset : str
        Full name of the dataset.
    shape : tuple of int
        (samples, channels) as they would be handed over.
    axis : int or None
        Axis that runs over samples; None if the layout leaves it open.
    fields : tuple of str
        Fields of a compound type that hold the samples; empty for a plain dataset.
    raw : RawFile or None
        The file that holds the samples instead of the dataset.
    rate : float or None
    unit : str or None
        Of the samples, after `gain` and `offset`.
    channels, types, bad : tuple of str
        Names may be missing; types too.
    gain, offset : array of shape (channels,) or None
    gaps : tuple of Gap
    times : Times or None
        What tells rate and breaks; read only when it is known that this signal is meant, by `timed`.
    notes : tuple of str
    trouble : str
        Why it cannot be read with these facts alone, and what to pass; empty if it can.
    advice : str
        What else to say where there are too few channels.
    untimed : bool
        Whether the trouble is one of time: it ends where the caller gives a rate.
    """

    dataset: str
    shape: tuple[int, ...]
    axis: int | None = 0
    fields: tuple[str, ...] = ()
    raw: RawFile | None = None
    rate: float | None = None
    unit: str | None = None
    channels: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    bad: tuple[str, ...] = ()
    gain: NDArray[np.float64] | None = None
    offset: NDArray[np.float64] | None = None
    gaps: tuple[Gap, ...] = ()
    times: Times | None = None
    notes: tuple[str, ...] = ()
    trouble: str = ""
    advice: str = ""
    untimed: bool = False

    @property
    def several(self) -> bool:
        """Whether it has several channels and samples, so that it could be meant."""
        return len(self.shape) == 2 and min(self.shape) > 1

    def timed(self, what: str, *, glance: bool = False) -> "Signal":
        """Return the signal with what its times tell, all of them or the first ones.

        Parameters
        ----------
        what : str
            What it is called in a message.
        glance : bool
        """
        if self.times is None:
            return self
        try:
            found = self.times.timing(what, glance=glance)
        except RecordingError as error:
            return replace(self, times=None, trouble=self.trouble or str(error), untimed=not self.trouble)
        if found is None:
            return replace(self, times=None)
        return replace(self, times=None, rate=found.rate, gaps=found.gaps)


@dataclass(frozen=True)
class Contents:
    """What a layout finds in a file.

    Parameters
    ----------
    layout : str
        Its name.
    why : str
        What the file was told by.
    signals : tuple of Signal
    nothing : str
        What to say if there is no signal.
    """

    layout: str
    why: str
    signals: tuple[Signal, ...]
    nothing: str = ""
