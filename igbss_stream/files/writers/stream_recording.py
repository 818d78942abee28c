"""Record a stream to HDF5 while it runs.

Any HDF5 reader can open the file at any moment, while it is written and after the writer was killed.
docs/recording.md describes its content, and `growing_hdf5` how it is written.
"""

import logging
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from igbss_stream._util.closeable import Closeable
from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import IgbssError, ParameterError, RecordingError, printable
from igbss_stream.events import NO_EVENTS, Events
from igbss_stream.feeds.model_facts import LearningFacts
from igbss_stream.files.event_table import NAME as EVENTS
from igbss_stream.files.writers.continuation import find_continuation, measure_pause
from igbss_stream.files.writers.growing_hdf5 import GrowingFile
from igbss_stream.files.writers.learning_table import LEARNING, LearningStatement, as_learning_row
from igbss_stream.files.writers.recorded_events import LATE_EVENTS, RecordedEvents
from igbss_stream.files.writers.recording_layout import (
    IF_EXISTS,
    MODEL,
    IfExists,
    as_gap_row,
    check_shape,
    choose_path,
    create_recording,
    describe_stream,
    explain_difference,
    find_free_path,
    make_tables,
)
from igbss_stream.files.writers.rotation import Rotation

log = logging.getLogger(__name__)

_CAPACITY = 1 << 16  # gaps, and model changes, in one file; unused room takes no disk space
_RETRY = 1.0  # seconds until a file that could not be opened is tried again


