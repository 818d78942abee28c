"""Apply a changed configuration to a running daemon, and list the differences."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from igbss_stream.daemon.config.base import Section
from igbss_stream.daemon.config.schema import Config, StreamSection
from igbss_stream.daemon.config.yaml_file import KeyPath


def apply_reloadable(current: Config, new: Config) -> Config:
    """Return the current configuration with the values of a new one that can change while the daemon runs.

    Parameters
    ----------
    current : Config
        The active configuration.
    new : Config

    Returns
    -------
    Config
        `current`, with ``log.level``, ``state.every`` and ``source.silence`` of `new`.
    """
    state, streams = current.state, current.streams
    if state is not None and new.state is not None:
        state = replace(state, every=new.state.every)
    if len(streams) == len(new.streams):
        streams = tuple(map(_apply_to_stream, streams, new.streams))
    return replace(current, log=replace(current.log, level=new.log.level), state=state, streams=streams)


def _apply_to_stream(current: StreamSection, new: StreamSection) -> StreamSection:
    before, after = current.source, new.source
    if current.name != new.name or type(before) is not type(after) or not hasattr(after, "silence"):
        return current
    return replace(current, source=replace(before, silence=after.silence))


def iter_differences(before: Any, after: Any, keys: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the keys at which two configurations differ, with the values of the second.

    Parameters
    ----------
    before, after : Config, or a value within one
    keys : tuple of str and int
        Keys of the two values from the root.

    Yields
    ------
    tuple of str and int
        Keys and indices from the root. If sections differ in kind, or lists in length, the keys of the
        whole section or list.
    object
        The second value.
    """
    if isinstance(before, Section) and type(before) is type(after):
        for name in before.__struct_fields__:
            yield from iter_differences(getattr(before, name), getattr(after, name), (*keys, name))
    elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after):
        for i, pair in enumerate(zip(before, after, strict=True)):
            yield from iter_differences(*pair, (*keys, i))
    elif before != after:
        yield keys, after
