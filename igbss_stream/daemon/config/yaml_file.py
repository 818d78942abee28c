"""Read a YAML file as plain values, with the line of each.

Scalars follow YAML 1.2, where ``on``, ``no`` and ``12:30`` are text and ``1e-6`` is a number. In YAML 1.1,
the default of PyYAML, it is the other way round. Nothing is executed, duplicate keys are refused, and the
size of the file and of its expanded aliases is limited.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from igbss_stream.errors import ConfigError

MAX_BYTES = 1 << 20
_MAX_VALUES = 100_000  # aliases of aliases can expand to any number

_EXCERPT = re.compile(r"'(?!<|\\t')[^']{2,}'")  # all quoted text except single characters and '<tokens>'

_SURROGATE = re.compile("[\ud800-\udfff]")  # only an escape can write one

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """The content of a YAML file.

    Parameters
    ----------
    path : Path
        The file.
    tree : object
        Its values: dict, list, str, int, float, bool and None.
    lines : dict
        Line of each value, from 1, by its keys and indices from the root.
    """

    path: Path
    tree: Any
    lines: dict[KeyPath, int]

    def locate(self, keys: KeyPath) -> str:
        """Return file and line of a value, or of the section in which it is missing."""
        while keys not in self.lines:
            keys = keys[:-1]
        return f"{self.path}:{self.lines[keys]}"


def read_yaml(path: Path) -> Document:
    """Read a YAML file.

    Parameters
    ----------
    path : Path

    Returns
    -------
    Document

    Raises
    ------
    ConfigError
        If the file cannot be read, or is not a single YAML document of the subset that is allowed.
    """
    text = _read_text(path)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise ConfigError(f"{path} is empty; `igbss-stream init` writes a file to start from")
        lines: dict[KeyPath, int] = {}
        tree = loader.construct_document(node)
        _note_lines(node, _get_line(node), (), lines)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_format_error(error, path)) from None
    except yaml.YAMLError:
        raise ConfigError(f"{path} contains control characters; save it as plain text in UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{path} is nested too deeply; remove aliases that contain themselves") from None
    return Document(path, tree, lines)


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_BYTES} bytes; give a configuration")
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist; `igbss-stream init {path}` writes one to start from"
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def _format_error(error: yaml.MarkedYAMLError, path: Path) -> str:
    """Return the error as one line, without excerpts of the file, which might reveal a secret."""
    mark = error.problem_mark or error.context_mark
    line = f":{mark.line + 1}" if mark else ""
    problem = _EXCERPT.sub("(...)", error.problem or "it cannot be read")
    context = f" ({error.context})" if error.context else ""
    return f"{path}{line}: {problem}{context}"


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2, without tags."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as in the base class

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a value, and refuse tags and text that UTF-8 cannot represent."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # missing in the stubs
        if getattr(event, "tag", None):
            raise _build_error("tags, which begin with !, are not allowed; write a text in quotes", event)
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode) and _SURROGATE.search(node.value):
            raise _build_error("a text has half a character (\\ud800 to \\udfff); write it whole", node)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Compose a mapping, and refuse keys that are duplicate or not text."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if key.tag != _TEXT:
                raise _build_error("a key is not text; write it in quotes", key)
            if key.value in seen:
                raise _build_error(
                    f"{key.value} is already set on line {seen[key.value]}; remove one of them", key
                )
            seen[key.value] = _get_line(key)
        return node


def _get_line(node: Any) -> int:
    return int(node.start_mark.line) + 1


def _build_error(text: str, node: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=text, problem_mark=node.start_mark)


def _parse_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    number = float(node.value)
    if not math.isfinite(number):
        raise _build_error("a number is too large; write a smaller one", node)
    return number


def _parse_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    return int(node.value)


_TEXT = "tag:yaml.org,2002:str"
_BOOL, _INT, _FLOAT, _NULL = (f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null"))
for _tag, _pattern, _first in (
    (_BOOL, r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (_INT, r"[-+]?[0-9]{1,18}", "-+0123456789"),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))
_Loader.add_constructor(_FLOAT, _parse_float)
_Loader.add_constructor(_INT, _parse_int)


def _note_lines(node: yaml.Node, line: int, keys: KeyPath, lines: dict[KeyPath, int]) -> None:
    """Note the line of a value, which is that of its key, and of all values within it."""
    if len(lines) >= _MAX_VALUES:
        raise _build_error("aliases expand to too many values; write fewer of them", node)
    lines[keys] = line
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _note_lines(value, _get_line(key), (*keys, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            _note_lines(value, _get_line(value), (*keys, i), lines)
