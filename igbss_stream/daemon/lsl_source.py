"""A stream of the Lab Streaming Layer as a feed."""

from collections.abc import Mapping

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.sources import LslFeed
from igbss_stream.daemon.sources import Silence, described
from igbss_stream.errors import StreamNotFoundError
from igbss_stream.feeds.lsl_inlet import LslInlet

_LOOK = 10.0  # seconds of one look for a stream that is waited for without end


class LslStreamFeed:
    """Reads an LSL stream.

    Parameters
    ----------
    name : str
        Of the stream, in the daemon.
    config : LslFeed

    Raises
    ------
    FeedError
        If no such stream appears in the time that the configuration gives it.
    ParameterError
        If it is not what the configuration expects.
    """

    def __init__(self, name: str, config: LslFeed) -> None:
        self.ended = False
        self.silence = Silence(name, config.silence)
        self._name, self._config = name, config
        self._source = _found(config)
        self.stream: Stream | None = described(name, config, self._source.stream)

    def receive(self, timeout: float) -> list[Chunk | Gap]:
        """Wait up to so many seconds, and return what came."""
        items = self._source.receive(timeout)
        self.silence.heard(bool(items))
        if items and self.stream is not None and self.stream.t0 is None:
            self.stream = described(self._name, self._config, self._source.stream)  # with its time
        return items

    def counts(self) -> Mapping[str, int]:
        """Return counters by name."""
        account = self._source.indexer
        counted = {f"rejected_{reason}": count for reason, count in self._source.rejected.items()}
        return counted | {
            "messages": self._source.received,
            "samples_in": account.samples_in,
            "samples_lost": account.samples_lost,
            "restarts": account.restarts,
            "silences": self.silence.count,
        }

    def close(self) -> None:
        """Close the inlet."""
        self._source.close()


def _found(config: LslFeed) -> LslInlet:
    while True:
        try:
            return LslInlet(
                config.name,
                config.type,
                config.source_id,
                timeout=config.wait or _LOOK,
                buffer=config.buffer,
            )
        except StreamNotFoundError:
            if config.wait is not None:
                raise
