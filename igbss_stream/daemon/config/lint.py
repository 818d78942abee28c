"""What a configuration allows, but its author may not want; and what it comes to, in a few lines."""

import json
import os
import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from igbss_stream.daemon.config.clean_section import Clean
from igbss_stream.daemon.config.keys import CurveServer
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.prepare_section import Prepare
from igbss_stream.daemon.config.schema import Config, Learning, Stream
from igbss_stream.daemon.config.sinks import Hdf5Output, LslOutput, Sink, ZmqOutput
from igbss_stream.daemon.config.sources import Feed, FileInput, LslFeed, ZmqFeed
from igbss_stream.errors import ConfigError
from igbss_stream.feeds.addresses import parse_address

_OPEN = "is open to the network without encryption: add a section curve, or use 127.0.0.1"


def cautions(config: Config, path: str | os.PathLike[str]) -> list[str]:
    """Return what to be careful about.

    Parameters
    ----------
    config : Config
    path : str or path
        The file it was read from.

    Returns
    -------
    list of str
        Each begins with the key that it is about.
    """
    found = list(_of_config(config, Path(path)))
    for i, stream in enumerate(config.streams):
        found += (f"streams[{i}].{text}" for text in _of_stream(stream))
    return found


def _of_config(config: Config, path: Path) -> Iterator[str]:
    if config.health.endpoint is not None and not config.health.endpoint.is_local:
        yield "health.host is open to the network, and there is no password: use 127.0.0.1, or a proxy"
    if config.view is not None and find_spec("bokeh") is None:
        yield "view needs Bokeh, which is not installed: pip install 'igbss-stream[view]'"
    if config.view is not None and config.viewed()[1].curve is not None:
        yield "view shows to everybody on this machine what is encrypted for some: is it yours alone?"
    if _has_plain_secret(config) and path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        yield (
            f"secret_key is in {path}, which others can read: keep it in the environment, as ${{NAME}}, or "
            f"chmod 600 the file"
        )


def _has_plain_secret(config: Config) -> bool:
    curves = [end.curve for stream in config.streams for end in _zmq_ends(stream)]
    return any(curve is not None and curve.secret_key.variable is None for curve in curves)


def _zmq_ends(stream: Stream) -> list[ZmqFeed | ZmqOutput]:
    return [end for end in (stream.source, *stream.sinks) if isinstance(end, ZmqFeed | ZmqOutput)]


def _of_stream(stream: Stream) -> Iterator[str]:
    source = stream.source
    if isinstance(source, LslFeed):
        yield from _of_lsl("source")
    if isinstance(source, ZmqFeed):
        yield from _of_socket(source, "source", source.bind, "send samples")
    if isinstance(source, FileInput) and not os.path.exists(source.path):
        yield f"source.path '{source.path}' does not exist"
    if not stream.needs_samples and stream.learning != Learning():
        yield "learning has no effect: the structure is not learned"
    if stream.clean is not None and all(sink.publish == "sources" for sink in stream.sinks):
        yield "clean has no effect: no sink has publish: cleaned"
    for j, sink in enumerate(stream.sinks):
        where = f"sinks[{j}]"
        if isinstance(sink, ZmqOutput):
            yield from _of_socket(sink, where, True, "read the sources")
            if isinstance(source, FileInput) and source.speed == 0:
                yield f"{where} may lose messages: at speed 0 the replay is faster than subscribers read"
        elif isinstance(sink, LslOutput):
            yield from _of_lsl(where)
        elif isinstance(sink, Hdf5Output):
            yield from _of_file(sink, where)


def _of_lsl(where: str) -> Iterator[str]:
    if find_spec("pylsl") is None:
        yield f"{where} needs pylsl, which is not installed: pip install 'igbss-stream[lsl]'"


def _of_socket(end: ZmqFeed | ZmqOutput, where: str, bound: bool, what: str) -> Iterator[str]:
    if bound and end.curve is None and not parse_address(end.address).is_local:
        yield f"{where}.address {_OPEN}; as it is, anybody may {what}"
    if isinstance(end.curve, CurveServer) and end.curve.allowed is None:
        yield f"{where}.curve.allowed lets in everybody who knows the public key"


def _of_file(sink: Hdf5Output, where: str) -> Iterator[str]:
    if not os.path.isdir(sink.path.parent):
        yield f"{where}.path '{sink.path}' cannot be written: there is no folder '{sink.path.parent}'"
    if sink.if_exists == "refuse" and os.path.exists(sink.path):
        yield f"{where}.path '{sink.path}' exists, and if_exists is refuse: it will not be written"


