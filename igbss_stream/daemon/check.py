"""Check a configuration: mistakes in the file, and what prevents it from running on this machine."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from igbss_stream.daemon.config.lint import lint
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.schema import Config, StateSection, StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output, LslOutput, Output
from igbss_stream.daemon.config.sources import FileInput, Input, LslInput
from igbss_stream.daemon.config.web_sections import ControlSection
from igbss_stream.errors import ConfigError, IgbssError

if TYPE_CHECKING:
    from igbss_stream.daemon.stream_settings import StreamSettings


def find_obstacles(config: Config) -> list[str]:
    """Return why a valid configuration cannot run on this machine.

    Addresses are not checked, because the daemon that uses them may be the one that is to be restarted.

    Parameters
    ----------
    config : Config

    Returns
    -------
    list of str
        Each begins with the key that it is about. `run` refuses the configuration for the same reasons.
    """
    found: list[str] = []
    for i, stream in enumerate(config.streams):
        found += (f"streams[{i}].{text}" for text in _iter_obstacles(stream))
        if stream.model.file is None and config.state is None:
            continue
        from igbss_stream.daemon.stream_settings import StreamSettings

        try:
            settings = StreamSettings.create(stream)
        except IgbssError as error:
            found.append(f"streams[{i}].{error}")
            continue
        found += (f"streams[{i}].{text}" for text in _check_channels(stream, settings))
        if config.state is not None:
            found += _check_state(config.state, stream, settings)
    if config.control is not None:
        found += _check_control(config.control)
    if config.view is not None and find_spec("bokeh") is None:
        found.append("view needs Bokeh, which is not installed: pip install 'igbss-stream[view]'")
    return found


def _iter_obstacles(stream: StreamSection) -> Iterator[str]:
    if isinstance(stream.source, LslInput):
        yield from _check_lsl("source")
    elif isinstance(stream.source, FileInput):
        from igbss_stream.daemon.file_source import FileSource

        try:
            FileSource(stream.name, stream.source).close()
        except IgbssError as error:
            yield f"source: {error}"
    for j, sink in enumerate(stream.sinks):
        if isinstance(sink, LslOutput):
            yield from _check_lsl(f"sinks[{j}]")
        elif isinstance(sink, Hdf5Output):
            from igbss_stream.files.writers.recording_layout import check_recording_path

            try:
                check_recording_path(sink.path, sink.if_exists, sink.rotation)
            except IgbssError as error:
                yield f"sinks[{j}]: {error}"


def _check_lsl(place: str) -> Iterator[str]:
    if find_spec("pylsl") is None:
        yield f"{place} needs pylsl, which is not installed: pip install 'igbss-stream[lsl]'"


def _check_channels(stream: StreamSection, settings: "StreamSettings") -> Iterator[str]:
    """Yield why a stream whose channels are known does not match the model in a file."""
    source = stream.source
    if settings.calibration is None:
        return
    from igbss_stream.chunk import Stream

    try:
        if isinstance(source, FileInput):
            from igbss_stream.daemon.file_source import FileSource

            file = FileSource(stream.name, source)
            described = file.stream
            file.close()
        elif source.channels is not None:
            described = Stream(stream.name, source.rate or 1.0, source.channels, source.unit)
        else:
            return
    except IgbssError:
        return  # reported as an obstacle of the source
    try:
        if described is not None:
            settings.check_stream(described, has_rate=isinstance(source, FileInput) or bool(source.rate))
    except IgbssError as error:
        yield f"model.from: {error}"


def _check_state(section: StateSection, stream: StreamSection, settings: "StreamSettings") -> Iterator[str]:
    path = section.get_file(stream.name)
    if not os.path.lexists(path):
        return
    try:
        settings.load_state(path)
        settings.load_choice(path)
    except IgbssError as error:
        yield f"state: {error}"


def _check_control(section: ControlSection) -> Iterator[str]:
    path = section.token_file
    if path is None:
        return
    if os.path.lexists(path):
        from igbss_stream.daemon.control_token import load_token

        try:
            load_token(path)
        except IgbssError as error:
            yield f"control.token_file: {error}"
    elif not path.parent.is_dir():
        yield f"control.token_file: '{path}' cannot be created: there is no such folder; create it"


def find_warnings(config: Config, path: str | os.PathLike[str]) -> list[str]:
    """Return warnings about a configuration, and about the models in files that it names.

    Parameters
    ----------
    config : Config
    path : str or path
        The file from which it was read.

    Returns
    -------
    list of str
        Each begins with the key that it is about.
    """
    warnings = lint(config, path)
    for i, stream in enumerate(config.streams):
        if stream.model.file is None:
            continue
        from igbss_stream.daemon.stream_settings import StreamSettings

        try:
            settings = StreamSettings.create(stream)
        except IgbssError:
            continue  # an obstacle
        file = None if config.state is None else config.state.get_file(stream.name)
        warnings += (f"streams[{i}].model.from: {text}" for text in settings.iter_warnings(file))
    return warnings


def check_as_json(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Check a configuration; return the findings as one JSON object, and whether it can run.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    tuple of (str, bool)
    """
    found: dict[str, Any] = {"path": os.fspath(path), "mistakes": [], "warnings": [], "streams": []}
    try:
        config = load(path)
    except ConfigError as error:
        found["mistakes"] = str(error).splitlines()
    else:
        found["mistakes"] = find_obstacles(config)
        found["warnings"] = find_warnings(config, path)
        found["streams"] = [
            {
                "name": stream.name,
                "source": _get_kind(stream.source),
                "sinks": [_get_kind(sink) for sink in stream.sinks],
            }
            for stream in config.streams
        ]
    return json.dumps(found), not found["mistakes"]


def _get_kind(section: Input | Output) -> str:
    return str(type(section).__struct_config__.tag)
