"""Find a value that stands out from all others, as one that means "missing" does: -200, -9999."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3  # times that a value must occur
_DISTINCT = 8  # other values that a channel must have
_FAR = 2.0  # distance to the other values, in ranges of these
_FAR_IN_SEVERAL = 0.4  # the same, where several channels have the value


def find_outstanding_value(samples: NDArray[Any]) -> tuple[float, int] | None:
    """Return a value far below or above all others, and how often it occurs; None without one.

    Parameters
    ----------
    samples : array of shape (samples, channels)
    """
    found: dict[float, list[tuple[float, int]]] = {}
    for column in np.asarray(samples, np.float64).T:
        column = column[np.isfinite(column)]
        if len(column) < _DISTINCT + _FEWEST:
            continue
        for extreme in {float(column.min()), float(column.max())}:
            is_extreme = column == extreme
            n = int(is_extreme.sum())
            if n < _FEWEST:
                continue
            rest = column[~is_extreme]
            if len(rest) < _DISTINCT or len(np.unique(rest[: 50 * _DISTINCT])) < _DISTINCT:
                continue
            distance = float(np.min(np.abs(rest - extreme)) / np.ptp(rest))
            found.setdefault(extreme, []).append((distance, n))
    for value, channels in sorted(found.items(), key=lambda item: -len(item[1])):
        farthest = max(distance for distance, _ in channels)
        enough = _FAR_IN_SEVERAL if len(channels) > 1 else _FAR
        if farthest > _FAR or (len(channels) > 1 and min(d for d, _ in channels) > enough):
            return value, sum(n for _, n in channels)
    return None
