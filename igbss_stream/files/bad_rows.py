"""Find the rows that annotations of a file mark as bad."""

from collections.abc import Iterable, Sequence

import numpy as np

from igbss_stream.chunk import Gap
from igbss_stream.events import Events
from igbss_stream.files.gaps import get_rows

_BREAKS = ("bad_acq_skip", "bad boundary")  # these mark missing samples, which are gaps


def is_bad(description: str) -> bool:
    """Return whether an annotation marks samples as bad: it begins with "bad", in any case, as in MNE.

    The type that MNE prepends to the comments of BrainVision files does not count.
    """
    text = description.lower().removeprefix("comment/")
    return text.startswith("bad") and not text.startswith(_BREAKS)


def find_bad_rows(
    events: Events, rate: float, gaps: Sequence[Gap], n_samples: int
) -> tuple[tuple[int, int], ...]:
    """Return the rows that events with a duration mark as bad; see `is_bad`.

    Parameters
    ----------
    events : Events
    rate : float
        In Hz.
    gaps : sequence of Gap
        Of the samples.
    n_samples : int
        Number of rows.
    """
    bad = events[np.array([is_bad(label) for label in events.label], bool)]
    bad = bad[np.isfinite(bad.index) & (bad.duration > 0)]
    edges = np.round([bad.index, bad.index + bad.duration * rate]).reshape(2, -1)
    starts, stops = get_rows(gaps, edges[0]).astype(int), get_rows(gaps, edges[1]).astype(int)
    return merge_rows(zip(starts.tolist(), stops.tolist(), strict=True), n_samples)


def merge_rows(spans: Iterable[tuple[int, int]], n_samples: int) -> tuple[tuple[int, int], ...]:
    """Return spans of rows sorted, without overlaps, and cut to the rows that exist.

    Parameters
    ----------
    spans : iterable of (int, int)
        Start and stop of each span.
    n_samples : int
        Number of rows.
    """
    merged = list[tuple[int, int]]()
    for start, stop in sorted(spans):
        start, stop = max(int(start), 0), min(int(stop), n_samples)  # not NumPy's, for JSON
        if start >= stop:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return tuple(merged)


def count_rows(spans: Iterable[tuple[int, int]]) -> int:
    """Return the number of rows in spans without overlaps."""
    return sum(stop - start for start, stop in spans)
