"""Play a recording in a file as a source of the daemon."""

import re
import time
from collections.abc import Mapping
from dataclasses import replace

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.sources import SilenceMonitor
from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.events import Events
from igbss_stream.files.open import open_with_options
from igbss_stream.files.recording import Recording
from igbss_stream.playback.pacing import SYSTEM_CLOCK, Schedule
from igbss_stream.playback.replay import describe_stream, feed_events, read_chunks

_OPTION = re.compile(r"--(dataset|axis|rate|channels|factor|unit|events|montage|missing)\b")


class FileSource:
    """Play a recording as `igbss-stream replay` does, but without blocking the daemon.

    A block is due at the time of its last sample. This time follows from the index of the sample, so the
    rate does not drift.

    Parameters
    ----------
    name : str
        Name of the stream.
    config : FileInput

    Raises
    ------
    RecordingError
        If the recording cannot be read, or has no sampling rate.
    """

    def __init__(self, name: str, config: FileInput) -> None:
        self._recording = _open_recording(config)
        if self._recording.rate is None:
            self._recording.close()
            raise RecordingError(f"'{config.path}' has no sampling rate; set source.rate, in Hz.")
        stream = describe_stream(self._recording, name)
        self._samples_per_second = stream.rate * config.speed
        # In real time, samples have the time of now; as fast as possible, that of their measurement.
        starts = {0.0: self._recording.t0, 1.0: time.time()}
        self.stream: Stream | None = replace(stream, t0=starts.get(config.speed))
        self.run, self.has_pending, self.ended = 0, False, False
        self.silence = SilenceMonitor(name, float("inf"))
        self._events = feed_events(self._recording, loop=config.loop)
        block = max(1, round(config.block * stream.rate))
        self._items = read_chunks(self._recording, block, loop=config.loop)
        self._next = next(self._items, None)
        self._stop = 0  # index after the last item that was returned
        self._schedule: Schedule | None = None

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds for the next block, and return it."""
        item = self._next
        if item is None:
            self.ended = True
            return []
        if not self._wait_until_due(item, timeout):
            return []
        self._next, self._stop = next(self._items, None), item.stop
        return [item]

    def pop_events(self) -> Events:
        """Return the events of the blocks that were returned since the last call."""
        return self._events.take(self._stop)

    def get_counts(self) -> Mapping[str, int]:
        """Return no counters: nothing is lost between a file and the daemon."""
        return {}

    def close(self) -> None:
        """Close the file."""
        self._recording.close()

    def _wait_until_due(self, item: Chunk | Gap, timeout: float) -> bool:
        """Wait until an item is due, up to a number of seconds; return whether it is due."""
        if self._schedule is None:  # time starts with the first call
            self._schedule = Schedule(self._samples_per_second, SYSTEM_CLOCK)
        wait = self._schedule.get_wait(item)
        time.sleep(min(max(0.0, wait), timeout))
        return wait <= timeout


def _open_recording(config: FileInput) -> Recording:
    """Open the file; an error names keys of the configuration instead of options of commands."""
    try:
        return open_with_options(config.path, config.as_read_options())
    except IgbssError as error:
        raise RecordingError(_OPTION.sub(r"source.\1", str(error))) from error
