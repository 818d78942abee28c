"""A configuration that is read again: what a daemon can take over while it runs, and what else differs."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from igbss_stream.daemon.config.base import Section
from igbss_stream.daemon.config.schema import Config, Stream
from igbss_stream.daemon.config.yaml_file import KeyPath


def taken_over(now: Config, new: Config) -> Config:
    """Return a configuration with what can change while it runs as another has it.

    Parameters
    ----------
    now : Config
        What is in force.
    new : Config

    Returns
    -------
    Config
        `now`, with ``log.level``, ``state.every`` and ``source.silence`` of `new`.
    """
    state, streams = now.state, now.streams
    if state is not None and new.state is not None:
        state = replace(state, every=new.state.every)
    if len(streams) == len(new.streams):
        streams = tuple(map(_stream, streams, new.streams))
    return replace(now, log=replace(now.log, level=new.log.level), state=state, streams=streams)


def _stream(now: Stream, new: Stream) -> Stream:
    before, after = now.source, new.source
    if now.name != new.name or type(before) is not type(after) or not hasattr(after, "silence"):
        return now
    return replace(now, source=replace(before, silence=after.silence))


def differences(before: Any, after: Any, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield where two configurations differ, and what stands there in the second.

    Parameters
    ----------
    before, after : Config, or a value within one
    keys : tuple of str and int
        Where the values are.

    Yields
    ------
    tuple of str and int
        Keys and indices from the root; of a section of another kind, and of a list of another length, those
        of the whole.
    object
        The second value.
    """
    if isinstance(before, Section) and type(before) is type(after):
        for name in before.__struct_fields__:
            yield from differences(getattr(before, name), getattr(after, name), (*keys, name))
    elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        for i, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, (*keys, i))
    elif before != after:
        yield keys, after
