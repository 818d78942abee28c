"""A stream of the daemon without a daemon: from a real feed to a sink that keeps what it is given."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.model_section import Model
from igbss_stream.daemon.config.schema import Stream as Settings
from igbss_stream.daemon.config.sinks import Hdf5Output
from igbss_stream.daemon.config.sources import ZmqFeed
from igbss_stream.daemon.sources import SocketFeed
from igbss_stream.daemon.stream_runner import Lane
from igbss_stream.feeds.wire import Mixing


class Kept:
    """A sink that keeps all it is given."""

    def __init__(self) -> None:
        self.items: list[Chunk | Gap] = []
        self.publish = self.items.append

    def start(self, stream: Stream) -> None: ...

    def mix(self, mixing: Mixing | None) -> None: ...

    def serve(self) -> None: ...

    def counts(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def lane_of(feed: SocketFeed, source: ZmqFeed, sink: Kept) -> Lane:
    settings = Settings(
        name="s",
        source=source,
        model=Model(structure="systematic"),
        sinks=(Hdf5Output(path=Path("unused.h5")),),  # a configuration has one at least; `sink` is used
    )
    return Lane(settings, feed, [sink], ThreadPoolExecutor(1))
