"""The configuration of a run: its values, and mistakes with their places."""

import copy
import functools
import itertools
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import igbss_stream.daemon.config.load
from igbss_stream.daemon.config import reference
from igbss_stream.daemon.config.load import format_keys, load
from igbss_stream.daemon.config.model_section import ExpTransform, ModelSection
from igbss_stream.daemon.config.schema import Config, LearningSection, StreamSection
from igbss_stream.daemon.config.sinks import Hdf5Output, ZmqOutput
from igbss_stream.daemon.config.sources import FileInput, LslInput, OpenEphysInput, ZmqInput
from igbss_stream.daemon.config.yaml_file import Document, read_yaml
from igbss_stream.errors import ConfigError, ParameterError
from igbss_stream.separation.settings import ModelSettings
from tests.configurations import CLIENT, LEAST, SECRET, FindMistakes, LoadConfig, stream, uncommented


def test_least_configuration_has_all_defaults(load_config: LoadConfig) -> None:
    least = StreamSection(name="eeg", source=ZmqInput(address="5555"), sinks=(ZmqOutput(address="5560"),))
    assert load_config(LEAST) == Config(streams=(least,))


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("source", {"kind": "openephys", "unit": "V"}, OpenEphysInput(unit="V")),
        ("source", {"kind": "lsl", "name": "a"}, LslInput(name="a")),
        (
            "source",
            {"kind": "zmq", "address": "*:1", "bind": True, "socket": "pull", "channels": ["a", "b"]},
            ZmqInput(address="*:1", bind=True, socket="pull", channels=("a", "b")),
        ),
        ("learning", {"every": None, "window": 20}, LearningSection(every=None, window=20.0)),
        (
            "model",
            {"transform": {"kind": "exp", "scale": 2}},
            ModelSection(transform=ExpTransform(scale=2.0)),
        ),
        ("model", None, ModelSection()),
    ],
)
def test_values_arrive(load_config: LoadConfig, path: str, value: Any, expected: Any) -> None:
    assert getattr(load_config(stream(**{path: value})).streams[0], path) == expected


def test_section_without_keys_has_its_defaults(load_config: LoadConfig) -> None:
    text = yaml.safe_dump(LEAST) + "health:\n  # port: 1\nlog:\nstate:\n"
    assert load_config(text) == load_config(LEAST)


