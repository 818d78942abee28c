"""Receive a stream of the Lab Streaming Layer as a source of the daemon."""

from collections.abc import Mapping

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import LslInput
from igbss_stream.daemon.descriptions import apply_expectations
from igbss_stream.daemon.sources import SilenceMonitor, count_rejections
from igbss_stream.errors import StreamNotFoundError
from igbss_stream.feeds.lsl_inlet import LslInlet

_SEARCH_TIME = 10.0  # seconds of one search, if the search has no limit


class LslStreamSource:
    """Read an LSL stream.

    Parameters
    ----------
    name : str
        Name of the stream in the daemon.
    config : LslInput

    Raises
    ------
    FeedError
        If no such stream appears within the time in the configuration.
    ParameterError
        If the stream is not as the configuration expects.
    """

    def __init__(self, name: str, config: LslInput) -> None:
        self.run, self.has_pending, self.ended = 0, False, False
        self.silence = SilenceMonitor(name, config.silence)
        self._name, self._config = name, config
        self._inlet = _open_inlet(config)
        self.stream: Stream | None = apply_expectations(name, config, self._inlet.stream)

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to a number of seconds, and return what arrived."""
        items = self._inlet.receive(timeout)
        self.silence.update(bool(items))
        if items and self.stream is not None and self.stream.t0 is None:
            # the time of the first sample is known now
            self.stream = apply_expectations(self._name, self._config, self._inlet.stream)
        return items

    def get_counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        account = self._inlet.indexer
        return count_rejections(self._inlet.rejected) | {
            "messages": self._inlet.received,
            "samples_in": account.samples_in,
            "samples_lost": account.samples_lost,
            "restarts": account.restarts,
            "silences": self.silence.count,
        }

    def close(self) -> None:
        """Close the inlet."""
        self._inlet.close()


def _open_inlet(config: LslInput) -> LslInlet:
    """Search for the stream, without a limit if the configuration sets none."""
    while True:
        try:
            return LslInlet(
                config.name,
                config.type,
                config.source_id,
                timeout=config.wait or _SEARCH_TIME,
                buffer=config.buffer,
            )
        except StreamNotFoundError:
            if config.wait is not None:
                raise