def as_json(path: str | os.PathLike[str]) -> tuple[str, bool]:
    """Return what `check` finds in a file as one JSON object, and whether it would run.

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
        found["warnings"] = cautions(config, path)
        found["streams"] = [
            {"name": one.name, "source": _kind(one.source), "sinks": [_kind(sink) for sink in one.sinks]}
            for one in config.streams
        ]
    return json.dumps(found), not found["mistakes"]


def _kind(end: Feed | Sink) -> str:
    return str(type(end).__struct_config__.tag)


def summary(config: Config, path: str | os.PathLike[str]) -> str:
    """Return what would run, a few lines a stream."""
    n_streams = len(config.streams)
    lines = [f"{Path(path)}: {n_streams} {'stream' if n_streams == 1 else 'streams'}"]
    for stream in config.streams:
        lines += [f"  {stream.name}", f"    from  {_from(stream.source)}"]
        if stream.prepare != Prepare():
            lines.append(f"    with  {_prepared(stream.prepare)}")
        lines.append(f"    by    {_by(stream)}")
        lines += [f"    to    {_to(sink)}" for sink in stream.sinks]
    if config.state is not None:
        lines.append(f"  state in {config.state.path}, every {config.state.every:g} s")
    if config.health.endpoint is not None:
        lines.append(
            f"  health at http://{config.health.endpoint.host}:{config.health.endpoint.port}/health"
        )
    if config.view is not None:
        where, (shown, _) = config.view.endpoint, config.viewed()
        lines.append(f"  page at http://{where.host}:{where.port}/ of {shown.name}")
    return "\n".join(lines)


def _from(source: Feed) -> str:
    if isinstance(source, FileInput):
        speed = f"{source.speed:g} times real time" if source.speed else "as fast as possible"
        place = f"{source.path}, {source.dataset}" if source.dataset else f"{source.path}"
        return f"file {place}, {speed}{', in a loop' if source.loop else ''}"
    if isinstance(source, LslFeed):
        named = {"name": source.name, "type": source.type, "source_id": source.source_id}
        return "lsl " + ", ".join(f"{key} {value}" for key, value in named.items() if value)
    if isinstance(source, ZmqFeed):
        topic = f", topic {source.topic}" if source.topic else ""
        return f"zmq {_socket(source, source.bind)}, {source.socket}{topic}"
    return f"openephys {parse_address(source.address)}"


def _socket(end: ZmqFeed | ZmqOutput, bind: bool) -> str:
    place = f"{'bound to' if bind else 'connected to'} {parse_address(end.address)}"
    return f"{place}, encrypted" if end.curve else place


def _prepared(prepare: Prepare) -> str:
    reference = prepare.reference
    of = reference if reference is None or isinstance(reference, str) else f"mean of {', '.join(reference)}"
    parts = {
        "reference": of,
        "highpass": _hz(prepare.highpass),
        "lowpass": _hz(prepare.lowpass),
        "notch": ", ".join(f"{frequency:g}" for frequency in prepare.notch) + " Hz"
        if prepare.notch
        else None,
        "resample": _hz(prepare.resample),
    }
    return "; ".join(f"{name} {part}" for name, part in parts.items() if part is not None)


def _hz(frequency: float | None) -> str | None:
    return None if frequency is None else f"{frequency:g} Hz"


def _by(stream: Stream) -> str:
    model, learning = stream.model, stream.learning
    if isinstance(model.structure, str):
        structure = f"structure {model.structure}"
    else:
        structure = f"structure in {model.structure.file}"
    if model.structure == "learned":
        again = "" if learning.every is None else f" and every {learning.every:g} s from then on"
        structure += f" after {learning.first:g} s{again}"
    if model.n_sources is not None:
        structure += f"; {model.n_sources} sources"
    return structure if stream.clean is None else f"{structure}; {_out(stream.clean)} taken out"


def _out(clean: Clean) -> str:
    named = [f"source-{source}" for source in clean.exclude]
    return ", ".join(
        [*named, *(f"what is like {one.channel} by {one.min_correlation:g}" for one in clean.exclude_like)]
    )


def _to(sink: Sink) -> str:
    return f"{_place(sink)}{', cleaned channels' if sink.publish == 'cleaned' else ''}"


def _place(sink: Sink) -> str:
    if isinstance(sink, ZmqOutput):
        return f"zmq {_socket(sink, True)}"
    if isinstance(sink, LslOutput):
        return f"lsl outlet {sink.name}"
    return f"hdf5 {sink.path}"
