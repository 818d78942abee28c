"""Rate and gaps of samples whose timestamps jitter or come in bursts."""

import itertools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from igbss_stream.chunk import Gap
from igbss_stream.feeds.timestamps import TimestampIndexer
from igbss_stream.files.gaps import LONGEST_GAP, get_gap_rows, make_gaps

_LONG = 10.0  # times the usual step that rises, above which a step is a pause and no jitter
_LEAST_SLOPE = 1e-300  # units of time per sample
_MOST, _BEYOND = 0.99, 3.0  # share of the steps that are no pauses, and times the longest of them


def estimate_rate(times: ArrayLike) -> float | None:
    """Return the mean rate of samples with uneven times, per unit of time; None if there is none.

    Pauses much longer than most are left out. The median of the steps would be wrong: it is 0 in bursts.

    Parameters
    ----------
    times : array of shape (samples,)
    """
    steps = np.diff(np.asarray(times)).astype(np.float64)
    steps = steps[np.isfinite(steps)]
    rising = steps[steps > 0]
    if not len(rising):
        return None
    usual = max(_LONG * float(np.median(rising)), _BEYOND * float(np.quantile(np.abs(steps), _MOST)))
    is_pause = np.abs(steps) > usual
    if is_pause.all():
        return None
    return _fit_rate(np.where(is_pause, np.mean(steps[~is_pause]), steps))


def _fit_rate(steps: NDArray[np.float64]) -> float | None:
    """Return the slope of a line through samples, of which whole bursts count; None if it does not rise."""
    rises = np.flatnonzero(steps > 0)
    if len(rises) < 2:
        return None
    time = np.cumsum(steps[rises[0] + 1 : rises[-1] + 1])
    row = np.arange(len(time)) - (len(time) - 1) / 2
    slope = float(row @ (time - time.mean())) / max(float(row @ row), 1.0)
    return 1 / slope if _LEAST_SLOPE < slope < np.inf else None


def measure_mean_rate(times: NDArray[np.float64], gaps: tuple[Gap, ...]) -> float | None:
    """Return the rate in the longest run without a gap; None if the timestamps do not give one."""
    edges = [0, *get_gap_rows(gaps), len(times)]
    first, stop = max(itertools.pairwise(edges), key=lambda edge: edge[1] - edge[0])
    return _fit_rate(np.diff(times[first:stop]))


def find_stream_losses(times: NDArray[np.float64], rate: float) -> tuple[tuple[Gap, ...], bool]:
    """Return the gaps by the rules of a live stream, and whether the rate is certainly another one.

    See `TimestampIndexer`.
    """
    if not len(times) or not np.isfinite(times).all():
        return (), False
    if (float(times.max()) - float(times.min())) * rate > LONGEST_GAP:
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
