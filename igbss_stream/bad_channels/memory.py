"""What a stream has learned of its channels, for the next run of the daemon."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.errors import RecordingError

COLUMNS = np.dtype(
    [
        ("level", "f8"),  # recent mean
        ("n_good", "i8"),  # cells in which the channel was good
        ("longest_run", "i8"),  # that is usual, in samples
        ("n_run_cells", "i8"),  # that this was learned from
        ("largest_deviation", "f8"),  # from the prediction by the others, in standard deviations
        ("low", "f8"),
        ("high", "f8"),
        ("kind", "S16"),  # of its fault; empty if it is good
    ]
)
"""What is stored of each channel."""


_MOST_LAGS = 4
_LARGEST = 512  # channels at all lags: the cost of a prediction is bounded


def count_lags(n_channels: int) -> int:
    """Return how many samples, the present one included, a channel is predicted from."""
    return max(1, min(_MOST_LAGS, _LARGEST // n_channels))


@dataclass(frozen=True, eq=False)
class ChannelMemory:
    """What a stream has learned of its channels.

    Parameters
    ----------
    channels : tuple of str
    rate : float
        In Hz.
    unit : str or None
    covariance : ndarray of shape (lags, channels, channels)
        Of the channels, and with the channels one sample earlier, and so on.
    table : structured array of shape (channels,)
        With `COLUMNS`.
    n_cells, n_rows : int
        Number of cells that the covariance was learned from, and of their samples.
    n_leap_cells : int
        Number of cells that the largest deviations were learned from.

    Raises
    ------
    RecordingError
        If the arrays do not fit each other.
    """

    channels: tuple[str, ...]
    rate: float
    unit: str | None
    covariance: NDArray[np.float64] = field(repr=False)
    table: NDArray[Any] = field(repr=False)
    n_cells: int
    n_rows: int
    n_leap_cells: int

    def __post_init__(self) -> None:
        n, covariance = len(self.channels), self.covariance
        fits = (
            covariance.shape == (count_lags(n), n, n)
            and self.table.shape == (n,)
            and self.table.dtype == COLUMNS
        )
        if not fits or not np.isfinite(covariance).all() or (np.diagonal(covariance[0]) < 0).any():
            raise RecordingError("what it has of bad channels does not fit together")
        counts = (self.n_cells, self.n_rows, self.n_leap_cells)
        numbers = [self.table[name] for name in COLUMNS.names or () if name != "kind"]
        if min(counts) < 0 or any(np.isnan(values).any() for values in numbers):
            raise RecordingError("what it has of bad channels has values that are not numbers")

    def fits(self, channels: tuple[str, ...], rate: float, unit: str | None) -> bool:
        """Return whether the memory is of a stream with these channels, this rate and this unit."""
        return (self.channels, self.rate, self.unit) == (channels, rate, unit)
