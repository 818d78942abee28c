"""Rate and gaps of samples whose timestamps jitter or come in bursts."""

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.chunk import Gap
from igbss_stream.feeds.timestamps import TimestampIndexer
from igbss_stream.files.gaps import get_gap_rows, make_gaps

_LONG = 10.0  # times the usual pause between two times, above which a pause is no jitter


def estimate_rate(times: ArrayLike) -> float | None:
    """Return the mean rate of samples with uneven times, per unit of time; None if there is none.

    Pauses much longer than most are left out. The median of the steps would be wrong: it is 0 in bursts.

    Parameters
    ----------
    times : array of shape (samples,)
    """
    x = np.asarray(times)
    steps = np.diff(x).astype(np.float64)
    steps = steps[np.isfinite(steps)]
    rising = steps[steps > 0]
    if not len(rising):
        return None
    kept = steps[np.abs(steps) <= _LONG * np.median(rising)]
    passed = float(kept.sum())
    return len(kept) / passed if passed > 0 else None


def measure_mean_rate(times: NDArray[np.float64], gaps: tuple[Gap, ...]) -> float | None:
    """Return the rate in the longest run without a gap; None if the timestamps do not give one."""
    edges = [0, *get_gap_rows(gaps), len(times)]
    first, stop = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
    passed = float(times[stop - 1] - times[first])
    return (stop - first - 1) / passed if 0 < passed < np.inf else None


def find_stream_losses(times: NDArray[np.float64], rate: float) -> tuple[tuple[Gap, ...], bool]:
    """Return the gaps by the rules of a live stream, and whether the rate is certainly another one.

    See `TimestampIndexer`.
    """
    if not np.isfinite(times).all():
        return (), False
    indexer, rows, second = TimestampIndexer(rate), np.arange(len(times))[:, None], max(1, round(rate))
    places, row = list[tuple[int, int, str]](), 0
    items = [
        item
        for at in range(0, len(times), second)
        for item in indexer.push(rows[at : at + second], times[at : at + second])
    ]
    for item in [*items, *indexer.flush()]:
        if isinstance(item, Gap):
            places.append((row, item.n_samples, item.reason))
        else:
            row += len(item.data)
    found = make_gaps(place for place in places if 0 < place[0] < len(times))
    return found, indexer.measured_rate is not None