class RecordingSink(Closeable):
    """Records a stream to an HDF5 file that is readable at any moment, even after a kill.

    A context manager that closes the file. After a kill, the file contains everything that was written
    until `flush_every` seconds before. Recording continues in the next numbered file, ``NAME-2.h5`` and so
    on, if the stream is described anew with other channels, rate, unit or type, if the file was deleted or
    renamed, and after 65536 gaps or model changes. The log says so.

    Parameters
    ----------
    path : str or path
        The file.
    flush_every : float
        Largest delay in seconds until readers see written samples, if `write` or `serve` is called that
        often; 0 makes them visible at once.
    if_exists : {"refuse", "overwrite", "append", "number"}
        What to do if the file exists. ``"append"`` continues the last numbered file after a gap with the
        reason ``"restart"``, or begins the next one if that is not possible; ``"number"`` always begins the
        next one.
    rotate : Rotation, optional
        Begin a new file after a time or a size. All files are then named by the time at which they begin,
        such as ``NAME-20260131T130000Z.h5``, so none exists.

    Attributes
    ----------
    path : Path
        The file that is written.
    n_recorded : int
        Number of samples that were written to all files.
    n_unrecorded : int
        Number of samples that could not be written, e.g. while the disk was full.

    Raises
    ------
    ParameterError
        If an option is invalid.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        flush_every: float = 1.0,
        if_exists: IfExists = "refuse",
        rotate: Rotation | None = None,
    ) -> None:
        if if_exists not in IF_EXISTS:
            raise ParameterError(
                f"if_exists must be one of {', '.join(IF_EXISTS)}. Got {if_exists!r} instead."
            )
        if not 0 <= flush_every < float("inf"):
            raise ParameterError(f"flush_every must be 0 s or more. Got {flush_every!r} instead.")
        self.path = Path(path)
        self.n_recorded = self.n_unrecorded = 0
        self._asked = self.path
        self._if_exists, self._rotate = if_exists, rotate
        self._flush_every = flush_every
        self._file: GrowingFile | None = None
        self._is_first = True  # whether no file was opened yet
        self._began = 0.0  # Unix time at which the file was begun
        self._failure: tuple[float, str] | None = None  # when to open again, and why opening failed
        self._stream: Stream | None = None
        self._extra: Mapping[str, Any] | None = None
        self._model: int | None = None  # version of the last samples in the file
        self._learning, self._events = LearningStatement(), RecordedEvents()
        self._first: int | None = None  # first index of this run
        self._shift: int | None = None  # file index minus index of this run
        self._gap: Gap | None = None  # last gap of this run in the file, in file indices
        self._due = 0.0
        self._stop: int | None = None  # next file index
        self._t0: float | None = None  # time of file index 0

    @property
    def n_events_unrecorded(self) -> int:
        """Number of events that could not be written, e.g. because the disk was full for long."""
        return self._events.n_dropped

    @property
    def n_samples(self) -> int:
        """Number of samples in the file, including those not visible to readers yet."""
        return 0 if self._file is None else self._file.lengths["data"]

    def start(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Open the file, and write the description of the stream.

        Another call starts another run after a gap with the reason ``"restart"``, or in a new file if the
        samples of this run do not fit into the first.

        Parameters
        ----------
        stream : Stream
        extra : mapping, optional
            Additional information to store; must be serialisable as JSON.

        Raises
        ------
        RecordingError
            If the file exists and must not be changed, is in use, is not a recording, or cannot be written.
        ParameterError
            If the description is too large, e.g. more than 4000 channels.
        """
        self.set_stream(stream, extra)
        if self._file is None:
            self._open()

    def set_stream(self, stream: Stream, extra: Mapping[str, Any] | None = None) -> None:
        """Describe the next run, as `start` does, but let the first `write` open the file."""
        if self._stream is not None:
            difference = explain_difference(describe_stream(self._stream), stream)
            if difference:
                self._leave_file(logging.WARNING, difference)
                self._stop = self._t0 = None
        self._stream, self._extra = stream, extra
        self._model = self._shift = self._first = self._failure = None
        self._learning.forget()
        self._events.begin_run()

    def set_learning(self, learning: LearningFacts | None) -> None:
        """State how a model was learned, if that is known; written with the next samples of this model."""
        self._learning.known = learning

    def write(self, item: Chunk | Gap) -> None:
        """Write samples or a gap. The array may be changed afterwards.

        A gap that continues the previous one for the same reason extends it.

        Parameters
        ----------
        item : Chunk or Gap
            If it does not continue the previous item, a gap with the reason ``"unrecorded"`` is inserted.

        Raises
        ------
        RecordingError
            If it cannot be written. The file stays readable with everything written before; writing may be
            tried again, or continue with later samples.
        ValueError
            If it begins before the end of the previous item, or has another number of channels.
        RuntimeError
            If no stream was started.
        """
        n_samples = len(item.data) if isinstance(item, Chunk) else 0
        try:
            if self._flush_every > 0 and time.monotonic() >= self._due:
                self.flush()  # what is in the file has its events by now, the item has not
            self._write_item(item)
        except IgbssError:
            self.n_unrecorded += n_samples
            raise
        self.n_recorded += n_samples
        self.write_events(NO_EVENTS)
        if self._flush_every == 0:
            self.flush()

    def write_events(self, events: Events) -> None:
        """Write events after the samples that they belong to; those of a run that has no samples yet wait.

        Readers see the events of an item together with its samples if they are written before the next
        item, and those of samples that they already see at once.

        Parameters
        ----------
        events : Events
            With the indices of the items of this run.

        Raises
        ------
        RecordingError
            If they cannot be written. They are written with the next samples or events.
        """
        self._events.add(events)
        if self._stream is None:
            return
        first_row = self._events.write(self._file, self._shift, self._stream.rate)
        if self._file is not None and first_row < self._file.n_visible - 0.5:  # of the nearest sample
            self.flush()

    def serve(self) -> None:
        """Flush if `flush_every` seconds have passed, and close a file whose period is over.

        Call it a few times per second, and after the events of the samples were written.
        """
        if self._file and self._rotate and self._rotate.is_over(self._began, time.time()):
            self._leave_file(logging.INFO)
        elif time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Make all written samples visible to readers; they then survive a kill of the process.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        if self._file is None:
            return
        self._due = time.monotonic() + self._flush_every
        if self._file.is_in_place:
            self._file.commit()
        else:
            self._leave_file(logging.WARNING, "it was deleted or renamed")

    def close(self) -> None:
        """Flush to the disk and close. Closing it twice is allowed.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _leave_file(self, level: int, reason: str = "") -> None:
        """Close the file; the next item opens another one. An error is only logged."""
        file, self._file, self._model, self._gap = self._file, None, None, None
        self._learning.forget()
        if file is None:
            return
        try:
            file.close(wait=False)
        except RecordingError as error:
            log.error("%s", error)
        if reason:
            follows = "a new file" if self._rotate else f"'{find_free_path(self._asked)}'"
            text = "'%s' is closed, and the recording continues in %s: %s"
            log.log(level, text, self.path, follows, printable(reason))

    def _open(self) -> None:
        """Open the first or the next file."""
        stream = self._stream
        if stream is None:
            raise RuntimeError("call start before write")
        if self._failure is not None and time.monotonic() < self._failure[0]:
            raise RecordingError(self._failure[1])
        try:
            if not self._try_to_append(stream):
                self._create(stream)
        except IgbssError as error:
            self._failure = time.monotonic() + _RETRY, str(error)
            raise
        self._due = time.monotonic() + self._flush_every
        if self._rotate is not None or (self._is_first and self.path != self._asked):
            log.info("recording %s to '%s'", printable(stream.name), self.path)
        self._failure, self._is_first = None, False
        self._events.begin_file()

    def _create(self, stream: Stream) -> None:
        """Create a file; its indices continue those of the file before, if there was one."""
        now = time.time()
        path = choose_path(self._asked, self._if_exists if self._is_first else "number", self._rotate, now)
        t0 = stream.t0 if self._stop is None else self._t0
        described = replace(stream, t0=t0)
        self._file = create_recording(path, described, self._extra, _CAPACITY, wait=self._is_first)
        self.path, self._began, self._t0 = path, now, t0

    def _try_to_append(self, stream: Stream) -> bool:
        """Open the last recording to append to it; return False if there is none that can be continued."""
        may_append = self._is_first and self._if_exists == "append" and self._rotate is None
        if not (may_append and os.path.lexists(self._asked)):
            return False
        if (found := find_continuation(self._asked, stream, make_tables(stream, _CAPACITY))) is None:
            return False
        self._file, self.path, self._t0, self._stop = found.file, found.path, found.t0, found.stop
        return True

    def _write_item(self, item: Chunk | Gap) -> None:
        if isinstance(item, Chunk) and self._stream is not None:
            check_shape(item, self._stream)
        if self._first is None:
            self._first = item.start
        if self._file is not None and self._is_full(item):
            self._leave_file(logging.INFO)
        if self._file is None:
            self._open()
        start = self._find_start(item)
        if isinstance(item, Gap):
            self._write_gap(start, item.n_samples, item.reason)
        elif len(item.data):
            self._write_chunk(item, start)

    def _is_full(self, item: Chunk | Gap) -> bool:
        """Return whether an item belongs into the next file."""
        if self._rotate is None or self._file is None:
            return False
        n_bytes = self._file.count_data_bytes(len(item.data)) if isinstance(item, Chunk) else 0
        return self._rotate.is_over(self._began, time.time()) or (
            self.n_samples > 0 and self._rotate.exceeds(n_bytes)
        )

    def _find_start(self, item: Chunk | Gap) -> int:
        """Return the file index of an item; write a gap for missing samples before it."""
        if self._shift is None:
            self._shift = self._begin_run(item.start if self._first is None else self._first)
        start = item.start + self._shift
        if self._stop is None:
            self._stop = start
        if start < self._stop:
            raise ValueError(
                f"index {item.start} is already recorded; continue at {self._stop - self._shift}"
            )
        if start > self._stop:
            self._write_gap(self._stop, start - self._stop, "unrecorded")
        return start

    def _begin_run(self, first: int) -> int:
        """Write the gap since the previous run, measured by the clock if known; return the shift."""
        if self._stop is None or self._stream is None:
            return 0
        self._gap = None  # do not extend a gap of the previous run
        self._write_gap(self._stop, measure_pause(self._stream, first, self._t0, self._stop), "restart")
        return self._stop - first

    def _write_gap(self, start: int, n_samples: int, reason: str) -> None:
        gap = Gap(start, n_samples, reason)
        if self._file is not None and self._gap is not None and gap.continues(self._gap):
            gap = Gap(self._gap.start, gap.stop - self._gap.start, reason)
            self._file.amend("gaps", as_gap_row(gap, self._file.lengths["data"]))
        else:
            file = self._get_file_with_room("gaps")
            file.append("gaps", as_gap_row(gap, file.lengths["data"]))
        self._gap, self._stop = gap, gap.stop

    def _write_chunk(self, chunk: Chunk, start: int) -> None:
        file = self._get_file_with_room("models")
        file = self._get_file_with_room(EVENTS, LATE_EVENTS)
        if (learning := self._learning.find_unstated(chunk)) is not None:
            file = self._get_file_with_room(LEARNING)
        before = dict(file.lengths)
        try:
            if chunk.model_version != self._model:
                file.append("models", np.array([(before["data"], start, chunk.model_version)], MODEL))
            if learning is not None:
                file.append(LEARNING, as_learning_row(learning, before["data"]))
            file.append("data", chunk.data)
        except RecordingError:
            file.lengths.update(before)
            raise
        self._learning.note(learning)
        self._events.note_samples(start, before["data"])
        self._model, self._stop = chunk.model_version, start + len(chunk.data)

    def _get_file_with_room(self, name: str, n_rows: int = 1) -> GrowingFile:
        """Return the file, or open the next one if the table of this name has no room for the rows."""
        if self._file is not None and not self._file.has_room(name, n_rows):
            self._leave_file(logging.INFO, f"its table of {name} is full")
        if self._file is None:
            self._open()
        assert self._file is not None
        return self._file
