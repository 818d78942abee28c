"""What the caller says of a recording, in place of what its file says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from igbss_stream.errors import ParameterError


@dataclass(frozen=True)
class Wanted:
    """What to read, and what is known better than the file knows it. None leaves it to the file.

    Parameters
    ----------
    dataset : str or None
        Name of the dataset, in a file that has several.
    axis : {0, 1} or None
        Axis of the dataset that runs over samples.
    rate : float or None
        In Hz.
    channels : sequence of str, str or None
        Channels to take, in this order: names, positions from 0, ranges of positions (``"0-7"``); as one
        text with commas between.
    factor : float or None
        What stored numbers are multiplied by, in place of the scale in the file.
    unit : str or None
        Unit of the samples.

    Raises
    ------
    ParameterError
        If a value is impossible.
    """

    dataset: str | None = None
    axis: int | None = None
    rate: float | None = None
    channels: Sequence[str] | str | None = None
    factor: float | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.axis not in (None, 0, 1):
            raise ParameterError(f"axis is {self.axis!r}; it must be 0 or 1")
        if self.rate is not None and not _is_number(self.rate, above=0.0):
            raise ParameterError(f"rate is {self.rate!r}; it must be a positive number of Hz")
        if self.factor is not None and (not _is_number(self.factor, above=-math.inf) or self.factor == 0):
            raise ParameterError(f"factor is {self.factor!r}; it must be a finite number other than 0")
        if self.channels is not None and not self.channels:
            raise ParameterError("channels names no channel; leave it out to take them all")


def _is_number(value: object, *, above: float) -> bool:
    try:
        return above < float(value) < math.inf  # type: ignore[arg-type]  # what is no number raises
    except (TypeError, ValueError, OverflowError):
        return False
