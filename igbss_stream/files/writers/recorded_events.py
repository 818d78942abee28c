"""The events of a recording: the table that grows with the samples, and the events that wait for it."""

import math
from bisect import bisect_right
from collections import deque

import h5py
import numpy as np

from igbss_stream.events import LONGEST_TEXT, Event, Events, cut_text
from igbss_stream.files.event_table import NAME
from igbss_stream.files.writers.growing_hdf5 import GrowingFile
from igbss_stream.files.writers.growing_header import Table

LATE_EVENTS = 1 << 10
"""Number of rows that must be free when samples are written, for their events, which are written later."""

_BYTES = 1 << 24  # of the table
_MOST_WAITING = 1 << 16
_MOST_RUNS = 1 << 12  # runs of rows whose place is remembered
_TEXT = h5py.string_dtype("utf-8", LONGEST_TEXT)
_ROW = np.dtype(
    [
        *((name, "<f8") for name in ("row", "index", "time", "duration")),
        ("label", _TEXT),
        ("source", _TEXT),
    ]
)


def make_growing_event_table() -> Table:
    """Return the table; its columns are those of the table of events in an output."""
    return Table(NAME, _ROW, (), _BYTES // _ROW.itemsize)


class RecordedEvents:
    """Write events to a recording, once the place of their samples in the file is known.

    Attributes
    ----------
    n_dropped : int
        Number of events that were dropped because more than 65536 waited, as on a full disk.
    """

    def __init__(self) -> None:
        self.n_dropped = 0
        self._early: list[Event] = []  # before the first samples of their run, in indices of the run
        self._waiting: list[Event] = []  # in indices of the file
        self._runs: deque[tuple[int, int]] = deque(maxlen=_MOST_RUNS)  # first index and row

    def begin_run(self) -> None:
        """Begin another run, whose indices may begin again."""
        self.n_dropped += len(self._early)
        self._early.clear()

    def begin_file(self) -> None:
        """Begin or continue another file."""
        self._runs.clear()

    def note_samples(self, start: int, row: int) -> None:
        """Note the row of samples that begin at an index of the file."""
        if not self._runs or start - row != self._runs[-1][0] - self._runs[-1][1]:
            self._runs.append((start, row))

    def add(self, events: Events) -> None:
        """Add events, in indices of the present run."""
        self._early += events
        excess = len(self._early) + len(self._waiting) - _MOST_WAITING
        if excess > 0:
            self.n_dropped += excess
            del self._early[max(0, len(self._early) - excess) :]

    def write(self, file: GrowingFile | None, shift: int | None, rate: float) -> float:
        """Write the events that wait, and return the smallest of their rows; infinite if there are none.

        Parameters
        ----------
        file : GrowingFile or None
            None if no file is open; the events then wait.
        shift : int or None
            Index of the file minus that of the present run; None before the first samples of the run.
        rate : float
            In Hz.

        Returns
        -------
        float

        Raises
        ------
        RecordingError
            If they cannot be written. They wait for the next call.
        """
        if shift is not None and self._early:
            early = Events.from_rows(self._early)
            self._waiting += early.move(early.index + shift)
            self._early.clear()
        if not self._waiting or file is None or not self._runs:
            return math.inf
        room = _BYTES // _ROW.itemsize - file.lengths[NAME]
        rows = [self._as_row(event, file.lengths["data"], rate) for event in self._waiting[:room]]
        if rows:
            file.append(NAME, np.array(rows, _ROW))
            del self._waiting[: len(rows)]
        return min((float(row[0]) for row in rows), default=math.inf)

    def _as_row(self, event: Event, n_rows: int, rate: float) -> tuple[float | bytes, ...]:
        label, source = (cut_text(text).encode() for text in (event.label, event.source))
        row = self._find_row(event.index, n_rows)
        return row, event.index, event.index / rate, event.duration, label, source

    def _find_row(self, index: float, n_rows: int) -> float:
        """Return the row of an index, with its fraction; within a gap, the row after it."""
        k = bisect_right(self._runs, index, key=lambda run: run[0]) - 1
        if k < 0:
            return float(self._runs[0][1])
        start, row = self._runs[k]
        stop = self._runs[k + 1][1] if k + 1 < len(self._runs) else n_rows
        return float(min(row + index - start, stop))
