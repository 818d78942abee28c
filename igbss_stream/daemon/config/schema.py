"""The configuration of `igbss-stream run`: what there is to set, and what it is when left out.

docs/configuration.md is made from the docstrings here and in `feeds`, `sinks`, `keys`, `model` and
`clean`.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from igbss_stream.daemon.config.base import Name, PositiveSeconds, Seconds, Section, at_most
from igbss_stream.daemon.config.clean_section import Clean
from igbss_stream.daemon.config.model_section import Model
from igbss_stream.daemon.config.prepare_section import Prepare
from igbss_stream.daemon.config.sinks import Hdf5Output, LslOutput, Sink, ZmqOutput
from igbss_stream.daemon.config.sources import Feed, FileInput, ZmqFeed
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import SocketAddress, parse_address

if TYPE_CHECKING:
    from igbss_stream.preparation.repair.stage import RepairSettings
    from igbss_stream.streaming.model_updates import LearningSchedule


class Repair(Section, frozen=True, kw_only=True):
    """What is done about samples that are missing or cannot be right; docs/faults.md tells more.

    Parameters
    ----------
    gap : {"reset", "hold", "interpolate", "nan"}
        What stands for missing samples: nothing, the gap is declared and what follows begins anew
        (`reset`); the last sample (`hold`); a line from the last sample to the next, for which samples
        wait (`interpolate`); NaN in all channels (`nan`).
    max_fill : float
        Seconds of the longest gap that is filled; longer ones are treated as with `reset`.
    outlier : float or None
        Samples further from the median of their channel than this many robust standard deviations are
        treated as missing; `null` takes all samples as they are. Blinks lie tens of deviations out; for EEG
        1000 removes what no electrode can measure.
    outlier_window : float
        Seconds that median and deviation are learned over.
    accept_after : float
        Seconds after which a channel that stays out has moved, and is taken as it is.
    flat_after : float or None
        Seconds without a move beyond rounding after which a channel is reported as flat; `null` never.
    """

    gap: Literal["reset", "hold", "interpolate", "nan"] = "reset"
    max_fill: Annotated[float, Meta(gt=0, le=60)] = 0.1
    outlier: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    outlier_window: PositiveSeconds = 2.0
    accept_after: PositiveSeconds = 0.1
    flat_after: PositiveSeconds | None = 5.0

    def settings(self) -> "RepairSettings":
        """Return the settings of the stage."""
        from igbss_stream.preparation.repair.stage import RepairSettings

        return RepairSettings(**{name: getattr(self, name) for name in self.__struct_fields__})


class Learning(Section, frozen=True, kw_only=True):
    """When a structure is learned, with structure `learned`.

    Parameters
    ----------
    window : float
        Seconds of the latest samples that a structure is learned from.
    every : float or None
        Seconds from one model to the next; `null` learns once.
    first : float
        Seconds of samples before the first model; until then nothing is published.
    ahead : float
        Seconds from the last sample that a model is learned from to the one at which it takes force: what
        learning may take without delaying the stream.
    fade : float
        Seconds of the cross-fade from one model to the next; 0 switches at once.
    """

    window: PositiveSeconds = 60.0
    every: PositiveSeconds | None = 10.0
    first: PositiveSeconds = 10.0
    ahead: Seconds = 2.0
    fade: Seconds = 0.5

    def __post_init__(self) -> None:
        at_most("first", self.first, "window", self.window)
        at_most("ahead", self.ahead, "every", self.every)
        at_most("fade", self.fade, "every", self.every)

    def schedule(self, rate: float) -> "LearningSchedule":
        """Return it in samples, at a rate in Hz."""
        from igbss_stream.streaming.model_updates import LearningSchedule

        return LearningSchedule.from_seconds(
            rate, self.first, self.window, self.every, self.ahead, self.fade
        )


class Window(Section, frozen=True, kw_only=True):
    """What is fitted together, where a window has to be fitted because no linear map separates it.

    Parameters
    ----------
    length : float
        Seconds of samples that are fitted together.
    hop : float
        Seconds from the start of a window to the start of the next; windows overlap where it is less than
        `length`.
    """

    length: PositiveSeconds = 1.0
    hop: PositiveSeconds = 0.5

    def __post_init__(self) -> None:
        at_most("hop", self.hop, "length", self.length)


class Stream(Section, frozen=True, kw_only=True):
    """A feed, how it is separated, and where the sources go.

    Parameters
    ----------
    name : str
        Name of the stream: the topic of what is published, and the label of its metrics.
    source : Feed
        Where the samples come from.
    repair : Repair
        What is done about samples that are missing or cannot be right.
    prepare : Prepare
        What is done to the samples before they are separated.
    model : Model
        How to separate.
    learning : Learning
        When a structure is learned.
    window : Window
        What is fitted together.
    clean : Clean or None
        Which sources are taken out of the channels; `null` publishes no cleaned channels.
    sinks : tuple of Sink
        Where sources or cleaned channels go, one place or more.
    """

    name: Annotated[Name, Meta(examples=["eeg"])]
    source: Feed
    repair: Repair = Repair()
    prepare: Prepare = Prepare()
    model: Model = Model()
    learning: Learning = Learning()
    window: Window = Window()
    clean: Clean | None = None
    sinks: Annotated[tuple[Sink, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        at_most("window.hop", self.window.hop, "learning.every", self.learning.every)
        if self.clean is not None and not self.model.is_linear:
            raise ParameterError(
                "clean needs model.transform exp, with which sources add up to the channels.",
                parameter="clean",
            )
        for j, sink in enumerate(self.sinks):
            if sink.publish == "cleaned" and self.clean is None:
                raise ParameterError(
                    f"sinks[{j}].publish is cleaned, but nothing is to be taken out: add a section clean.",
                    parameter=f"sinks[{j}].publish",
                )

    @property
    def needs_samples(self) -> bool:
        """Whether a model depends on the samples, so that it is learned."""
        return self.model.structure == "learned" or bool(self.clean and self.clean.exclude_like)


class State(Section, frozen=True, kw_only=True):
    """Where models are kept, so that a restart goes on with the order and the signs it had.

    Parameters
    ----------
    path : Path
        Folder, with a file for each stream; it is made if it is not there.
    every : float
        Seconds between two writes. The state is also written at the end.
    """

    path: Annotated[Path, Meta(examples=["state"])]
    every: PositiveSeconds = 60.0


class Health(Section, frozen=True, kw_only=True):
    """Metrics for Prometheus (`/metrics`) and the state of the daemon (`/health`), by HTTP.

    Parameters
    ----------
    host : str
        Address to bind to. The default is open to this machine only. There is no password.
    port : int or None
        Port; 0 takes a free one, `null` opens none.
    """

    host: Annotated[str, Meta(pattern=r"^[A-Za-z0-9.:_-]+$", description="a host name or IP address")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Meta(ge=0, le=65535)] | None = None

    @property
    def endpoint(self) -> SocketAddress | None:
        """Where it is bound, if anywhere."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return None if self.port is None else SocketAddress(host, str(self.port))


