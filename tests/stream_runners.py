"""One stream of the daemon without a daemon: from a real socket to a sink that collects everything."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from igbss_stream.chunk import Chunk, Gap, Stream
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.daemon.config.schema import StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.sources import SocketSource
from igbss_stream.daemon.stream_runner import StreamRunner
from igbss_stream.events import Event, Events
from igbss_stream.feeds.cleaning_facts import CleaningFacts
from igbss_stream.feeds.model_facts import LearningFacts, Mixing


class CollectingSink:
    """A sink that collects everything that is published."""

    def __init__(self) -> None:
        self.items: list[Chunk | Gap] = []
        self.publish = self.items.append
        self.events: list[Event] = []
        self.bad_channels: list[tuple[int, tuple[str, ...]]] = []  # after how many items, and which
        self.cleaning: list[CleaningFacts | None] = []

    def start(self, stream: Stream) -> None: ...

    def set_model(self, mixing: Mixing | None, learning: LearningFacts | None) -> None: ...

    def set_bad_channels(self, names: tuple[str, ...]) -> None:
        self.bad_channels.append((len(self.items), names))

    def set_cleaning(self, cleaning: CleaningFacts | None) -> None:
        self.cleaning.append(cleaning)

    def publish_events(self, events: Events) -> None:
        self.events.extend(events)

    def serve(self) -> None: ...

    def get_counts(self) -> dict[str, int]:
        return {}

    def close(self) -> None: ...


def create_runner(source: SocketSource, config: ZmqInput, sink: CollectingSink) -> StreamRunner:
    stream = StreamSection(
        name="s",
        source=config,
        model=ModelSection(structure="systematic"),
        sinks=(Hdf5Output(path=Path("unused.h5")),),  # a configuration needs a sink; `sink` is used
    )
    return StreamRunner(stream, source, [sink], ThreadPoolExecutor(1))
