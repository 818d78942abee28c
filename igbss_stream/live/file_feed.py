"""A recording as a feed: its blocks when they are due."""

import time
from collections.abc import Mapping

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.errors import RecordingError
from igbss_stream.ingest.hdf5 import open_recording
from igbss_stream.live.feed import Silence
from igbss_stream.live.feeds import Hdf5Replay


class FileFeed:
    """Plays a recording in an HDF5 file.

    Block n is due n block lengths after the first, so that the rate does not drift. Indices go on where a
    loop begins again, behind a gap of zero samples.

    Parameters
    ----------
    name : str
        Of the stream.
    config : Hdf5Replay

    Raises
    ------
    RecordingError
        If the recording cannot be read, or has no rate.
    """

    def __init__(self, name: str, config: Hdf5Replay) -> None:
        self._recording = open_recording(config.path, config.dataset, config.axis, config.rate)
        recording = self._recording
        if recording.rate is None:
            recording.close()
            raise RecordingError(f"'{config.path}' does not say its rate: set source.rate, in Hz.")
        self.stream: Stream | None = Stream(
            name, recording.rate, tuple(recording.channels), recording.unit, recording.dtype, time.time()
        )
        self.ended = False
        self.silence = Silence(name, float("inf"))
        self._length = max(1, round(config.block * recording.rate))
        self._loop, self._speed = config.loop, config.speed
        self._blocks = recording.blocks(self._length)
        self._first = 0  # index of the first sample of this time round
        self._next = 0  # index after the last sample that came
        self._began: float | None = None

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to so many seconds for the next block, and return it."""
        if not self._is_due(timeout):
            return []
        following = next(self._blocks, None)
        if following is not None:
            start, block = following
            self._next = self._first + start + len(block)
            return [Chunk(block.copy(), self._first + start)]  # the next block lies in the same memory
        if not self._loop:
            self.ended = True
            return []
        self._first += self._recording.n_samples
        self._blocks = self._recording.blocks(self._length)
        return [Gap(self._first, 0, "restart")]

    def counts(self) -> Mapping[str, int]:
        """Return no counters: nothing is lost on the way from a file."""
        return {}

    def close(self) -> None:
        """Close the file."""
        self._recording.close()

    def _is_due(self, timeout: float) -> bool:
        """Wait for the next block, up to so many seconds; return whether it is due."""
        if self._speed == 0.0 or self.stream is None:
            return True
        now = time.monotonic()
        if self._began is None:
            self._began = now
        wait = self._began + self._next / (self.stream.rate * self._speed) - now
        time.sleep(min(max(0.0, wait), timeout))
        return wait <= timeout
