"""Options that select what to read from a file and override what it states."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from igbss_stream.errors import ParameterError


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a recording. None leaves a value to the file.

    Parameters
    ----------
    dataset : str or None
        Name of the dataset, in a file with several.
    axis : {0, 1} or None
        Axis of the dataset that runs over samples; in MATLAB files, 0 if rows are samples.
    rate : float or None
        Sampling rate in Hz.
    channels : sequence of str, str or None
        Channels to read, in this order: names, positions from 0, or ranges of positions (``"0-7"``).
        A single string separates them by commas.
    factor : float or None
        Factor for the stored numbers; replaces the scale in the file.
    unit : str or None
        Unit of the samples.
    events : sequence of str, str or None
        Trigger channels, columns of text, or marker streams whose events are read. A single string
        separates them by commas.
    montage : str or None
        File with positions of the channels, or name of a montage of MNE.
    missing : float or None
        Stored number that means that a sample is missing; it is read as NaN.

    Raises
    ------
    ParameterError
        If a value is invalid.
    """

    dataset: str | None = None
    axis: int | None = None
    rate: float | None = None
    channels: Sequence[str] | str | None = None
    factor: float | None = None
    unit: str | None = None
    events: Sequence[str] | str | None = None
    montage: str | None = None
    missing: float | None = None

    def __post_init__(self) -> None:
        if self.axis not in (None, 0, 1):
            raise ParameterError(f"axis must be 0 or 1. Got {self.axis!r} instead.")
        if self.rate is not None and not _is_number(self.rate, above=0.0):
            raise ParameterError(f"rate must be a positive number of Hz. Got {self.rate!r} instead.")
        if self.factor is not None and (not _is_number(self.factor, above=-math.inf) or self.factor == 0):
            raise ParameterError(
                f"factor must be a finite number other than 0. Got {self.factor!r} instead."
            )
        if self.missing is not None and not _is_number(self.missing, above=-math.inf):
            raise ParameterError(f"missing must be a finite number. Got {self.missing!r} instead.")
        if self.channels is not None and not self.channels:
            raise ParameterError("channels is empty; omit it to read all channels.")
        if self.montage is not None and not self.montage:
            raise ParameterError(
                "montage is empty; omit it, or pass a file or a name.", parameter="montage"
            )
        if self.events is not None and not self.events:
            raise ParameterError("events is empty; omit it, or name a column, channel or marker stream.")

    @property
    def event_names(self) -> tuple[str, ...]:
        """Names in `events`; empty if it is not given."""
        if self.events is None:
            return ()
        names = self.events.split(",") if isinstance(self.events, str) else self.events
        return tuple(name.strip() for name in names if name.strip())


def _is_number(value: object, *, above: float) -> bool:
    try:
        return above < float(value) < math.inf  # type: ignore[arg-type]  # raises if it is not a number
    except (TypeError, ValueError, OverflowError):
        return False
