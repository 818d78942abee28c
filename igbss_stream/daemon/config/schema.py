"""Configuration of `igbss-stream run`: the root `Config` and the sections of a stream.

docs/configuration.md is generated from the docstrings here and in `sources`, `sinks`, `keys`,
`bad_channels_section`, `model_section`, `prepare_section`, `clean_section` and `web_sections`.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from igbss_stream.daemon.config.bad_channels_section import BadChannelsSection
from igbss_stream.daemon.config.base import Name, PositiveSeconds, Seconds, Section, check_at_most
from igbss_stream.daemon.config.clean_section import CleanSection
from igbss_stream.daemon.config.model_section import ModelSection
from igbss_stream.daemon.config.prepare_section import PrepareSection
from igbss_stream.daemon.config.sinks import Hdf5Output, LslOutput, Output, ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, Input, ZmqInput
from igbss_stream.daemon.config.web_sections import ControlSection, HealthSection, ViewSection
from igbss_stream.errors import ParameterError
from igbss_stream.feeds.addresses import SocketAddress, parse_address

if TYPE_CHECKING:
    from igbss_stream.preparation.repair.stage import RepairSettings
    from igbss_stream.streaming.model_updates import LearningSchedule


class RepairSection(Section, frozen=True, kw_only=True):
    """Handling of missing and faulty samples (docs/faults.md).

    Parameters
    ----------
    gap : {"reset", "hold", "interpolate", "nan"}
        Replacement for missing samples. `reset`: none; the gap is declared and the stages restart after it.
        `hold`: the last sample. `interpolate`: a line from the last sample to the next, for which the
        stream waits. `nan`: NaN in all channels.
    max_fill : float
        Seconds of the longest gap that is filled; longer gaps are handled as with `reset`.
    outlier : float or None
        Samples further from the median of their channel than this number of robust standard deviations are
        treated as missing; `null` accepts every sample. Blinks are tens of deviations away; for EEG, 1000
        removes only values that no electrode can measure.
    outlier_window : float
        Seconds over which the median and the deviation are estimated.
    accept_after : float
        Seconds after which a channel that stays beyond the limit counts as shifted, and its samples are
        accepted.
    flat_after : float or None
        Seconds without a change beyond rounding after which a channel is reported as flat; `null` never.
    """

    gap: Literal["reset", "hold", "interpolate", "nan"] = "reset"
    max_fill: Annotated[float, Meta(gt=0, le=60)] = 0.1
    outlier: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    outlier_window: PositiveSeconds = 2.0
    accept_after: PositiveSeconds = 0.1
    flat_after: PositiveSeconds | None = 5.0

    def as_settings(self) -> "RepairSettings":
        """Return the settings of the stage that repairs samples."""
        from igbss_stream.preparation.repair.stage import RepairSettings

        return RepairSettings(**{name: getattr(self, name) for name in self.__struct_fields__})


class LearningSection(Section, frozen=True, kw_only=True):
    """When models are learned, for structure `learned`.

    Parameters
    ----------
    window : float
        Seconds of the latest samples from which a structure is learned.
    every : float or None
        Seconds from one model to the next; `null` learns once.
    first : float
        Seconds of samples before the first model; no sources are published until then.
    ahead : float
        Seconds from the last sample of the learning window to the first sample that the model separates:
        the time that learning may take without delaying the stream.
    fade : float
        Seconds of the cross-fade from one model to the next; 0 switches at once.
    """

    window: PositiveSeconds = 60.0
    every: PositiveSeconds | None = 10.0
    first: PositiveSeconds = 10.0
    ahead: Seconds = 2.0
    fade: Seconds = 0.5

    def __post_init__(self) -> None:
        check_at_most("first", self.first, "window", self.window)
        check_at_most("ahead", self.ahead, "every", self.every)
        check_at_most("fade", self.fade, "every", self.every)

    def as_schedule(self, rate: float) -> "LearningSchedule":
        """Return the schedule in samples, at a rate in Hz."""
        from igbss_stream.streaming.model_updates import LearningSchedule

        return LearningSchedule.from_seconds(
            rate, self.first, self.window, self.every, self.ahead, self.fade
        )


class WindowSection(Section, frozen=True, kw_only=True):
    """Windows of the fit, for models that no linear map separates.

    Parameters
    ----------
    length : float
        Seconds of samples in a window.
    hop : float
        Seconds from the start of a window to the start of the next; windows overlap if it is less than
        `length`.
    """

    length: PositiveSeconds = 1.0
    hop: PositiveSeconds = 0.5

    def __post_init__(self) -> None:
        check_at_most("hop", self.hop, "length", self.length)


class StreamSection(Section, frozen=True, kw_only=True):
    """A stream: its source, how it is separated, and its sinks.

    Parameters
    ----------
    name : str
        Name of the stream: the topic under which it is published, and the label of its metrics.
    source : Input
        Source of the samples.
    bad_channels : BadChannelsSection
        Handling of channels that go bad while the stream runs.
    repair : RepairSection
        Handling of missing and faulty samples.
    prepare : PrepareSection
        Preparation of the samples before they are separated.
    model : StreamModel
        How to separate.
    learning : LearningSection
        When models are learned.
    window : WindowSection
        Windows of the fit.
    clean : CleanSection or None
        Sources to remove from the channels; `null` publishes no cleaned channels, and allows no choice.
    sinks : tuple of Output
        Destinations of sources or cleaned channels, at least one.
    """

    name: Annotated[Name, Meta(examples=["eeg"])]
    source: Input
    bad_channels: BadChannelsSection = BadChannelsSection()
    repair: RepairSection = RepairSection()
    prepare: PrepareSection = PrepareSection()
    model: ModelSection = ModelSection()
    learning: LearningSection = LearningSection()
    window: WindowSection = WindowSection()
    clean: CleanSection | None = None
    sinks: Annotated[tuple[Output, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        check_at_most("window.hop", self.window.hop, "learning.every", self.learning.every)
        if self.clean is not None and not self.model.is_linear:
            raise ParameterError(
                "clean needs model.transform exp, with which the channels are a sum of sources.",
                parameter="clean",
            )
        for j, sink in enumerate(self.sinks):
            if sink.publish == "cleaned" and self.clean is None and self.model.file is None:
                raise ParameterError(
                    f"sinks[{j}].publish is cleaned, but no sources are removed: add a section clean.",
                    parameter=f"sinks[{j}].publish",
                )

    @property
    def is_model_learned(self) -> bool:
        """Whether the model depends on the samples, so that it has to be learned."""
        if self.model.file is not None:
            return bool(self.model.follow)
        return self.model.structure == "learned" or (
            self.clean is not None and bool(self.clean.exclude_like or self.clean.exclude_labelled)
        )


class StateSection(Section, frozen=True, kw_only=True):
    """Storage of models, so that sources keep their order and signs after a restart.

    Parameters
    ----------
    path : Path
        Folder with a file for each stream, `NAME.h5`; it is created if it does not exist.
    every : float
        Seconds between two writes. The state is also written at the end.
    """

    path: Annotated[Path, Meta(examples=["state"])]
    every: PositiveSeconds = 60.0

    def get_file(self, stream: str) -> Path:
        """Return the path of the state of a stream, given the name of the stream."""
        return self.path / f"{stream}.h5"


class LogSection(Section, frozen=True, kw_only=True):
    """Log on standard error.

    Parameters
    ----------
    level : {"debug", "info", "warning", "error"}
        Lowest level that is logged.
    format : {"auto", "text", "json"}
        Plain lines or JSON; `auto` is text on a terminal and JSON elsewhere.
    """

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class Config(Section, frozen=True, kw_only=True):
    """Configuration of `igbss-stream run`.

    Parameters
    ----------
    streams : tuple of StreamSection
        The streams, at least one; each has its own model.
    state : StateSection or None
        Storage of models between runs; `null` stores none.
    health : HealthSection
        Metrics and health over HTTP.
    view : ViewSection or None
        Live page of a stream; `null` serves none.
    control : ControlSection or None
        Choice of the sources to remove while the streams run; `null` allows none.
    log : LogSection
        Log on standard error.
    """

    streams: Annotated[tuple[StreamSection, ...], Meta(min_length=1)]
    state: StateSection | None = None
    health: HealthSection = HealthSection()
    view: ViewSection | None = None
    control: ControlSection | None = None
    log: LogSection = LogSection()

    def __post_init__(self) -> None:
        _check_names(self.streams)
        _check_cleaning(self.streams, has_control=self.control is not None)
        _check_outputs(self.streams, self.state)
        _check_endpoints(list(self.iter_bound()))
        if self.view is not None:
            self.find_viewed()

    def find_viewed(self) -> tuple[StreamSection, ZmqOutput]:
        """Return the stream that the live page shows, and the sink from which the page reads it.

        Raises
        ------
        ParameterError
            If there is no such stream or sink, or several streams and none is named.
        """
        wanted = None if self.view is None else self.view.stream
        named = [stream for stream in self.streams if wanted in (None, stream.name)]
        if not named:
            raise ParameterError(
                f"view.stream must be one of {', '.join(stream.name for stream in self.streams)}. "
                f"Got {wanted!r} instead.",
                parameter="view.stream",
            )
        if len(named) > 1:
            raise ParameterError(
                "view.stream must name the stream to show, because there are several.",
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
                f"view needs a sink of kind zmq in stream {stream.name!r} that publishes sources at a "
                "fixed port, from which the page reads. Add one at 127.0.0.1.",
                parameter="view",
            )
        return stream, min(readable, key=lambda sink: sink.curve is not None)  # encryption costs time

    def iter_bound(self) -> Iterator[tuple[str, SocketAddress]]:
        """Yield the addresses to which sockets are bound, each with its key in the configuration."""
        for i, stream in enumerate(self.streams):
            if isinstance(stream.source, ZmqInput) and stream.source.bind:
                yield f"streams[{i}].source.address", parse_address(stream.source.address)
            for j, sink in enumerate(stream.sinks):
                if isinstance(sink, ZmqOutput):
                    yield f"streams[{i}].sinks[{j}].address", parse_address(sink.address)
        if self.health.endpoint is not None:
            yield "health.port", self.health.endpoint
        if self.view is not None:
            yield "view.port", self.view.endpoint
        if self.control is not None:
            yield "control.port", self.control.endpoint


def _check_names(streams: tuple[StreamSection, ...]) -> None:
    first: dict[str, int] = {}
    for i, stream in enumerate(streams):
        # files are named after streams, and some file systems do not distinguish eeg from EEG
        j = first.setdefault(stream.name.lower(), i)
        if j != i:
            raise ParameterError(
                f"streams[{i}].name {stream.name!r} is taken by streams[{j}]; choose another (upper and "
                "lower case count as the same).",
                parameter=f"streams[{i}].name",
            )


def _check_cleaning(streams: tuple[StreamSection, ...], *, has_control: bool) -> None:
    """Check that sources can be removed from the channels: named in the configuration, or chosen later."""
    for i, stream in enumerate(streams):
        if stream.clean is not None and stream.clean.is_empty and not has_control:
            raise ParameterError(
                f"streams[{i}].clean.exclude must name a source, exclude_like a channel, or "
                "exclude_labelled a label. To choose sources while the stream runs, add a section control.",
                parameter=f"streams[{i}].clean.exclude",
            )


def _check_outputs(streams: tuple[StreamSection, ...], state: StateSection | None) -> None:
    """Check that sources, states and sinks use different files, and sinks different names of outlets."""
    files = {
        stream.source.path: f"streams[{i}].source"
        for i, stream in enumerate(streams)
        if isinstance(stream.source, FileInput)
    }
    for i, stream in enumerate(streams):
        if stream.model.file is not None:
            files[stream.model.file] = f"streams[{i}].model.from"
    if state is not None:
        for stream in streams:
            _claim(files, state.get_file(stream.name), "state", "path")
    outlets: dict[str, str] = {}
    for i, stream in enumerate(streams):
        for j, sink in enumerate(stream.sinks):
            place = f"streams[{i}].sinks[{j}]"
            if isinstance(sink, Hdf5Output):
                _claim(files, sink.path, place, "path")
            elif isinstance(sink, LslOutput):
                _claim(outlets, sink.name, place, "name")


def _claim(owners: dict[Any, str], resource: Any, place: str, key: str) -> None:
    """Note which section uses a file or a name; refuse one that is in use."""
    if owners.setdefault(resource, place) != place:
        raise ParameterError(
            f"{place}.{key} {str(resource)!r} is used by {owners[resource]} as well; choose another.",
            parameter=f"{place}.{key}",
        )


def _check_endpoints(bound: list[tuple[str, SocketAddress]]) -> None:
    for (earlier, one), (later, other) in itertools.combinations(bound, 2):
        if one.conflicts_with(other):
            raise ParameterError(
                f"{later} cannot be bound to {other}: {earlier} is bound to {one}; choose another port.",
                parameter=later,
            )
