"""Secrets and addresses of a configuration, and warnings about it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from igbss_stream.daemon.config.keys import CurveClientSection, CurveServerSection, Secret
from igbss_stream.daemon.config.lint import lint
from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.sinks import ZmqOutput
from igbss_stream.daemon.config.sources import ZmqInput
from igbss_stream.daemon.config.summary import summarize
from igbss_stream.daemon.config.web_sections import HealthSection
from igbss_stream.errors import ConfigError, ParameterError
from igbss_stream.feeds.addresses import check_address, parse_address
from tests.configurations import CLIENT, LEAST, PUBLIC, SECRET, SERVER, LoadConfig, stream


def test_secret_comes_from_the_environment(load_config: LoadConfig) -> None:
    config = load_config(stream(source={"kind": "zmq", "address": "1", "curve": CLIENT}))
    source = config.streams[0].source
    assert isinstance(source, ZmqInput)
    assert isinstance(source.curve, CurveClientSection)
    assert source.curve.secret_key.value == SECRET
    assert source.curve == CurveClientSection(server_key=PUBLIC, secret_key=Secret(SECRET))
    assert hash(source.curve) == hash(CurveClientSection(server_key=PUBLIC, secret_key=Secret(SECRET)))


def test_environment_of_the_process_is_the_default(
    load_config: LoadConfig, run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = stream(source={"kind": "zmq", "address": "1", "curve": CLIENT})
    expected = load_config(content)
    monkeypatch.setenv("KEY", SECRET)
    assert load(run_file) == expected
    monkeypatch.delenv("KEY")
    with pytest.raises(
        ConfigError, match=r"secret_key needs the environment variable KEY, which is not set"
    ):
        load(run_file)


@pytest.mark.parametrize("given", ["${KEY}", SECRET])
def test_secret_is_never_shown(load_config: LoadConfig, run_file: Path, given: str) -> None:
    curve = CLIENT | {"secret_key": given}
    server = SERVER | {"secret_key": given}
    config = load_config(
        stream(
            source={"kind": "zmq", "address": "1", "curve": curve},
            sinks=[{"kind": "zmq", "address": "2", "curve": server}],
        )
    )
    shown = [repr(config), str(config), summarize(config, run_file), *lint(config, run_file)]
    assert not any(SECRET in text for text in shown)
    assert PUBLIC in repr(config)
    with pytest.raises(TypeError):
        msgspec.json.encode(config)


@pytest.mark.parametrize(
    ("secret", "words"),
    [
        (SECRET[:-1], "must be a secret key of 40 characters (Z85), or ${NAME}"),
        (SECRET + "\n", "This is not a key."),
        (12345, "This is not a key."),
        ([SECRET], "This is not a key."),
        ({"value": SECRET, "variable": None}, "This is not a key."),
        ("${KEY} ", "This is not a key."),
        ("${NOT_SET}", "needs the environment variable NOT_SET, which is not set"),
        ("${SHORT}", "The variable SHORT contains no such key."),
    ],
)
def test_invalid_secret(run_file: Path, secret: Any, words: str) -> None:
    content = stream(source={"kind": "zmq", "address": "1", "curve": CLIENT | {"secret_key": secret}})
    run_file.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError) as caught:
        load(run_file, {"KEY": SECRET, "SHORT": SECRET[1:]})
    assert words in str(caught.value)
    assert SECRET[1:-1] not in str(caught.value)


@pytest.mark.parametrize("key", ["server_key", "role", "secret_kye"])
def test_secret_in_the_wrong_place_is_not_shown(load_config: LoadConfig, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(
            stream(source={"kind": "zmq", "address": SECRET, "curve": CLIENT | {key: SECRET + "="}})
        )
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("start", ["*", "&", "!", "@", "%", "{", "["])
def test_secret_without_quotes_is_not_shown(run_file: Path, start: str) -> None:
    run_file.write_text(f"a: {start}{SECRET[:39]}\nb: [")
    with pytest.raises(ConfigError) as caught:
        load(run_file)
    assert SECRET[:39] not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "full", "local"),
    [
        ("5556", "tcp://127.0.0.1:5556", True),
        ("localhost:5556", "tcp://127.0.0.1:5556", True),
        ("tcp://10.0.0.1:5556", "tcp://10.0.0.1:5556", False),
        ("tcp://*:5556", "tcp://*:5556", False),
        ("*", "tcp://127.0.0.1:*", True),
        ("tcp://[::1]:5556", "tcp://[::1]:5556", True),
        ("tcp://[::]:5556", "tcp://[::]:5556", False),
        ("ipc:///tmp/a", "ipc:///tmp/a", True),
    ],
)
def test_addresses(address: str, full: str, local: bool) -> None:
    check_address(address, bind=True)
    assert str(parse_address(address)) == full
    assert parse_address(address).is_local == local


@pytest.mark.parametrize(
    ("address", "bind", "words"),
    [
        ("udp://a:1", True, "address must be tcp://HOST:PORT"),
        ("tcp://a", True, "address must be tcp://HOST:PORT"),
        ("tcp://a:b", True, "address must be tcp://HOST:PORT"),
        ("5556\n", True, "address must be tcp://HOST:PORT"),
        ("a:65536", True, "a port of at most 65535. Got 65536"),
        ("tcp://*:5556", False, "a host and a port to connect to"),
        ("tcp://a:*", False, "a host and a port to connect to"),
        ("0", False, "a host and a port to connect to"),
    ],
)
def test_invalid_addresses(address: str, bind: bool, words: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(words)):
        check_address(address, bind=bind)


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("1", "1", True),
        ("1", "2", False),
        ("1", "localhost:1", True),
        ("1", "*:1", True),
        ("tcp://[::]:1", "1", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("*:*", "*:*", False),
        ("0", "0", False),
        ("ipc://a", "ipc://a", True),
        ("ipc://a", "ipc://b", False),
        ("ipc://1", "1", False),
    ],
)
def test_clashes(one: str, other: str, clash: bool) -> None:
    assert parse_address(one).conflicts_with(parse_address(other)) == clash
    assert parse_address(other).conflicts_with(parse_address(one)) == clash


def test_ipv6_host_of_the_metrics() -> None:
    assert str(HealthSection(host="::1", port=1).endpoint) == "tcp://[::1]:1"
    assert HealthSection(host="::1").endpoint is None


OPEN = "is open to the network without encryption"
CAUTIONS: dict[str, tuple[Any, list[str]]] = {
    "nothing": (LEAST, []),
    "an open sink": (stream(sinks=[{"kind": "zmq", "address": "*:1"}]), [f"streams[0].sinks[0].address {OPEN}"]),
    "an open source": (
        stream(source={"kind": "zmq", "address": "10.0.0.1:1", "bind": True}),
        [f"streams[0].source.address {OPEN}"],
    ),
    "a source elsewhere": (stream(source={"kind": "zmq", "address": "10.0.0.1:1"}), []),
    "an encrypted sink": (stream(sinks=[{"kind": "zmq", "address": "*:1", "curve": SERVER}]), []),
    "a server for all": (
        stream(sinks=[{"kind": "zmq", "address": "*:1", "curve": SERVER | {"allowed": None}}]),
        ["streams[0].sinks[0].curve.allowed admits every client"],
    ),
    "a page of what is encrypted": (
        stream(sinks=[{"kind": "zmq", "address": "*:1", "curve": SERVER}]) | {"view": {}},
        ["view shows an encrypted stream to every user"],
    ),
    "open metrics": (LEAST | {"health": {"host": "0.0.0.0", "port": 1}}, ["health.host is open to the network"]),
    "a secret in the file": (
        stream(source={"kind": "zmq", "address": "1", "curve": CLIENT | {"secret_key": SECRET}}),
        ["secret_key is in "],
    ),
    "learning in vain": (
        stream(model={"structure": "cyclic"}, learning={"every": 3}),
        ["streams[0].learning has no effect"],
    ),
    "a replay at full speed": (
        stream(source={"kind": "file", "path": "in.h5", "speed": 0}),
        ["streams[0].sinks[0] may lose messages"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), CAUTIONS.values(), ids=CAUTIONS)
def test_cautions(load_config: LoadConfig, run_file: Path, content: Any, expected: list[str]) -> None:
    run_file.touch(0o644)
    found = lint(load_config(content), run_file)
    assert len(found) == len(expected), found
    for text, start in zip(found, expected, strict=True):
        assert text.startswith(start)


def test_secret_in_a_private_file_is_no_concern(load_config: LoadConfig, run_file: Path) -> None:
    run_file.touch(0o600)
    curve = SERVER | {"secret_key": SECRET}
    config = load_config(stream(sinks=[{"kind": "zmq", "address": "*:1", "curve": curve}]))
    assert isinstance(config.streams[0].sinks[0], ZmqOutput)
    assert isinstance(config.streams[0].sinks[0].curve, CurveServerSection)
    run_file.chmod(0o600)
    assert lint(config, run_file) == []
