"""A recording cut into windows that are fitted, none of them across a place where samples are missing."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from igbss_stream.chunk import Gap
from igbss_stream.files.gaps import split_at_gaps


@dataclass(frozen=True, slots=True)
class Window:
    """Rows that are fitted together.

    Parameters
    ----------
    row, n_samples : int
        The first row, and how many there are.
    index : int
        Of the first row, counted with the samples that are missing before it.
    """

    row: int
    n_samples: int
    index: int


def planned(n_samples: int, gaps: tuple[Gap, ...], about: int, periods: int) -> list[Window]:
    """Return windows that cover a recording, of about equal length between one gap and the next.

    Parameters
    ----------
    n_samples : int
        Rows of the recording.
    gaps : tuple of Gap
    about : int
        Wanted length.
    periods : int
        Length is a whole number of these, but for the last window before a gap.

    Returns
    -------
    list of Window
    """
    windows = []
    for run in split_at_gaps(gaps, n_samples):
        count = max(1, round((run.stop - run.start) / about))
        length = math.ceil((run.stop - run.start) / count / periods) * periods
        windows += [
            Window(row, min(length, run.stop - row), run.index + row - run.start)
            for row in range(run.start, run.stop, max(1, length))
        ]
    return windows


def cut(
    blocks: Iterable[tuple[int, NDArray[Any]]], windows: list[Window]
) -> Iterator[tuple[Window, NDArray[Any]]]:
    """Cut blocks, which follow each other, into windows, which cover them.

    Parameters
    ----------
    blocks : iterable of (row, samples)
        The samples may lie in the same memory each time.
    windows : list of Window

    Returns
    -------
    iterator of (Window, samples)
        The samples hold good only until the next window is asked for.
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
