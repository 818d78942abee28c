"""Summarise what a configuration runs."""

import os
from pathlib import Path

from igbss_stream.daemon.config.clean_section import CleanSection
from igbss_stream.daemon.config.prepare_section import PrepareSection
from igbss_stream.daemon.config.schema import Config, LearningSection, StreamSection
from igbss_stream.daemon.config.sinks import LslOutput, Output, ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, Input, LslInput, ZmqInput
from igbss_stream.feeds.addresses import parse_address


def summarize(config: Config, path: str | os.PathLike[str]) -> str:
    """Return a few lines for each stream on what would run."""
    n_streams = len(config.streams)
    lines = [f"{Path(path)}: {n_streams} {'stream' if n_streams == 1 else 'streams'}"]
    for stream in config.streams:
        lines += [f"  {stream.name}", f"    from  {_describe_source(stream.source)}"]
        if stream.prepare != PrepareSection():
            lines.append(f"    with  {_describe_preparation(stream.prepare)}")
        lines.append(f"    by    {_describe_model(stream)}")
        lines += [f"    to    {_describe_sink(sink)}" for sink in stream.sinks]
    if config.state is not None:
        lines.append(f"  state in {config.state.path}, every {config.state.every:g} s")
    if config.health.endpoint is not None:
        lines.append(
            f"  health at http://{config.health.endpoint.host}:{config.health.endpoint.port}/health"
        )
    if config.view is not None:
        address, (stream, _) = config.view.endpoint, config.find_viewed()
        lines.append(f"  page at http://{address.host}:{address.port}/ of {stream.name}")
    return "\n".join(lines)


def _describe_source(source: Input) -> str:
    if isinstance(source, FileInput):
        speed = f"{source.speed:g} times real time" if source.speed else "as fast as possible"
        place = f"{source.path}, {source.dataset}" if source.dataset else f"{source.path}"
        return f"file {place}, {speed}{', in a loop' if source.loop else ''}"
    if isinstance(source, LslInput):
        named = {"name": source.name, "type": source.type, "source_id": source.source_id}
        return "lsl " + ", ".join(f"{key} {value}" for key, value in named.items() if value)
    if isinstance(source, ZmqInput):
        topic = f", topic {source.topic}" if source.topic else ""
        return f"zmq {_describe_socket(source, source.bind)}, {source.socket}{topic}"
    return f"openephys {parse_address(source.address)}"


def _describe_socket(section: ZmqInput | ZmqOutput, bind: bool) -> str:
    place = f"{'bound to' if bind else 'connected to'} {parse_address(section.address)}"
    return f"{place}, encrypted" if section.curve else place


def _describe_preparation(prepare: PrepareSection) -> str:
    reference = prepare.reference
    parts = {
        "reference": f"mean of {', '.join(reference)}" if isinstance(reference, tuple) else reference,
        "highpass": _format_frequencies(prepare.highpass),
        "lowpass": _format_frequencies(prepare.lowpass),
        "notch": _format_frequencies(*prepare.notch),
        "resample": _format_frequencies(prepare.resample),
    }
    return "; ".join(f"{name} {part}" for name, part in parts.items() if part is not None)


def _format_frequencies(*frequencies: float | None) -> str | None:
    given = [f"{frequency:g}" for frequency in frequencies if frequency is not None]
    return f"{', '.join(given)} Hz" if given else None


def _describe_model(stream: StreamSection) -> str:
    model, learning = stream.model, stream.learning
    if model.file is not None:
        structure = f"model of {model.file}"
        structure += _describe_following(learning) if model.follow else ", kept"
    elif isinstance(model.structure, str):
        structure = f"structure {model.structure}"
    else:
        structure = f"structure in {model.structure.file}"
    if model.structure == "learned" and model.file is None:
        repetition = "" if learning.every is None else f" and then every {learning.every:g} s"
        structure += f" after {learning.first:g} s{repetition}"
    if model.n_sources is not None:
        structure += f"; {model.n_sources} sources"
    return structure if stream.clean is None else f"{structure}; without {_describe_removed(stream.clean)}"


def _describe_following(learning: LearningSection) -> str:
    return ", then a new one" + ("" if learning.every is None else f" every {learning.every:g} s")


def _describe_removed(clean: CleanSection) -> str:
    numbered = [f"source-{source}" for source in clean.exclude]
    labelled = [f"sources labelled {one.label} ({one.min_score:g})" for one in clean.exclude_labelled]
    similar = [f"sources like {like.channel} ({like.min_correlation:g})" for like in clean.exclude_like]
    return ", ".join([*numbered, *similar, *labelled]) or "the sources that are chosen while it runs"


def _describe_sink(sink: Output) -> str:
    return f"{_describe_destination(sink)}{', cleaned channels' if sink.publish == 'cleaned' else ''}"


def _describe_destination(sink: Output) -> str:
    if isinstance(sink, ZmqOutput):
        return f"zmq {_describe_socket(sink, True)}"
    if isinstance(sink, LslOutput):
        return f"lsl outlet {sink.name}"
    return f"hdf5 {sink.path}{'' if sink.rotate is None else f', a new file every {sink.rotate}'}"
