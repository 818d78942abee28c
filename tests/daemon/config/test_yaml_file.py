"""YAML files: which values are read, and which files are refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from igbss_stream.daemon.config.load import load
from igbss_stream.daemon.config.yaml_file import MAX_BYTES, read_yaml
from igbss_stream.errors import ConfigError
from tests.configurations import LEAST, FindMistakes, LoadConfig


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6),
        ("-1.5E+3", -1500.0),
        (".5", 0.5),
        ("010", 10),
        ("+3", 3),
        ("1:30", "1:30"),
        ("on", "on"),
        ("no", "no"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("2024-01-01", "2024-01-01"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("9" * 18, 999999999999999999),
        ("9" * 19, 1e19),
        ("'12'", "12"),
        ("é", "é"),
    ],
)
def test_scalars(run_file: Path, text: str, value: Any) -> None:
    run_file.write_text(f"key: {text}\n")
    found = read_yaml(run_file).tree["key"]
    assert (found, type(found)) == (value, type(value))


BAD_YAML = {
    "a tab": ("a:\n\tb: 1", ":2: ", "'\\t'"),
    "a key twice": ("a: 1\nb: 2\na: 3", ":3: a is already set on line 1", ""),
    "a key twice on a line": ("{a: 1, a: 1}", ":1: a is already set on line 1", ""),
    "a key twice within": ("a:\n  - b: 1\n    b: 1", ":3: b is already set on line 2", ""),
    "a number as a key": ("1: 2", ":1: a key is not text", "quotes"),
    "a list as a key": ("? [a]\n: b", ":1: a key is not text", ""),
    "an object of Python": ("a: !!python/object/apply:os.system [echo]", ":1: tags", "quotes"),
    "a tag": ("a: !!float abc", ":1: tags", ""),
    "a tag of a list": ("a: !x [1]", ":1: tags", ""),
    "two documents": ("a: 1\n---\nb: 1", "a single document", ""),
    "an open bracket": ("a: [1\nb: 1", ":2: ", ""),
    "too large a number": ("a: 1e999", ":1: a number is too large", ""),
    "nothing": ("# only this\n", "is empty", "igbss-stream init"),
    "depth": ("[" * 1500, "nested too deeply", ""),
    "itself": ("a: &a [*a]", "nested too deeply", ""),
    "control characters": ("a: \x01", "control characters", "UTF-8"),
    "half a character": ('a:\n  - "b\\ud800"', "run.yaml:2: a text has half a character", "write it whole"),
    "half a character in a key": ('"k\\udfff": 1', "half a character", "write it whole"),
    "both halves of a character": ('a: "\\ud83d\\ude00"', "half a character", "write it whole"),
    "aliases of aliases": (
        "\n".join(["a: &a [1,1,1,1,1,1,1,1,1,1]"] + [f"{x}: &{x} [{','.join(['*' + y] * 10)}]" for x, y in zip("bcdefgh", "abcdefg", strict=True)]),
        "expand to too many values",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "words", "remedy"), BAD_YAML.values(), ids=BAD_YAML)
def test_yaml_that_is_refused(run_file: Path, text: str, words: str, remedy: str) -> None:
    run_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(run_file)
    assert str(run_file) in str(caught.value)
    assert words in str(caught.value)
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


def test_merge_keys_are_refused(find_mistakes: FindMistakes) -> None:
    (line,) = find_mistakes(yaml.safe_dump(LEAST) + "log: {<<: {level: info}}")
    assert "log.<< is not a key here" in line


def test_aliases_are_allowed(load_config: LoadConfig) -> None:
    first, second = load_config(
        """
        streams:
          - name: one
            source: &source {kind: zmq, address: "5555"}
            sinks: [{kind: zmq, address: "5560"}]
          - name: two
            source: *source
            sinks: [{kind: zmq, address: "5561"}]
        """
    ).streams
    assert first.source == second.source


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: \xff", "is not UTF-8 (byte 3)"),
        (b"#" * (MAX_BYTES + 1), "is larger than 1048576 bytes"),
        (None, "`igbss-stream init"),
    ],
)
def test_files_that_cannot_be_read(run_file: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        run_file.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(words)):
        load(run_file)


def test_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_byte_order_mark_is_skipped(run_file: Path) -> None:
    run_file.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(run_file).tree == {"a": 1}
