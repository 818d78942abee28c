"""Cut a recording into windows for fitting; no window crosses a gap."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import split_at_gaps


@dataclass(frozen=True, slots=True)
class FitWindow:
    """Rows that are fitted together.

    Parameters
    ----------
    row, n_samples : int
        First row and number of rows.
    index : int
        Sample index of the first row, including the samples missing before it.
    """

    row: int
    n_samples: int
    index: int


def plan_windows(n_samples: int, gaps: tuple[Gap, ...], about: int, periods: int) -> list[FitWindow]:
    """Return windows that cover a recording, of about equal length between gaps.

    Parameters
    ----------
    n_samples : int
        Rows of the recording.
    gaps : tuple of Gap
    about : int
        Target length.
    periods : int
        Lengths are multiples of this, except for the last window before a gap.

    Returns
    -------
    list of Window
    """
    windows = []
    for run in split_at_gaps(gaps, n_samples):
        count = max(1, round((run.stop - run.start) / about))
        length = math.ceil((run.stop - run.start) / count / periods) * periods
        windows += [
            FitWindow(row, min(length, run.stop - row), run.index + row - run.start)
            for row in range(run.start, run.stop, max(1, length))
        ]
    return windows


def cut_windows(
    blocks: Iterable[tuple[int, NDArray[Any]]], windows: list[FitWindow]
) -> Iterator[tuple[FitWindow, NDArray[Any]]]:
    """Cut consecutive blocks into the windows that cover them.

    Parameters
    ----------
    blocks : iterable of (row, samples)
        Blocks may reuse the same memory.
    windows : list of Window

    Returns
    -------
    iterator of (Window, samples)
        The samples are valid until the next window is requested.
    """
    ahead = iter(windows)
    window, begun = next(ahead, None), list[NDArray[Any]]()
    for row, block in blocks:
        while window is not None and window.row + window.n_samples <= row + len(block):
            part = block[max(0, window.row - row) : window.row + window.n_samples - row]
            yield window, np.concatenate([*begun, part]) if begun else part
            window, begun = next(ahead, None), []
        if window is not None and window.row < row + len(block):
            begun.append(block[max(0, window.row - row) :].copy())