def test_paths_are_relative_to_the_file(
    load_config: LoadConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    config = load_config(
        stream(
            source={"kind": "file", "path": "../in.h5"},
            sinks=[
                {"kind": "hdf5", "path": path} for path in ("/tmp/out.h5", "~/out.h5", "~nobody-here/x")
            ],
        )
        | {"state": {"path": "models"}}
    )
    assert config.streams[0].source == FileInput(path=tmp_path.parent / "in.h5")
    assert config.streams[0].sinks == (
        Hdf5Output(path=Path("/tmp/out.h5")),
        Hdf5Output(path=Path("/home/somebody/out.h5")),
        Hdf5Output(path=tmp_path / "~nobody-here" / "x"),
    )
    assert config.state is not None
    assert config.state.path == tmp_path / "models"


def test_structs_are_frozen() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        LearningSection().every = 3.0  # type: ignore[misc]


MISTAKES: dict[str, tuple[Any, str]] = {
    "no mapping": ([1], "the file must be a section. Got a list instead."),
    "no streams": ({}, "streams is missing; it must be a list of at least 1."),
    "an empty list": ({"streams": []}, "streams must be a list of at least 1. Got a list instead."),
    "no sink": (stream(sinks=[]), "streams[0].sinks must be a list of at least 1. Got a list instead."),
    "an unknown key": (stream(widnow={}), "streams[0].widnow is not a key here; did you mean window?"),
    "a key like no other": (stream(xyzzy=1), "streams[0].xyzzy is not a key here."),
    "a kind misspelt": (
        stream(source={"kind": "openephis"}),
        "streams[0].source.kind must be one of `zmq`, `openephys`, `lsl`, `file`. Got 'openephis' instead; did you mean openephys?",
    ),
    "no kind": (
        stream(source={"address": "1"}),
        "streams[0].source needs the key kind, which is one of `zmq`, `openephys`, `lsl`, `file`.",
    ),
    "a kind that is a list": (
        stream(source={"kind": ["zmq"]}),
        "streams[0].source.kind must be one of `zmq`, `openephys`, `lsl`, `file`. Got a list instead.",
    ),
    "a key of another kind": (
        stream(source={"kind": "openephys", "topic": "x"}),
        "streams[0].source.topic is not a key here.",
    ),
    "text for a section": (
        stream(learning="often"),
        "streams[0].learning must be a section. Got 'often' instead.",
    ),
    "a number for text": (
        stream(source={"kind": "zmq", "address": 5555}),
        "streams[0].source.address must be an address: tcp://HOST:PORT, ipc://PATH or just a port. Got 5555 instead; write it in quotes.",
    ),
    "no text for a switch": (
        stream(source={"kind": "zmq", "address": "1", "bind": "on"}),
        "streams[0].source.bind must be `true` or `false`. Got 'on' instead.",
    ),
    "a switch for a number": (
        stream(learning={"every": True}),
        "streams[0].learning.every must be a number above 0 up to 86400 or null. Got true instead.",
    ),
    "a number out of bounds": (
        LEAST | {"health": {"port": 70000}},
        "health.port must be a whole number from 0 up to 65535 or null. Got 70000 instead.",
    ),
    "half a number": (
        stream(model={"order": 1.5}),
        "streams[0].model.order must be a whole number from 1. Got 1.5 instead.",
    ),
    "a name misspelt": (
        LEAST | {"log": {"level": "WARN"}},
        "log.level must be one of `debug`, `error`, `info`, `warning`. Got 'WARN' instead; did you mean warning?",
    ),
    "an item of a list": (
        stream(source={"kind": "openephys", "channels": ["a", ""]}),
        "streams[0].source.channels[1] must be a text (not empty). Got '' instead.",
    ),
    "a variable that is no secret": (
        stream(source={"kind": "zmq", "address": "tcp://${HOST}:1"}),
        "streams[0].source.address must be an address: tcp://HOST:PORT, ipc://PATH or just a port. Got 'tcp://${HOST}:1' instead; ${NAME} is replaced in secret keys only.",
    ),
    "a variable in a path": (
        LEAST | {"state": {"path": "${HOME}/x"}},
        "state.path is '${HOME}/x', but ${NAME} is replaced in secret keys only; write the path.",
    ),
    "a path that is a number": (
        LEAST | {"state": {"path": 3}},
        "state.path must be a path. Got 3 instead.",
    ),
    "a window shorter than its hop": (
        stream(window={"length": 1, "hop": 1.5}),
        "streams[0].window.hop must be at most length, 1. Got 1.5 instead.",
    ),
    "a hop longer than learning": (
        stream(learning={"every": 2}, window={"length": 9, "hop": 3}),
        "streams[0].window.hop must be at most learning.every, 2. Got 3 instead.",
    ),
    "learning before its window": (
        stream(learning={"first": 61}),
        "streams[0].learning.first must be at most window, 60. Got 61 instead.",
    ),
    "too far ahead": (
        stream(learning={"ahead": 11}),
        "streams[0].learning.ahead must be at most every, 10. Got 11 instead.",
    ),
    "a fade without end": (
        stream(learning={"fade": 11}),
        "streams[0].learning.fade must be at most every, 10. Got 11 instead.",
    ),
    "a topic of a pull socket": (
        stream(source={"kind": "zmq", "address": "1", "socket": "pull", "topic": "x"}),
        "streams[0].source.topic needs socket: sub; a pull socket receives every stream. Leave topic out.",
    ),
    "no LSL stream": (
        stream(source={"kind": "lsl"}),
        "streams[0].source.name must be set, or type, or source_id, to find the stream.",
    ),
    "a band the wrong way round": (
        stream(prepare={"highpass": 40, "lowpass": 1}),
        "streams[0].prepare.highpass must be below lowpass, 1 Hz. Got 40 Hz instead.",
    ),
    "a frequency that is none": (
        stream(prepare={"notch": [50, 0]}),
        "streams[0].prepare.notch[1] must be a number above 0 up to 1000000000. Got 0 instead.",
    ),
    "a reference misspelt": (
        stream(prepare={"reference": "avarage"}),
        "streams[0].prepare.reference must be one of `average` or a list of names (one per channel) or null. Got 'avarage' instead; did you mean average?",
    ),
    "a reference that is no channel": (
        stream(source={"kind": "openephys", "channels": ["a", "b"]}, prepare={"reference": ["A1"]}),
        "streams[0].prepare.reference names A1, which is no channel of these: a, b.",
    ),
    "an edge beyond the rate": (
        stream(source={"kind": "openephys", "rate": 250}, prepare={"notch": [50, 150]}),
        "streams[0].prepare.notch[1] with half the notch_width must be below 125 Hz, half the rate. Got 151 Hz instead.",
    ),
    "learning at the new rate": (
        stream(
            source={"kind": "openephys", "rate": 250},
            prepare={"resample": 1},
            learning={"first": 1, "ahead": 0},
        ),
        "streams[0].learning.first must be at least 2 samples. Got 1 instead.",
    ),
    "half of min-max": (
        stream(model={"transform": {"kind": "min-max", "low": 1}}),
        "streams[0].model.transform.low needs span, and span needs low: set both or neither.",
    ),
    "what the model says": (
        stream(model={"order": 2}),
        "streams[0].model.order must be 1 in a stream whose structure is learned: products of sources cannot be learned repeatedly while it runs. Got 2 instead.",
    ),
    "what the model says of scaling": (
        stream(model={"structure": "cyclic", "scaling": "back-projected"}),
        "streams[0].model.scaling 'back-projected' requires structure 'learned'; leave it out: the sources of other structures have the unit of the channels.",
    ),
    "a name taken": (
        {"streams": [LEAST["streams"][0], LEAST["streams"][0] | {"name": "EEG"}]},
        "streams[1].name 'EEG' is taken by streams[0]; choose another (upper and lower case count as the same).",
    ),
    "an address twice": (
        stream(sinks=[{"kind": "zmq", "address": "5560"}, {"kind": "zmq", "address": "tcp://*:5560"}]),
        "streams[0].sinks[1].address cannot be bound to tcp://*:5560: streams[0].sinks[0].address is bound to tcp://127.0.0.1:5560; choose another port.",
    ),
    "the address of a source": (
        stream(source={"kind": "zmq", "address": "*:5560", "bind": True}),
        "streams[0].sinks[0].address cannot be bound to tcp://127.0.0.1:5560: streams[0].source.address is bound to tcp://*:5560; choose another port.",
    ),
    "the address of the metrics": (
        LEAST | {"health": {"port": 5560}},
        "health.port cannot be bound to tcp://127.0.0.1:5560: streams[0].sinks[0].address is bound to tcp://127.0.0.1:5560; choose another port.",
    ),
    "the address of the page": (
        LEAST | {"view": {"port": 5560}},
        "view.port cannot be bound to tcp://127.0.0.1:5560: streams[0].sinks[0].address is bound to tcp://127.0.0.1:5560; choose another port.",
    ),
    "a page of no stream": (
        LEAST | {"view": {"stream": "ecg"}},
        "view.stream must be one of eeg. Got 'ecg' instead.",
    ),
    "a page of several streams": (
        {"streams": [LEAST["streams"][0], {"name": "b", "source": {"kind": "lsl", "name": "b"}, "sinks": [{"kind": "lsl", "name": "c"}]}], "view": {}},
        "view.stream must name the stream to show, because there are several.",
    ),
    "a page without a socket it can read": (
        stream(sinks=[{"kind": "zmq", "address": "*"}, {"kind": "lsl", "name": "a"}]) | {"view": {}},
        "view needs a sink of kind zmq in stream 'eeg' that publishes sources at a fixed port, from which the page reads. Add one at 127.0.0.1.",
    ),
    "an outlet twice": (
        stream(sinks=[{"kind": "lsl", "name": "a"}, {"kind": "lsl", "name": "a"}]),
        "streams[0].sinks[1].name 'a' is used by streams[0].sinks[0] as well; choose another.",
    ),
    "no role": (
        stream(source={"kind": "zmq", "address": "1", "curve": {"secret_key": "${KEY}"}}),
        "streams[0].source.curve needs the key role, which is one of `client`, `server`.",
    ),
    "the role of a client in a sink": (
        stream(sinks=[{"kind": "zmq", "address": "1", "curve": CLIENT}]),
        "streams[0].sinks[0].curve.role must be one of `server`. Got 'client' instead.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_reported_with_its_place(
    find_mistakes: FindMistakes, content: Any, message: str
) -> None:
    (line,) = find_mistakes(content)
    assert line.partition(" ")[2] == message


def test_an_error_about_no_key_is_reported_at_the_section(
    find_mistakes: FindMistakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settings(_: ModelSection) -> ModelSettings:
        raise ParameterError("nothing of this can be separated.")

    monkeypatch.setattr(ModelSection, "as_settings", settings)
    assert find_mistakes(LEAST) == ["2: streams[0].model nothing of this can be separated."]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("order", "2: streams[0].model.order is wrong."),
        ("structure.file", "2: streams[0].model.structure.file is wrong."),
        ("structure[1]", "2: streams[0].model.structure[1] is wrong."),
        (None, "2: streams[0].model order is wrong."),
    ],
)
def test_an_error_is_reported_at_the_parameter_that_it_states(
    find_mistakes: FindMistakes, monkeypatch: pytest.MonkeyPatch, parameter: str | None, expected: str
) -> None:
    def settings(_: ModelSection) -> ModelSettings:
        raise ParameterError(f"{parameter or 'order'} is wrong.", parameter=parameter)

    monkeypatch.setattr(ModelSection, "as_settings", settings)
    assert find_mistakes(LEAST) == [expected]


def test_output_is_no_input(load_config: LoadConfig, tmp_path: Path) -> None:
    path = str(tmp_path / "a.h5")
    with pytest.raises(ConfigError, match=r"sinks\[0\]\.path .* is used by streams\[0\]\.source as well"):
        load_config(stream(source={"kind": "file", "path": path}, sinks=[{"kind": "hdf5", "path": path}]))


def test_a_state_has_a_separate_file(load_config: LoadConfig, tmp_path: Path) -> None:
    path = str(tmp_path / "eeg.h5")
    sink, source = {"kind": "hdf5", "path": path}, {"kind": "file", "path": path}
    config = stream(sinks=[sink]) | {"state": {"path": str(tmp_path)}}
    with pytest.raises(ConfigError, match=r"sinks\[0\]\.path .* is used by state as well"):
        load_config(config)
    config = stream(source=source) | {"state": {"path": str(tmp_path)}}
    with pytest.raises(ConfigError, match=r"state\.path .* is used by streams\[0\]\.source as well"):
        load_config(config)


def test_all_mistakes_are_reported_at_once_with_their_lines(find_mistakes: FindMistakes) -> None:
    text = """\
    streams:
      - name: eeg
        source: {kind: zmq, adress: "5555"}
        window: {length: 1,
                 hop: 2}
        sinks:
          - kind: zmq
            address: "5560"
            queue: 0
    lgo:
      level: loud
    """
    assert [line.split(" ")[:2] for line in find_mistakes(text)] == [
        ["10:", "lgo"],
        ["3:", "streams[0].source.adress"],
        ["3:", "streams[0].source.address"],
        ["5:", "streams[0].window.hop"],
        ["9:", "streams[0].sinks[0].queue"],
    ]


ODD: list[Any] = [None, "x", "${KEY}", -1, 1e30, True, [None], {"a": 1}]


@pytest.mark.parametrize("kind", ["zmq", "openephys", "lsl", "file"])
def test_no_value_breaks_the_reader(monkeypatch: pytest.MonkeyPatch, run_file: Path, kind: str) -> None:
    """Put odd values in every place of a full configuration: each is loaded, or refused near its place."""
    tree = full(kind, run_file)
    assert outcome(monkeypatch, run_file, tree) == ""
    n_refused = 0
    places = [path for path in paths(tree) if kind == "zmq" or "source" in path]  # the rest is the same
    for path, odd in itertools.product(places, ODD):
        message = outcome(monkeypatch, run_file, with_value(tree, path, odd))
        assert SECRET not in message
        assert not message or f": {format_keys(path[:-1]) if path[1:] else ''}" in message, (
            path,
            odd,
            message,
        )
        n_refused += bool(message)
    assert n_refused > 4 * len(places)


def outcome(monkeypatch: pytest.MonkeyPatch, run_file: Path, tree: Any) -> str:
    """Return the message about a content, or nothing if it is valid; skip YAML, which is slow."""
    monkeypatch.setattr(
        igbss_stream.daemon.config.load, "read_yaml", lambda path: Document(path, tree, {(): 1})
    )
    try:
        load(run_file, {"KEY": SECRET})
    except ConfigError as error:
        return str(error)
    return ""


def with_value(tree: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a content with one value replaced."""
    if not path:
        return copy.deepcopy(value)
    content = copy.deepcopy(tree)
    functools.reduce(operator.getitem, path[:-1], content)[path[-1]] = copy.deepcopy(value)
    return content


def full(kind: str, run_file: Path) -> Any:
    """Return a configuration with a value for every key of a kind of source."""
    run_file.write_text(uncommented(reference.build_template(kind, "zmq")).replace("IGBSS_KEY", "KEY"))
    tree = read_yaml(run_file).tree
    tree["streams"][0]["sinks"] += [{"kind": "hdf5", "path": "a.h5"}, {"kind": "lsl", "name": "x"}]
    tree["streams"][0]["model"]["transform"] = {"kind": "min-max", "margin": 0.2, "low": 0.0, "span": 1.0}
    return tree


def paths(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield from paths(value, (*at, key))
