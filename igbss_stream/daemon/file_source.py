"""A recording as a feed: its blocks when they are due."""

import re
import time
from collections.abc import Mapping
from dataclasses import replace

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import FileInput
from igbss_stream.daemon.sources import Silence
from igbss_stream.errors import IgbssError, RecordingError
from igbss_stream.files.open import open_file_of_any_kind
from igbss_stream.files.recording import Recording
from igbss_stream.playback.replay import chunks, stream_of

_OPTION = re.compile(r"--(dataset|axis|rate|channels|factor|unit)\b")


class FileFeed:
    """Plays a recording in a file, as `igbss-stream replay` does, but without holding the daemon up.

    A block is due when its last sample would have been taken; that follows from its index, so that the
    rate does not drift.

    Parameters
    ----------
    name : str
        Of the stream.
    config : FileInput

    Raises
    ------
    IgbssError
        If the recording cannot be read, or has no rate.
    """

    def __init__(self, name: str, config: FileInput) -> None:
        self._recording = _opened(config)
        if self._recording.rate is None:
            self._recording.close()
            raise RecordingError(f"'{config.path}' does not say its rate: set source.rate, in Hz.")
        stream = stream_of(self._recording, name)
        self._samples_per_second = stream.rate * config.speed
        # at another speed than 1 samples have no time of day
        self.stream: Stream | None = replace(stream, t0=time.time()) if config.speed == 1 else stream
        self.ended = False
        self.silence = Silence(name, float("inf"))
        block = max(1, round(config.block * stream.rate))
        self._items = chunks(self._recording, block, loop=config.loop)
        self._following = next(self._items, None)
        self._began: float | None = None

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to so many seconds for the next block, and return it."""
        item = self._following
        if item is None:
            self.ended = True
            return []
        if not self._is_due(item, timeout):
            return []
        self._following = next(self._items, None)
        return [item]

    def counts(self) -> Mapping[str, int]:
        """Return no counters: nothing is lost on the way from a file."""
        return {}

    def close(self) -> None:
        """Close the file."""
        self._recording.close()

    def _is_due(self, item: Chunk | Gap, timeout: float) -> bool:
        """Wait until an item is due, up to so many seconds; return whether it is."""
        if self._samples_per_second == 0.0:
            return True
        now = time.monotonic()
        if self._began is None:
            self._began = now
        wait = self._began + item.stop / self._samples_per_second - now
        time.sleep(min(max(0.0, wait), timeout))
        return wait <= timeout


def _opened(config: FileInput) -> Recording:
    """Open the file; what is wrong is told with keys of the configuration in place of options."""
    try:
        return open_file_of_any_kind(config.path, config.wanted())
    except IgbssError as error:
        raise type(error)(_OPTION.sub(r"source.\1", str(error))) from error
