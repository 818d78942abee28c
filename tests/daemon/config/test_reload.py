"""Reload of a configuration: which changes apply at once, and which need a restart."""

import copy
from typing import Any

import pytest

from igbss_stream.daemon.config.load import format_keys
from igbss_stream.daemon.config.reload import apply_reloadable, iter_differences
from tests.configurations import LEAST, LoadConfig


def full() -> dict[str, Any]:
    """Return a configuration of two streams, the second from a file."""
    first = copy.deepcopy(LEAST["streams"][0])
    second = {
        "name": "file",
        "source": {"kind": "file", "path": "in.h5"},
        "sinks": [{"kind": "hdf5", "path": "out.h5"}],
    }
    return {"streams": [first, second], "state": {"path": "state"}}


def changed(where: str, value: Any) -> dict[str, Any]:
    """Return the configuration with one value, such as ``streams.0.name``, changed; `None` removes it."""
    content = full()
    *path, last = (int(key) if key.isdigit() else key for key in where.split("."))
    inner: Any = content
    for key in path:
        inner = inner[key] if isinstance(key, int) else inner.setdefault(key, {})
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return content


@pytest.mark.parametrize(
    ("where", "value", "named"),
    [
        ("log.level", "debug", "log.level"),
        ("state.every", 5, "state.every"),
        ("streams.0.source.silence", 9, "streams[0].source.silence"),
    ],
)
def test_some_values_apply_at_once(load_config: LoadConfig, where: str, value: Any, named: str) -> None:
    now, new = load_config(full()), load_config(changed(where, value))
    assert apply_reloadable(now, new) == new
    assert [(format_keys(keys), after) for keys, after in iter_differences(now, new)] == [(named, value)]


@pytest.mark.parametrize(
    ("where", "value", "named"),
    [
        ("log.format", "json", "log.format"),
        ("state.path", "elsewhere", "state.path"),
        ("state", None, "state"),
        ("health.port", 9464, "health.port"),
        ("streams.0.learning.every", 7, "streams[0].learning.every"),
        ("streams.0.source.queue", 7, "streams[0].source.queue"),
        ("streams.0.source", {"kind": "openephys", "silence": 9}, "streams[0].source"),
        ("streams.0.model.transform", {"kind": "exp", "scale": 2}, "streams[0].model.transform"),
        ("streams.1.source.speed", 2, "streams[1].source.speed"),
        ("streams.1.sinks.0.flush", 2, "streams[1].sinks[0].flush"),
        ("streams.1.sinks.0.if_exists", "number", "streams[1].sinks[0].if_exists"),
        ("streams.1", None, "streams"),
    ],
)
def test_other_values_need_a_restart(load_config: LoadConfig, where: str, value: Any, named: str) -> None:
    now, new = load_config(full()), load_config(changed(where, value))
    assert apply_reloadable(now, new) == now
    assert [format_keys(keys) for keys, _ in iter_differences(now, new)] == [named]


def test_the_silence_of_another_stream_is_not_applied(load_config: LoadConfig) -> None:
    other = changed("streams.0.source.silence", 9)
    other["streams"][0]["name"] = "other"
    now, new = load_config(full()), load_config(other)
    assert apply_reloadable(now, new) == now
    assert [format_keys(keys) for keys, _ in iter_differences(now, new)] == [
        "streams[0].name", "streams[0].source.silence",
    ]  # fmt: skip


def test_an_equal_configuration_has_no_differences(load_config: LoadConfig) -> None:
    now = load_config(full())
    assert apply_reloadable(now, load_config(full())) == now
    assert list(iter_differences(now, load_config(full()))) == []
