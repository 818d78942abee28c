"""Warn of settings that are valid but probably unintended."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from igbss_stream.daemon.config.keys import CurveServerSection
from igbss_stream.daemon.config.schema import Config, LearningSection, StreamSection
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, ZmqInput
from igbss_stream.feeds.addresses import parse_address

_OPEN = "is open to the network without encryption: add a section curve, or use 127.0.0.1"


def lint(config: Config, path: str | os.PathLike[str]) -> list[str]:
    """Return warnings about a configuration.

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
    warnings = list(_lint_config(config, Path(path)))
    for i, stream in enumerate(config.streams):
        warnings += (f"streams[{i}].{text}" for text in _lint_stream(stream))
    return warnings


def _lint_config(config: Config, path: Path) -> Iterator[str]:
    if config.health.endpoint is not None and not config.health.endpoint.is_local:
        yield "health.host is open to the network without a password: use 127.0.0.1, or a proxy"
    if config.control is not None and not config.control.endpoint.is_local:
        yield "control.host is open to the network without encryption: use 127.0.0.1, or a proxy"
    if config.control is not None and config.state is None:
        yield "control: sources that are chosen are forgotten at the end: add a section state to keep them"
    if config.view is not None and config.find_viewed()[1].curve is not None:
        yield (
            "view shows an encrypted stream to every user of this machine: remove view if they should not "
            "see it"
        )
    if _has_plain_secret(config) and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield (
            f"secret_key is in {path}, which other users can read: put it in the environment, as "
            "${NAME}, or chmod 600 the file"
        )


def _has_plain_secret(config: Config) -> bool:
    """Return whether a secret key is written in the file."""
    curves = [section.curve for stream in config.streams for section in _get_zmq_sections(stream)]
    return any(curve is not None and curve.secret_key.variable is None for curve in curves)


def _get_zmq_sections(stream: StreamSection) -> list[ZmqInput | ZmqOutput]:
    return [part for part in (stream.source, *stream.sinks) if isinstance(part, ZmqInput | ZmqOutput)]


def _lint_stream(stream: StreamSection) -> Iterator[str]:
    source = stream.source
    if isinstance(source, ZmqInput):
        yield from _lint_socket(source, "source", source.bind, "send samples")
    if not stream.is_model_learned and stream.learning != LearningSection():
        fixed = stream.model.file is not None
        reason = "model.follow is false" if fixed else "the structure is not learned"
        yield f"learning has no effect: {reason}"
    if stream.clean is not None and all(sink.publish == "sources" for sink in stream.sinks):
        yield "clean has no effect: no sink has publish: cleaned"
    for j, sink in enumerate(stream.sinks):
        place = f"sinks[{j}]"
        if isinstance(sink, ZmqOutput):
            yield from _lint_socket(sink, place, True, "read the sources")
            if isinstance(source, FileInput) and source.speed == 0:
                yield f"{place} may lose messages: at speed 0 the replay is faster than subscribers read"


def _lint_socket(section: ZmqInput | ZmqOutput, place: str, bound: bool, access: str) -> Iterator[str]:
    if bound and section.curve is None and not parse_address(section.address).is_local:
        yield f"{place}.address {_OPEN}; anybody may {access} now"
    if isinstance(section.curve, CurveServerSection) and section.curve.allowed is None:
        yield f"{place}.curve.allowed admits every client that knows the public key"
