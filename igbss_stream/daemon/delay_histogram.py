"""Count the delays of a stream by their size."""

from bisect import bisect_left

DELAY_BOUNDS = (
    *(0.0001, 0.0002, 0.0003, 0.0005, 0.0007, 0.001, 0.0015, 0.002, 0.003, 0.005),
    *(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0),
)
"""Upper bounds of the delay histogram, in seconds."""


class DelayHistogram:
    """Count the delays between the arrival of samples and their publication.

    Attributes
    ----------
    counts : list of int
        Number of delays up to each of `DELAY_BOUNDS`, above the bound before, and above the last bound.
    total : float
        Sum of all delays, in seconds.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(DELAY_BOUNDS) + 1)
        self.total = 0.0

    def add(self, delay: float) -> None:
        """Count a delay, in seconds."""
        self.counts[bisect_left(DELAY_BOUNDS, delay)] += 1
        self.total += delay