class View(Section, frozen=True, kw_only=True):
    """A page that shows one stream live, open to this machine only; docs/view.md shows it.

    It is served by a process of its own, which reads the stream as any subscriber does (needs Bokeh).

    Parameters
    ----------
    port : int
        Port of the page; 0 takes a free one.
    stream : str or None
        Name of the stream; left out, the one there is. It needs a sink of kind `zmq` at a port that is
        given. If that has a section `curve`, the page is let in with keys of its own, new in each run.
    """

    port: Annotated[int, Meta(ge=0, le=65535)] = 5006
    stream: Name | None = None

    @property
    def endpoint(self) -> SocketAddress:
        """Where it is bound."""
        return SocketAddress("127.0.0.1", str(self.port))


class Log(Section, frozen=True, kw_only=True):
    """What is told on standard error.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
        The least that is told.
    format : {"auto", "text", "json"}
        Lines for people or for machines; `auto` is text on a terminal and JSON elsewhere.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class Config(Section, frozen=True, kw_only=True):
    """All that `igbss-stream run` needs to know.

    Parameters
    ----------
    streams : tuple of Stream
        The streams, one or more; each has a model of its own.
    state : State or None
        Where models are kept from run to run; `null` keeps none.
    health : Health
        Metrics and health by HTTP.
    view : View or None
        A page that shows a stream live; `null` serves none.
    log : Log
        What is told on standard error.
    """

    streams: Annotated[tuple[Stream, ...], Meta(min_length=1)]
    state: State | None = None
    health: Health = Health()
    view: View | None = None
    log: Log = Log()

    def __post_init__(self) -> None:
        _check_names(self.streams)
        _check_outputs(self.streams)
        _check_endpoints(list(self.bound()))
        if self.view is not None:
            self.viewed()

    def viewed(self) -> tuple[Stream, ZmqOutput]:
        """Return the stream that the page shows, and the sink where it reads it.

        Raises
        ------
        ParameterError
            If there is none that it can read, or more than one and none is named.
        """
        wanted = None if self.view is None else self.view.stream
        named = [stream for stream in self.streams if wanted in (None, stream.name)]
        if not named:
            raise ParameterError(
                f"view.stream is {wanted!r}, but there is no such stream; there is "
                f"{', '.join(stream.name for stream in self.streams)}.",
                parameter="view.stream",
            )
        if len(named) > 1:
            raise ParameterError(
                "view.stream must name the stream that is shown, for there are several.",
                parameter="view.stream",
            )
        stream = named[0]
        readable = [
            sink
            for sink in stream.sinks
            if isinstance(sink, ZmqOutput)
            and sink.publish == "sources"
            and not parse_address(sink.address).is_any_port
        ]
        if not readable:
            raise ParameterError(
                f"view needs a sink of kind zmq in the stream {stream.name!r} that publishes sources, at a "
                "port that is given: the page reads it. Add one at 127.0.0.1.",
                parameter="view",
            )
        return stream, min(readable, key=lambda sink: sink.curve is not None)  # encryption costs time

    def bound(self) -> Iterator[tuple[str, SocketAddress]]:
        """Yield what sockets are bound to, each with the place where the configuration says so."""
        for i, stream in enumerate(self.streams):
            if isinstance(stream.source, ZmqFeed) and stream.source.bind:
                yield f"streams[{i}].source.address", parse_address(stream.source.address)
            for j, sink in enumerate(stream.sinks):
                if isinstance(sink, ZmqOutput):
                    yield f"streams[{i}].sinks[{j}].address", parse_address(sink.address)
        if self.health.endpoint is not None:
            yield "health.port", self.health.endpoint
        if self.view is not None:
            yield "view.port", self.view.endpoint


def _check_names(streams: tuple[Stream, ...]) -> None:
    first: dict[str, int] = {}
    for i, stream in enumerate(streams):
        # files are named after streams, and not every disk tells eeg from EEG
        j = first.setdefault(stream.name.lower(), i)
        if j != i:
            raise ParameterError(
                f"streams[{i}].name {stream.name!r} is taken by streams[{j}]; choose another (upper and "
                "lower case count as the same).",
                parameter=f"streams[{i}].name",
            )


def _check_outputs(streams: tuple[Stream, ...]) -> None:
    """Check that no two ends share a file, and no two sinks the name of an outlet."""
    taken = {
        stream.source.path: f"streams[{i}].source"
        for i, stream in enumerate(streams)
        if isinstance(stream.source, FileInput)
    }
    outlets: dict[str, str] = {}
    for i, stream in enumerate(streams):
        for j, sink in enumerate(stream.sinks):
            where = f"streams[{i}].sinks[{j}]"
            if isinstance(sink, Hdf5Output):
                _take(taken, sink.path, where, "path")
            elif isinstance(sink, LslOutput):
                _take(outlets, sink.name, where, "name")


def _take(taken: dict[Any, str], thing: Any, where: str, key: str) -> None:
    if taken.setdefault(thing, where) != where:
        raise ParameterError(
            f"{where}.{key} {str(thing)!r} is used by {taken[thing]} as well; choose another.",
            parameter=f"{where}.{key}",
        )


def _check_endpoints(bound: list[tuple[str, SocketAddress]]) -> None:
    for (earlier, one), (later, other) in itertools.combinations(bound, 2):
        if one.conflicts_with(other):
            raise ParameterError(
                f"{later} cannot be bound to {other}: {earlier} is bound to {one}; choose another port.",
                parameter=later,
            )
