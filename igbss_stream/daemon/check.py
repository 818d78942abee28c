"""Check a configuration: mistakes in the file, and what prevents it from running on this machine."""

import json
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from igbss_stream.daemon.config.lint import lint
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.schema import Config, StateSection, StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output, LslOutput, Output
from igbss_stream.daemon.config.sources import FileInput, Input, LslInput
from igbss_stream.errors import ConfigError, IgbssError


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
        if config.state is not None:
            found += _check_state(config.state, stream)
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


def _check_state(section: StateSection, stream: StreamSection) -> Iterator[str]:
    path = section.get_file(stream.name)
    if not os.path.lexists(path):
        return
    from igbss_stream.daemon import state

    cleaning = None if stream.clean is None else stream.clean.as_cleaning()
    try:
        state.load(path, stream.model.as_settings(), stream.prepare.as_settings(), cleaning)
    except IgbssError as error:
        yield f"state: {error}"


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
        found["warnings"] = lint(config, path)
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
